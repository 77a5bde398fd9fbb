// A few threads that share the work of a loop.
#ifndef TAKT_INTEGRATIONS_SERVER_THREADS_H_
#define TAKT_INTEGRATIONS_SERVER_THREADS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace serving {

// Used by one thread at a time, which also works.
class Threads {
 public:
  explicit Threads(std::size_t count = 1) {
    for (std::size_t i = 1; i < count; ++i) helpers_.emplace_back([this, i] { Help(i); });
  }

  ~Threads() {
    stop_ = true;
    ++round_;
    round_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  std::size_t count() const { return helpers_.size() + 1; }

  // Calls f(thread, begin, end) for ranges that cover [0, n) once; returns when all are done.
  template <class F>
  void For(std::size_t n, F&& f) {
    if (helpers_.empty() || n < 2) return f(std::size_t{0}, std::size_t{0}, n);
    share_ = [&](std::size_t i) { f(i, n * i / count(), n * (i + 1) / count()); };
    busy_ = helpers_.size();
    ++round_;
    round_.notify_all();
    share_(0);
    for (std::size_t left; (left = busy_) != 0;) busy_.wait(left);
  }

 private:
  void Help(std::size_t i) {
    for (std::uint32_t seen = 0;;) {
      round_.wait(seen);
      seen = round_;
      if (stop_) return;
      share_(i);
      if (--busy_ == 0) busy_.notify_one();
    }
  }

  std::function<void(std::size_t)> share_ = {};
  std::atomic<std::uint32_t> round_ = 0;
  std::atomic<std::size_t> busy_ = 0;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> helpers_ = {};
};

// One thread that runs jobs in turn, in the background.
class Background {
 public:
  ~Background() {
    Wait();
    if (!thread_.joinable()) return;
    stop_ = true;
    Begin({});
    thread_.join();
  }
  Background() = default;
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Starts a job; the previous one must be done.
  void Begin(std::function<void()> job) {
    job_ = std::move(job);
    ++begun_;
    if (thread_.joinable()) {
      begun_.notify_one();
    } else {
      thread_ = std::thread([this] { Run(); });
    }
  }

  // Waits for the job. `awake`: the caller keeps its core, whose cache holds the data that it needs next.
  void Wait(bool awake = false) {
    for (std::uint32_t done; (done = done_) != begun_;) {
      if (!awake) done_.wait(done);
    }
  }

 private:
  void Run() {
    for (std::uint32_t next = 1;; ++next) {
      begun_.wait(next - 1);
      if (stop_) return;
      job_();
      done_ = next;
      done_.notify_one();
    }
  }

  std::function<void()> job_ = {};
  std::atomic<std::uint32_t> begun_ = 0, done_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_ = {};
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_THREADS_H_
