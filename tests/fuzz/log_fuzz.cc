// Any bytes as a log, and as the contents of a log whose checksums are right: the reader, the dump and the replay
// come to an end, and what is read is written back the same.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "record/frame.h"
#include "takt/record.h"

namespace takt {
namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Whether a replay stays within what a fuzzer can afford.
bool Small(std::string_view log) {
  auto reader = LogReader::Open(log);
  while (reader.ok()) {
    const auto record = reader->Next();
    if (!record.ok() || !*record) break;
    const auto* start = std::get_if<LogStart>(&**record);
    if (start != nullptr && start->options.max_running > 256) return false;
  }
  return true;
}

void Check(std::string_view log) {
  std::size_t lines = 0;
  const absl::Status dumped = DumpLog(log, [&lines](std::string_view) { ++lines; });
  if (!Small(log)) return;
  const absl::StatusOr<LogReplay> replay = ReplayLog(log);
  if (!replay.ok()) return;
  Expect(replay->bytes <= log.size(), "no more is replayed than there is");
  Expect(replay->plans_compared <= replay->plans, "what is compared has been planned");
  if (!replay->difference) Expect(dumped.ok(), "what replays to the end can be printed");
}

// The input as records: kind, length, body, without the checksums that a fuzzer would have to guess.
std::string WithChecksums(std::string_view bytes) {
  std::string log = std::string(internal::kLogMagic) + internal::kLogVersion;
  while (bytes.size() >= 2) {
    const auto kind = static_cast<std::uint8_t>(bytes[0]);
    const std::string_view body = bytes.substr(2, static_cast<unsigned char>(bytes[1]));
    internal::AppendFrame(log, kind, body);
    bytes.remove_prefix(2 + body.size());
  }
  return log;
}

// The bodies of a good log's records, in that form: where a fuzzer starts from.
std::string WithoutChecksums(std::string_view log) {
  std::string bytes;
  if (!log.starts_with(internal::kLogMagic) || log.size() < internal::kLogHeaderBytes) return bytes;
  log.remove_prefix(internal::kLogHeaderBytes);
  for (;;) {
    const internal::Frame frame = internal::ReadFrame(log);
    if (frame.state != internal::Frame::State::kWhole || frame.body.size() > 255) return bytes;
    bytes += static_cast<char>(frame.kind);
    bytes += static_cast<char>(frame.body.size());
    bytes += frame.body;
    log.remove_prefix(frame.bytes);
  }
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  takt::Check(bytes);
  takt::Check(takt::WithChecksums(bytes));
  const std::string bodies = takt::WithoutChecksums(bytes);
  takt::Check(takt::WithChecksums(bodies));
  return 0;
}
