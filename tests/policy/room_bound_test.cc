// The bound of room_to_pass for each of many requests: random sizes, arrivals, cancels, preemptions, tool calls and
// holds, with true sizes. TAKT_TEST_SCALE=500 runs 10 million requests. Also the depth of the line's treap.
#include "fire/broken.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "catch.h"
#include "fire/watched_room.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

using Queue = WaitingQueue<fire::WatchedRoom>;

// An engine that computes one request at a time, in steps. A size is the output that is left, in milliseconds.
class Engine {
 public:
  explicit Engine(std::uint64_t seed) : random_(seed), queue_(Policy(), 1 << 10) {}

  fire::WatchedRoom::Tally Run(std::int64_t requests) {
    while (came_ < requests || queue_.known() > 0) {
      if (queue_.size() == 0) fills_ = true;
      if (queue_.size() > longest_) fills_ = false, longest_ = 20 + random_.Below(400);
      for (std::uint64_t n = random_.Below(fills_ ? 4 : 2); n > 0 && came_ < requests; --n) Arrive();
      Step();
      Return(came_ >= requests);
    }
    return queue_.policy().tally();
  }

 private:
  struct Away {
    RequestId id;
    TimePoint until{};
  };

  static fire::WatchedRoom Policy() {
    RoomToPass policy;
    policy.set_pace({.step_s = 0, .prefill_s = 0, .sequence_s = 1e-3, .context_s = 0});
    return fire::WatchedRoom(policy);
  }

  void Arrive() {
    Request r;
    r.id = {static_cast<std::uint64_t>(++came_)};
    r.arrival = r.workflow_arrival = now_;
    if (random_.Below(8) == 0) r.workflow = {random_.Below(64) + 1}, r.workflow_arrival -= Some(2'000'000);
    r.prompt_tokens = {1};
    r.output_tokens = Estimate::Exact(Size());
    if (random_.Below(16) == 0) r.deadline = now_ + Some(10'000'000);
    queue_.Push(r, now_);
    ids_.push_back(r.id);
  }
  double Size() {
    const std::uint64_t kind = random_.Below(16);
    return static_cast<double>(1 + random_.Below(kind == 0 ? 20'000 : kind < 4 ? 1'500 : 100));
  }
  Duration Some(std::uint64_t us) { return std::chrono::microseconds(random_.Below(us)); }

  // Takes requests in order and runs one of them, usually the first. Before that, a waiting request may be cancelled.
  void Step() {
    if (random_.Below(32) == 0) Cancel();
    queue_.Begin(now_);
    RequestId runs = queue_.Top();
    for (std::uint64_t skips = random_.Below(1'024) == 0 ? 3 : 0; runs && skips > 0; --skips) {
      queue_.Take(runs);
      if (random_.Below(2) == 0) Arrive();
      if (const RequestId next = queue_.Top()) runs = next;
    }
    if (!runs) {
      now_ += Some(100'000);
      return static_cast<void>(queue_.End({}, now_));
    }
    if (random_.Below(64) == 0) return Block(runs);
    const bool whole = random_.Below(16) != 0;
    const std::int32_t tokens = whole ? 1'000'000 : 1;
    const Queue::Ran ran[] = {{runs, {1}, {std::min(tokens, 1)}}};
    queue_.End(ran, now_);
    now_ += Some(50'000) + std::chrono::microseconds(1);
    if (whole) return static_cast<void>(queue_.Erase(runs));
    if (random_.Below(2) == 0) return static_cast<void>(queue_.Requeue(runs, now_));  // preempted
    queue_.Pause({.request = runs}, now_);
    away_.push_back({runs, now_ + Some(1'000'000)});
  }
  void Block(RequestId id) {
    queue_.Hold(id);
    queue_.End({}, now_);
    away_.push_back({id, now_ + Some(1'000'000)});
  }
  void Cancel() {
    while (!ids_.empty()) {
      const std::size_t i = random_.Below(ids_.size());
      const RequestId id = ids_[i];
      ids_[i] = ids_.back(), ids_.pop_back();
      if (!queue_.contains(id)) continue;
      return static_cast<void>(queue_.Erase(id));
    }
  }
  // Tools answer, and blocked requests may go on.
  void Return(bool all) {
    for (std::size_t i = 0; i < away_.size();) {
      if (!all && away_[i].until > now_) {
        ++i;
        continue;
      }
      queue_.Requeue(away_[i].id, now_);
      away_[i] = away_.back(), away_.pop_back();
    }
  }

  Random random_;
  Queue queue_;
  TimePoint now_ = TimePoint(std::chrono::hours(1));
  std::int64_t came_ = 0;
  bool fills_ = true;
  std::size_t longest_ = 100;
  std::vector<RequestId> ids_;  // that may wait
  std::vector<Away> away_;
};

TEST_CASE("every request of a busy engine keeps its bound") {
  const std::int64_t requests = Scaled(20'000);
  const fire::WatchedRoom::Tally tally = Engine(1).Run(requests);
  CHECK(tally.went > requests * 3 / 4);
  CHECK(tally.passed > requests / 20);
  CHECK(tally.excused < requests / 4);
  if (requests < 1'000'000) return;
  fmt::print(
      "{} requests, {} admissions checked, {} passed, {} passed out of turn, {} waited at once, closest {:.4f}\n",
      requests, tally.went, tally.passed, tally.excused, tally.longest, tally.closest);
}

TEST_CASE("the treap stays shallow in whatever order requests join") {
  const auto deepest = [](Slot n, auto&& place_of) {
    PassingLine line;
    line.Reserve(n);
    for (Slot slot = 0; slot < n; ++slot) line.Join(slot, place_of(slot), 100, 0);
    int depth = 0;
    for (Slot slot = 0; slot < n; ++slot) depth = std::max(depth, line.Depth(slot));
    return depth;
  };
  const auto most = static_cast<Slot>(std::min<std::int64_t>(Scaled(1'000'000), 1'000'000));
  CHECK(deepest(most, [](Slot slot) { return PassingLine::Place{7'000'000'000, slot}; }) <
        100);  // calls of one old workflow
  CHECK(deepest(most / 10, [](Slot slot) { return PassingLine::Place{slot * std::int64_t{1'000'000}, slot}; }) < 100);
  CHECK(deepest(most / 10, [](Slot slot) { return PassingLine::Place{-std::int64_t{slot}, slot}; }) < 100);
  CHECK(deepest(most / 10,
                [](Slot slot) { return PassingLine::Place{slot % 2 == 0 ? slot : -std::int64_t{slot}, 1}; }) < 100);
}

}  // namespace
}  // namespace takt
