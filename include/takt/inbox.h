// A queue that passes events from many threads to the loop that owns a scheduler or a router.
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
  kFull,  // the inbox rejected the event, which the caller keeps
  kQueued,  // the event was added; the inbox was not empty
  kFirst,  // the event was added to an empty inbox: wake the loop if it sleeps
};

// The inbox keeps the order of each producer's events; events of different producers interleave. Producers and the loop
// swap two buffers, so the lock is held only for one move or swap. After both buffers have grown to the largest batch,
// the inbox allocates nothing.
template <class E>
class BasicInbox {
 public:
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  explicit BasicInbox(std::size_t capacity = kUnbounded) : capacity_(capacity) {}

  // Adds an event, which is an E or one of its alternatives, from any thread. Moves from the event only if it is added.
  // `parts` owns the memory of the event's spans until the loop has read the event. Without `parts`, that memory must
  // live until the loop has read the event.
  template <class T>
  [[nodiscard]] Pushed Push(T&& event, std::shared_ptr<const void> parts = {}) {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= capacity_) return Pushed::kFull;
    events_.emplace_back(std::forward<T>(event), std::move(parts));
    return events_.size() == 1 ? Pushed::kFirst : Pushed::kQueued;
  }

  // Calls f(event) for all events so far, in order, and returns their number. Call it from the loop only. The lock is
  // not held while f runs. f may call Push, but not Drain. If f throws, the next Drain starts with the same event.
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
    // Frees the memory of the events now instead of at the next Drain.
    if (n > 0) taken_.clear();
    done_ = 0;
    return n;
  }

  const std::size_t capacity_;
  std::mutex mutex_;
  std::vector<Entry> events_;  // events since the last swap, guarded by mutex_
  std::vector<Entry> taken_;  // events that the loop handles
  std::size_t done_ = 0;  // events of taken_ that f has handled
};

using Inbox = BasicInbox<Event>;
using RouterInbox = BasicInbox<RouterEvent>;

}  // namespace takt

#endif  // TAKT_INBOX_H_
