// Faults of a server on request, for tests of clients.
#ifndef TAKT_INTEGRATIONS_SERVER_FAULTS_H_
#define TAKT_INTEGRATIONS_SERVER_FAULTS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "takt/base/names.h"

namespace serving {

enum class Fault : std::uint8_t {
  kError,   // the answer is status 500
  kDrop,    // the connection ends within the answer
  kStall,   // the answer stops, but the connection stays open for `stall` at most
  kDamage,  // a piece of the answer is cut JSON
  kSlow,    // every piece is late by `slow`
  kNone,
};
constexpr auto NamesOf(Fault) {
  return std::to_array<std::string_view>({"error", "drop", "stall", "damage", "slow", "none"});
}

struct FaultOptions {
  std::array<double, static_cast<std::size_t>(Fault::kNone)> shares = {};  // of the answers, by Fault
  std::chrono::milliseconds stall = std::chrono::minutes(1);
  std::chrono::milliseconds slow{50};
  std::uint64_t seed = 1;
};

// "drop=0.01,slow=0.1,slow_ms=50,stall_s=60,seed=3". InvalidArgument names the invalid part.
absl::StatusOr<FaultOptions> ParseFaults(std::string_view text);

// The fault of one answer.
struct AnswerFault {
  Fault fault = Fault::kNone;
  int after = 0;  // number of pieces before it
};

// Draws the faults of answers. Threads may share it.
class FaultDraw {
 public:
  explicit FaultDraw(const FaultOptions& options) : options_(options) {}

  const FaultOptions& options() const { return options_; }
  // `wanted` names a fault; empty: draws one. Nothing: the name is unknown.
  std::optional<AnswerFault> Next(std::string_view wanted, int most_pieces);

 private:
  FaultOptions options_;
  std::atomic<std::uint64_t> drawn_ = 0;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_FAULTS_H_
