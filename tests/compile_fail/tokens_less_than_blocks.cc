#include "takt/base/count.h"

bool Less(takt::Tokens tokens, [[maybe_unused]] takt::Blocks blocks) {
#ifdef TAKT_MUST_FAIL
  return tokens < blocks;
#else
  return tokens < tokens;
#endif
}
