// The second translation unit: what a header defines twice does not link.
#include "all_headers.h"

double FromSecondUnit(const takt::Estimate& estimate) { return estimate.Quantile(0.5); }
