// Events from many threads, for a scheduler or for a router.
#ifndef TAKT_SRC_C_INBOX_H_
#define TAKT_SRC_C_INBOX_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "c/handle.h"
#include "takt/inbox.h"

struct takt_inbox : takt::c::Handle {
  static constexpr std::uint32_t kMagic = 0x7a6b7405u;

  takt_inbox(std::uint32_t kind, std::size_t capacity) : Handle(kMagic) {
    if (kind == TAKT_INBOX_OF_SCHEDULER) of_scheduler.emplace(capacity);
    if (kind == TAKT_INBOX_OF_ROUTER) of_router.emplace(capacity);
  }
  void End() { of_scheduler.reset(), of_router.reset(); }

  // One of them.
  std::optional<takt::Inbox> of_scheduler;
  std::optional<takt::RouterInbox> of_router;
};

#endif  // TAKT_SRC_C_INBOX_H_
