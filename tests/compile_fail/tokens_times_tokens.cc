#include "takt/base/count.h"

auto Product(takt::Tokens tokens) {
#ifdef TAKT_MUST_FAIL
  return tokens * tokens;
#else
  return tokens.value * tokens.value;
#endif
}
