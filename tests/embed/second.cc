// The second translation unit: a definition in a header without inline would not link.
#include "all_headers.h"

double FromSecondUnit(const takt::Estimate& estimate) { return estimate.Quantile(0.5); }
