#include "takt/base/count.h"

int ToNumber(takt::Tokens tokens) {
#ifdef TAKT_MUST_FAIL
  return tokens;
#else
  return tokens.value;
#endif
}
