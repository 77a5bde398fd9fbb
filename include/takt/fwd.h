// Forward declarations.
#ifndef TAKT_FWD_H_
#define TAKT_FWD_H_

namespace takt {

class AnyPolicy;
class AnyPause;
class KvOracle;

}  // namespace takt

#endif  // TAKT_FWD_H_
