// Registers rules of other systems before main, for tests that name such rules.
#ifndef TAKT_TESTS_WITH_RIVALS_H_
#define TAKT_TESTS_WITH_RIVALS_H_

#include "takt/rivals/rivals.h"

namespace takt {

inline const absl::Status rivals_registered = RegisterRivals();

}  // namespace takt

#endif  // TAKT_TESTS_WITH_RIVALS_H_
