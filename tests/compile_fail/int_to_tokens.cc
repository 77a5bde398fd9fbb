#include "takt/base/count.h"

takt::Tokens FromNumber(int number) {
#ifdef TAKT_MUST_FAIL
  return number;
#else
  return takt::Tokens{number};
#endif
}
