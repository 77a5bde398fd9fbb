// A place in a vector, by which a record is named while it is there.
#ifndef TAKT_BASE_SLOT_H_
#define TAKT_BASE_SLOT_H_

#include <cstdint>

namespace takt {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = UINT32_MAX;

}  // namespace takt

#endif  // TAKT_BASE_SLOT_H_
