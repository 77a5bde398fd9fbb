// Events from many threads, for a scheduler or for a router.
#ifndef TAKT_SRC_C_INBOX_H_
#define TAKT_SRC_C_INBOX_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "c/handle.h"
#include "takt/inbox.h"

struct takt_inbox : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kInbox;

  takt_inbox(std::uint32_t of, std::size_t capacity) : Handle(kKind) {
    if (of == TAKT_INBOX_OF_SCHEDULER) of_scheduler.emplace(capacity);
    if (of == TAKT_INBOX_OF_ROUTER) of_router.emplace(capacity);
  }
  void End() { of_scheduler.reset(), of_router.reset(); }

  // Exactly one has a value.
  std::optional<takt::Inbox> of_scheduler;
  std::optional<takt::RouterInbox> of_router;
};

namespace takt::c {

// Drains the inbox of a handle: calls the function for each event.
template <class H, class E, class F>
takt_status TakeAll(H* handle, takt_inbox* inbox, std::optional<BasicInbox<E>> takt_inbox::* of_handle, std::size_t* n,
                    F&& tell) {
  if (const takt_status status = FirstOf(Valid(handle), Valid(inbox)); status != TAKT_OK) return status;
  if (!(inbox->*of_handle)) return TAKT_E_INVALID;
  const Busy busy(*handle), drained(*inbox);
  const std::size_t taken = (inbox->*of_handle)->Drain(tell);
  if (n != nullptr) *n = taken;
  return TAKT_OK;
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_INBOX_H_
