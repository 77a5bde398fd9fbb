// Framing of records in a log, which distinguishes damage from a truncated end; see docs/howto/record.md.
#ifndef TAKT_SRC_RECORD_FRAME_H_
#define TAKT_SRC_RECORD_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace takt::internal {

inline constexpr std::string_view kLogMagic = "takt log";
inline constexpr char kLogVersion = 1;
inline constexpr std::size_t kLogHeaderBytes = kLogMagic.size() + 1;

// A record's kind is the index of its alternative in LogRecord.
void AppendFrame(std::string& out, std::uint8_t kind, std::string_view body);

struct Frame {
  enum class State : std::uint8_t { kWhole, kCutOff, kDamaged } state = State::kCutOff;
  std::uint8_t kind = 0;
  std::string_view body;
  std::size_t bytes = 0;  // size of the whole frame
};

// Reads the frame at the front of `in`. A frame longer than `in` is truncated, unless the available part of its header
// is damaged.
Frame ReadFrame(std::string_view in);

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_FRAME_H_
