// Whether two threads are inside one object that is for one at a time.
#ifndef TAKT_BASE_OWNER_H_
#define TAKT_BASE_OWNER_H_

#include <atomic>
#include <cerrno>

#include "takt/config.h"

namespace takt::internal {

// Where NDEBUG is not defined, TAKT_ASSERT says so in the thread that comes second; else nothing is looked at.
class Owner {
 public:
  // For the time of a call. The same thread may come again, from within.
  class Inside {
   public:
#ifdef NDEBUG
    explicit Inside(Owner&) {}
#else
    explicit Inside(Owner& owner) {
      const void* const here = &errno;  // of which each thread has one
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
  const void* thread_ = nullptr;  // something of its own
};

}  // namespace takt::internal

#endif  // TAKT_BASE_OWNER_H_
