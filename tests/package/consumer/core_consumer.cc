#include "takt/base/random.h"
#include "takt/model/estimate.h"

int main() { return takt::Estimate::Exact(300).known() && takt::Random(1).Uniform() < 1 ? 0 : 1; }
