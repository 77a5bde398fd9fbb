// How records stand in a log, one after the other, and how damage is told from an end: see docs/howto/record.md.
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
  std::size_t bytes = 0;  // of the whole frame
};

// The frame at the beginning of `in`. Where `in` ends before it does, it is cut off, unless what is there of its
// head is damaged.
Frame ReadFrame(std::string_view in);

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_FRAME_H_
