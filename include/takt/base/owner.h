// Detects two threads inside one object that allows only one.
#ifndef TAKT_BASE_OWNER_H_
#define TAKT_BASE_OWNER_H_

#include <atomic>
#include <cerrno>

#include "takt/config.h"

namespace takt::internal {

// Without NDEBUG, TAKT_ASSERT fails in the second thread. With NDEBUG, nothing is checked.
class Owner {
 public:
  // Marks the duration of a call. Nested calls of the same thread are allowed.
  class Inside {
   public:
#ifdef NDEBUG
    explicit Inside(Owner&) {}
#else
    explicit Inside(Owner& owner) {
      const void* const here = &errno;  // unique per thread
      const void* inside = nullptr;
      const bool first = std::atomic_ref(owner.thread_).compare_exchange_strong(inside, here);
      if (first) owner_ = &owner;
      [[maybe_unused]] const bool two_threads_are_inside = !first && inside != here;
      TAKT_ASSERT(!two_threads_are_inside);
    }
    ~Inside() {
      if (owner_ != nullptr) std::atomic_ref(owner_->thread_).store(nullptr);
    }

   private:
    Owner* owner_ = nullptr;

   public:
#endif
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
  };

 private:
  [[maybe_unused]] const void* thread_ = nullptr;  // an address that is unique to the thread inside; unused with NDEBUG
};

}  // namespace takt::internal

#endif  // TAKT_BASE_OWNER_H_
