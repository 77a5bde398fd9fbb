// A workflow table allocates nothing after warm-up. The test counts calls of operator new.
#include <cstddef>
#include <cstdint>

#include "catch.h"
#include "counting_new.h"
#include "takt/workflow/workflow_table.h"

namespace takt {
namespace {

// Workflows of changing shapes, made before the count starts. 30 are alive at a time, each with an undeclared revision.
class Host {
 public:
  Host() {
    for (std::uint32_t n = 1; n <= kShapes; ++n) {
      Workflow& w = shapes_[n - 1];
      for (std::uint32_t i = 0; i < n; ++i)
        w.stages.push_back({.stage = {i + 1}, .after = {}, .calls = 2, .cost_s = 1});
      for (std::uint32_t i = 1; i < n; ++i) w.stages[i].after = {i - 1};
    }
  }

  void Round() {
    Workflow& w = shapes_[round_ % kShapes];
    w.id = {++round_};
    w.deadline = TimePoint(FromSeconds(100));
    table_.Declare(w, {});
    const auto first = static_cast<WorkflowTable::Handle>(round_ % kAlive * 64);
    WorkflowTable::Handle call = first;
    for (const WorkflowStage& stage : w.stages) {
      for (std::int32_t i = 0; i < stage.calls; ++i) table_.Make(call++, w.id, stage.stage, 1, {});
    }
    table_.Make(call++, w.id, {99}, 1, {});
    deadlines_ += table_.DeadlineOf(first, 1, {}) < kNever ? 1 : 0;
    if (round_ < kAlive) return;
    const std::uint64_t oldest = round_ - kAlive + 1;
    const auto from = static_cast<WorkflowTable::Handle>(oldest % kAlive * 64);
    for (WorkflowTable::Handle c = from; c < from + 64; ++c) table_.Ended(c, {});
    table_.End({oldest}, oldest % 3 == 0, {});
    ended_ += table_.ended().size();
    table_.released().clear(), table_.dropped().clear(), table_.ended().clear();
  }

  std::size_t ended() const { return ended_; }

 private:
  static constexpr std::uint32_t kShapes = 20, kAlive = 30;

  Workflow shapes_[kShapes];
  WorkflowTable table_;
  std::uint64_t round_ = 0;
  std::size_t ended_ = 0;
  std::int64_t deadlines_ = 0;
};

TEST_CASE("a workflow table allocates nothing after warm-up") {
  Host host;
  for (int i = 0; i < 200; ++i) host.Round();
  const std::size_t before = allocations;
  for (int i = 0; i < 2000; ++i) host.Round();
  const std::size_t after = allocations;
  CHECK(after == before);
  CHECK(before > 0);
  CHECK(host.ended() > 2000);
}

}  // namespace
}  // namespace takt
