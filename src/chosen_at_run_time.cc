#include "takt/router.h"
#include "takt/scheduler.h"

namespace takt {

template class BasicScheduler<AnyPolicy, AnyPause>;
template class BasicRouter<AnyPolicy, AnyPlacement>;

}  // namespace takt
