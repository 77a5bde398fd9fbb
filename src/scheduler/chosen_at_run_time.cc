#include "takt/scheduler.h"

namespace takt {

template class BasicScheduler<AnyPolicy, AnyPause>;

}  // namespace takt
