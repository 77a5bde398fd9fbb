// An index of a record in a vector, constant while the record exists.
#ifndef TAKT_BASE_SLOT_H_
#define TAKT_BASE_SLOT_H_

#include <cstdint>

namespace takt {

using Slot = std::uint32_t;
inline constexpr Slot kNoSlot = UINT32_MAX;

}  // namespace takt

#endif  // TAKT_BASE_SLOT_H_
