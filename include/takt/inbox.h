// Events from many threads to the one loop that owns a scheduler or a router.
//
//   Inbox inbox;
//   if (inbox.Push(Cancelled{id}) == Pushed::kFirst) wake_the_loop();              // any thread
//   inbox.Drain([&](const Event& event) { scheduler.On(event, now); });            // the loop, before Plan
#ifndef TAKT_INBOX_H_
#define TAKT_INBOX_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "takt/model/event.h"
#include "takt/model/instance.h"

namespace takt {

enum class Pushed : std::uint8_t {
  kFull,    // not taken; the caller still has it
  kQueued,  // taken, behind others
  kFirst,   // taken, and the inbox was empty: the moment to wake a loop that sleeps
};

// Keeps the order of each producer; events of different producers mix as they come. Producers and the loop swap two
// buffers, so that the lock is held for the time of one move or one swap, and nothing is allocated once both have
// grown to the largest batch.
template <class E>
class BasicInbox {
 public:
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  explicit BasicInbox(std::size_t capacity = kUnbounded) : capacity_(capacity) {}

  // From any thread. Accepts an E or one of its alternatives; moves from it only where it is taken. `parts` is what its
  // spans see, and is kept until the loop has read the event; none: that lives until then by itself.
  template <class T>
  [[nodiscard]] Pushed Push(T&& event, std::shared_ptr<const void> parts = {}) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= capacity_) return Pushed::kFull;
    events_.emplace_back(std::forward<T>(event), std::move(parts));
    return events_.size() == 1 ? Pushed::kFirst : Pushed::kQueued;
  }

  // From the loop only: calls f(event) for what has come so far, in order, and returns how many. The lock is not
  // held meanwhile; f may Push, not Drain. Where f throws, the next Drain begins with the event at which it did.
  template <class F>
  std::size_t Drain(F&& f) {
    const std::size_t left = HandOver(f);
    {
      const std::lock_guard lock(mutex_);
      events_.swap(taken_);
    }
    return left + HandOver(f);
  }

 private:
  struct Entry {
    E event;
    std::shared_ptr<const void> parts;
  };

  template <class F>
  std::size_t HandOver(F& f) {
    const std::size_t first = done_;
    for (; done_ < taken_.size(); ++done_) f(taken_[done_].event);
    const std::size_t n = done_ - first;
    // What events see is given back now, not at the next Drain.
    if (n > 0) taken_.clear();
    done_ = 0;
    return n;
  }

  const std::size_t capacity_;
  std::mutex mutex_;
  std::vector<Entry> events_;  // guarded by mutex_
  std::vector<Entry> taken_;  // the loop's
  std::size_t done_ = 0;  // of taken_: handed to f
};

using Inbox = BasicInbox<Event>;
using RouterInbox = BasicInbox<RouterEvent>;

}  // namespace takt

#endif  // TAKT_INBOX_H_
