// The files of ToolProfile and LengthTable.
#include <algorithm>
#include <cmath>
#include <utility>

#include "learning/pack.h"
#include "takt/learning/length_table.h"
#include "takt/learning/tool_profile.h"

namespace takt::internal {

struct LearntFile {
  static constexpr std::string_view kToolsMagic = "takt tools ", kLengthsMagic = "takt length table ";
  static constexpr std::uint32_t kVersion = 1;
  static constexpr std::int64_t kMostCalls = std::int64_t{1} << 40;
  static constexpr double kMostValue = 1e15;

  static void Put(Packer& out, const Moments& moments) {
    out.Put(moments.count());
    out.Put(moments.mean());
    out.Put(moments.deviation());
  }
  // Returns false if the values are invalid. The means are of logarithms, so they may be negative.
  static bool Get(Unpacker& in, Moments& moments, double least_mean) {
    const auto count = in.Get<std::int64_t>();
    const auto mean = in.Get<double>(), deviation = in.Get<double>();
    const bool valid = in.ok() && count >= 0 && count <= kMostCalls && mean >= least_mean && mean <= kMostValue &&
                       deviation >= 0 && deviation <= kMostValue;
    if (valid) moments = Moments::From(count, mean, deviation);
    return valid;
  }

  static void Put(Packer& out, const auto& sketch) {
    Put(out, Moments::From(sketch.count(), sketch.mean(), sketch.deviation()));
    out.Put(sketch.least());
    out.Put(sketch.most());
    const auto counts = sketch.histogram().counts();
    out.Put(static_cast<std::uint32_t>(counts.size() - static_cast<std::size_t>(std::ranges::count(counts, 0))));
    for (std::size_t bin = 0; bin < counts.size(); ++bin) {
      if (counts[bin] == 0) continue;
      out.Put(static_cast<std::uint32_t>(bin));
      out.Put(counts[bin]);
    }
  }
  static bool Get(Unpacker& in, auto& sketch) {
    Moments moments;
    if (!Get(in, moments, 0)) return false;
    const auto least = in.Get<double>(), most = in.Get<double>();
    if (!(least >= 0 && least <= 1e300 && most >= 0 && most <= kMostValue)) return false;
    sketch.Restore(moments, least, most);
    const std::size_t bins = sketch.histogram().counts().size();
    for (auto n = in.Get<std::uint32_t>(); n > 0 && in.ok(); --n) {
      const auto bin = in.Get<std::uint32_t>();
      const auto units = in.Get<std::int64_t>();
      if (bin >= bins || units < 0 || units > 512 * kMostCalls) return false;
      sketch.RestoreBin(bin, units);
    }
    return in.ok();
  }

  static void Put(Packer& out, const LearntTool& tool) {
    out.Put(tool.id_.value);
    out.Put(tool.expectation_.observations);
    Put(out, tool.seconds_);
    Put(out, tool.returned_);
    Put(out, tool.before_);
  }
  static bool Get(Unpacker& in, LearntTool& tool) {
    tool.id_ = {in.Get<std::uint64_t>()};
    tool.expectation_.observations = in.Get<std::int64_t>();
    if (tool.expectation_.observations < 0 || tool.expectation_.observations > kMostCalls) return false;
    if (!Get(in, tool.seconds_) || !Get(in, tool.returned_) || !Get(in, tool.before_)) return false;
    tool.Update(true);
    return true;
  }

  static std::string Save(const ToolProfile& profile) {
    Packer out(kToolsMagic, kVersion);
    Put(out, profile.pool_);
    out.Put(static_cast<std::uint64_t>(profile.classes_.size()));
    for (const LearntTool& tool : profile.classes_.records()) Put(out, tool);
    return out.Take();
  }
  static absl::Status Load(std::string_view bytes, ToolProfile& profile) {
    auto in = Unpacker::Open(bytes, kToolsMagic, kVersion, "a tool profile");
    if (!in.ok()) return in.status();
    LearntTool pool(true);
    bool valid = Get(*in, pool);
    decltype(profile.classes_) classes;
    classes.KeyHashes(profile.options_.hash_seed);
    for (auto n = in->Get<std::uint64_t>(); n > 0 && valid && in->ok(); --n) {
      LearntTool tool;
      valid = Get(*in, tool) && tool.id_ && classes.Find(tool.id_) == kNoSlot;
      if (valid && classes.size() < profile.options_.max_classes) classes.Insert(tool.id_, std::move(tool));
    }
    if (!valid || !in->done()) return absl::DataLossError("the file of a tool profile has invalid values");
    profile.pool_ = std::move(pool);
    profile.classes_ = std::move(classes);
    return absl::OkStatus();
  }

  static void Put(Packer& out, const LengthTable::Cell& cell) {
    Put(out, cell.tokens);
    Put(out, cell.logs);
  }
  static bool Get(Unpacker& in, LengthTable::Cell& cell) {
    return Get(in, cell.tokens, 0) && Get(in, cell.logs, -kMostValue) && cell.logs.mean() <= 700;
  }

  static std::string Save(const LengthTable& table) {
    Packer out(kLengthsMagic, kVersion);
    Put(out, table.all_);
    out.Put(static_cast<std::uint64_t>(table.stages_.size()));
    for (const LengthTable::Stage& stage : table.stages_.records()) {
      out.Put(stage.id.value);
      Put(out, stage.whole);
      for (const LengthTable::Cell& cell : stage.cells) Put(out, cell);
    }
    return out.Take();
  }
  static absl::Status Load(std::string_view bytes, LengthTable& table) {
    auto in = Unpacker::Open(bytes, kLengthsMagic, kVersion, "a length table");
    if (!in.ok()) return in.status();
    LengthTable::Cell all;
    bool valid = Get(*in, all);
    decltype(table.stages_) stages;
    stages.KeyHashes(table.options_.hash_seed);
    for (auto n = in->Get<std::uint64_t>(); n > 0 && valid && in->ok(); --n) {
      LengthTable::Stage stage;
      stage.id = {in->Get<std::uint64_t>()};
      valid = stages.Find(stage.id) == kNoSlot && Get(*in, stage.whole) &&
              std::ranges::all_of(stage.cells, [&](LengthTable::Cell& cell) { return Get(*in, cell); });
      if (valid && stages.size() < table.options_.max_stages) stages.Insert(stage.id, stage);
    }
    if (!valid || !in->done()) return absl::DataLossError("the file of a length table has invalid values");
    table.all_ = all;
    table.stages_ = std::move(stages);
    return absl::OkStatus();
  }
};

}  // namespace takt::internal

namespace takt {

std::string ToolProfile::Save() const { return internal::LearntFile::Save(*this); }
absl::Status ToolProfile::Load(std::string_view bytes) { return internal::LearntFile::Load(bytes, *this); }
std::string LengthTable::Save() const { return internal::LearntFile::Save(*this); }
absl::Status LengthTable::Load(std::string_view bytes) { return internal::LearntFile::Load(bytes, *this); }

}  // namespace takt
