#include "c/inbox.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "c/events.h"
#include "c/handle.h"
#include "c/memory.h"
#include "takt/state/request_parts.h"

namespace takt::c {
namespace {

std::shared_ptr<const void> OwnHashes(std::span<const std::uint64_t>& hashes) {
  auto own = std::make_shared<const std::vector<std::uint64_t>>(hashes.begin(), hashes.end());
  hashes = *own;
  return own;
}

// Copies of the arrays that a request's spans refer to.
struct Parts {
  std::vector<std::uint64_t> hashes;
  std::vector<ModelScore> scores;
};
template <class E>
std::shared_ptr<const void> OwnParts(E& event) {
  if constexpr (kHolds<KvStored, E>) {
    if (auto* stored = std::get_if<KvStored>(&event)) return OwnHashes(stored->hashes);
    if (auto* removed = std::get_if<KvRemoved>(&event)) return OwnHashes(removed->hashes);
  }
  auto* arrived = std::get_if<Arrived>(&event);
  if (arrived == nullptr || !internal::RequestParts::Any(arrived->request)) return nullptr;
  Request& r = arrived->request;
  auto parts = std::make_shared<Parts>(
      Parts{{r.prefix.hashes.begin(), r.prefix.hashes.end()}, {r.scores.begin(), r.scores.end()}});
  r.prefix.hashes = parts->hashes, r.scores = parts->scores;
  return parts;
}

template <class E>
takt_status Push(BasicInbox<E>& inbox, const takt_event* event, std::uint32_t* pushed) {
  if (const takt_status status = Sound<E>(event, 1); status != TAKT_OK) return status;
  ForEach<E>(event, 1, [&](E&& e) {
    const Pushed how = inbox.Push(std::move(e), OwnParts(e));
    if (pushed != nullptr) *pushed = static_cast<std::uint32_t>(how);
  });
  return TAKT_OK;
}

}  // namespace
}  // namespace takt::c

using namespace takt;
using namespace takt::c;

takt_status takt_inbox_create(uint32_t kind, size_t capacity, takt_inbox** inbox, takt_error* error) noexcept {
  if (inbox == nullptr) return Say(error, TAKT_E_NULL, "inbox is NULL");
  *inbox = nullptr;
  if (kind > TAKT_INBOX_OF_ROUTER)
    return Say(error, TAKT_E_INVALID, "kind: is invalid; expected TAKT_INBOX_OF_SCHEDULER or TAKT_INBOX_OF_ROUTER");
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    *inbox = std::make_unique<takt_inbox>(kind, capacity == 0 ? Inbox::kUnbounded : capacity).release();
    return TAKT_OK;
  });
}

takt_status takt_inbox_destroy(takt_inbox* inbox) noexcept { return Destroy(inbox); }

takt_status takt_inbox_push(takt_inbox* inbox, const takt_event* event, uint32_t* pushed) noexcept {
  if (const takt_status status = Known(inbox); status != TAKT_OK) return status;
  return inbox->of_scheduler ? Push(*inbox->of_scheduler, event, pushed) : Push(*inbox->of_router, event, pushed);
}
