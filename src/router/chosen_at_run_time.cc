#include "takt/router.h"

namespace takt {

template class BasicRouter<AnyPolicy, AnyPlacement>;

}  // namespace takt
