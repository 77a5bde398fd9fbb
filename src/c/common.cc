#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "c/stats.h"
#include "takt/record.h"
#include "takt/rivals/rivals.h"
#include "takt/version.h"

namespace takt::c {

void Keep([[maybe_unused]] Handle& handle) {
#ifndef NDEBUG
  static std::atomic<Handle*> last = nullptr;
  handle.kept = last.load();
  while (!last.compare_exchange_weak(handle.kept, &handle)) {
  }
#endif
}

template <>
takt_error Defaults<takt_error>() {
  return Zeroed<takt_error>();
}

namespace {

constexpr std::array<const char*, 8> kStatusNames = {"TAKT_OK",      "TAKT_E_INVALID", "TAKT_E_NULL",
                                                     "TAKT_E_SIZE",  "TAKT_E_HANDLE",  "TAKT_E_BUSY",
                                                     "TAKT_E_NOMEM", "TAKT_E_CORRUPT"};

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

uint32_t takt_abi_version(void) noexcept { return TAKT_ABI_VERSION; }
const char* takt_version(void) noexcept { return TAKT_VERSION; }

uint64_t takt_salted_hash(uint64_t hash, uint64_t salt) noexcept { return takt::SaltedHash(hash, salt); }

int32_t takt_http_status(uint32_t reason) noexcept {
  const auto of = static_cast<takt::FailReason>(reason);
  return reason < NamesOf(takt::FailReason{}).size() ? takt::HttpStatus(of) : 0;
}

const char* takt_status_name(takt_status status) noexcept {
  const auto index = static_cast<std::size_t>(status);
  return index < kStatusNames.size() ? kStatusNames[index] : "unknown status";
}

void takt_error_init(takt_error* error, size_t size) noexcept { Init(error, size); }
void takt_request_init(takt_request* request, size_t size) noexcept { Init(request, size); }
void takt_instance_init(takt_instance* instance, size_t size) noexcept { Init(instance, size); }
void takt_workflow_init(takt_workflow* workflow, size_t size) noexcept { Init(workflow, size); }
void takt_epoch_init(takt_epoch* epoch, size_t size) noexcept { Init(epoch, size); }
void takt_limits_init(takt_limits* limits, size_t size) noexcept { Init(limits, size); }

takt_status takt_replay(const void* bytes, size_t n, takt_replay_report* report, takt_stat* stats, size_t n_stats,
                        takt_error* error) noexcept {
  if (const takt_status status = FirstOf(Given(bytes, n), Writable(report), Given(stats, n_stats)); status != TAKT_OK)
    return status;
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    RegisterRivals().IgnoreError();  // the log may name one of them
    const absl::StatusOr<LogReplay> replay = ReplayLog(std::string_view(static_cast<const char*>(bytes), n));
    if (!replay.ok()) return Unreadable(error, replay.status());
    takt_replay_report to{};
    to.events = replay->events, to.plans = replay->plans, to.commits = replay->commits;
    to.plans_compared = replay->plans_compared;
    to.truncated = replay->truncated ? 1 : 0;
    to.bytes = replay->bytes;
    if (replay->difference) {
      to.differs = 1;
      to.different_step = replay->difference->step.value;
      to.different_at = Ns(replay->difference->now);
      CopyText(replay->difference->what, to.difference, sizeof to.difference);
    }
    Write(to, report);
    WriteStats(kCounters, replay->stats, stats, n_stats);
    return TAKT_OK;
  });
}
