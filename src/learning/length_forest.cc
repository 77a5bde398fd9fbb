#include "takt/learning/length_forest.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/status/status.h"
#include "learning/pack.h"

namespace takt {
namespace {

constexpr std::size_t kCounts = 5, kNames = 2;
constexpr std::string_view kLengthsMagic = "takt lengths ";
constexpr std::uint32_t kLengthsVersion = 1;

float NumberOf(std::int64_t count) {
  return count >= 0 ? static_cast<float>(count) : std::numeric_limits<float>::quiet_NaN();
}

// Appends a row's features to both arrays.
void AppendRow(const LengthInput& input, std::size_t sketch, std::vector<float>& numbers,
               std::vector<std::uint64_t>& names) {
  numbers.push_back(NumberOf(input.prompt_tokens.value));
  numbers.push_back(NumberOf(input.system_tokens.value));
  numbers.push_back(NumberOf(input.user_tokens.value));
  numbers.push_back(NumberOf(input.calls_before));
  numbers.push_back(NumberOf(input.tokens_before.value));
  for (std::size_t i = 0; i < sketch; ++i) {
    numbers.push_back(i < input.sketch.size() ? input.sketch[i] : std::numeric_limits<float>::quiet_NaN());
  }
  names.push_back(input.kind);
  names.push_back(input.stage.value);
}

}  // namespace

const QuantileForest* LengthForest::Of(ModelId model) const {
  const auto at = std::ranges::lower_bound(models_, model);
  if (at == models_.end() || *at != model) return nullptr;
  return forests_[static_cast<std::size_t>(at - models_.begin())].get();
}

void LengthForest::Predict(std::span<const Query> queries, std::span<Estimate> out, Scratch& s) const {
  const std::size_t numbers = kCounts + sketch_;
  // Groups queries by model. Queries of one model keep their order.
  s.order.resize(queries.size());
  std::iota(s.order.begin(), s.order.end(), std::size_t{0});
  std::ranges::sort(s.order, {}, [&](std::size_t i) { return std::pair(queries[i].model, i); });
  for (std::size_t from = 0; from < s.order.size();) {
    const ModelId model = queries[s.order[from]].model;
    std::size_t to = from;
    while (to < s.order.size() && queries[s.order[to]].model == model) ++to;
    const std::size_t n = to - from;
    const QuantileForest* forest = Of(model);
    s.numbers.clear();
    s.names.clear();
    s.rows.clear();
    s.known.clear();
    s.predicted.assign(n, {});
    if (forest != nullptr) {
      for (std::size_t i = from; i < to; ++i) {
        const Query& query = queries[s.order[i]];
        AppendRow(query.input, sketch_, s.numbers, s.names);
        s.known.push_back(static_cast<double>(query.generated.value));
      }
      for (std::size_t i = 0; i < n; ++i) {
        s.rows.push_back(
            {std::span(s.numbers).subspan(i * numbers, numbers), std::span(s.names).subspan(i * kNames, kNames)});
      }
      forest->Predict(s.rows, s.known, s.predicted, s.forest);
    }
    for (std::size_t i = 0; i < n; ++i) out[s.order[from + i]] = s.predicted[i];
    from = to;
  }
}

Estimate LengthForest::Predict(const Query& query, Scratch& scratch) const {
  Estimate e;
  Predict(std::span(&query, 1), std::span(&e, 1), scratch);
  return e;
}

std::string LengthForest::Save() const {
  internal::Packer out(kLengthsMagic, kLengthsVersion);
  out.Put(static_cast<std::uint64_t>(sketch_));
  out.Put(static_cast<std::uint64_t>(models_.size()));
  for (std::size_t i = 0; i < models_.size(); ++i) {
    out.Put(models_[i].value);
    out.Put(std::string_view(forests_[i]->Save()));
  }
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const LengthForest>> LengthForest::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kLengthsMagic, kLengthsVersion, "a file of length forests");
  if (!in.ok()) return in.status();
  const auto lengths = std::make_shared<LengthForest>();
  lengths->sketch_ = in->Get<std::uint64_t>();
  for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) {
    const ModelId model{in->Get<std::uint64_t>()};
    auto forest = QuantileForest::Load(in->Text());
    if (!forest.ok()) return forest.status();
    const std::size_t numeric = (*forest)->numeric();
    const bool fits = numeric >= kCounts && numeric - kCounts == lengths->sketch_ && (*forest)->categories() == kNames;
    if (!fits || (!lengths->models_.empty() && model <= lengths->models_.back())) {
      return absl::DataLossError("a file of length forests is invalid: its parts contradict each other");
    }
    lengths->models_.push_back(model);
    lengths->forests_.push_back(*std::move(forest));
  }
  if (!in->done()) return absl::DataLossError("a file of length forests is invalid: its parts contradict each other");
  return lengths;
}

void LengthLearner::Finished(ModelId model, std::span<const FinishedCall> calls, std::uint64_t workflow) {
  auto at = models_.find(model);
  if (at == models_.end()) {
    const Rows none{{.numeric = kCounts + options_.sketch, .categories = kNames},
                    Random(Mix64(options_.seed) ^ model.value)};
    at = models_.emplace(model, none).first;
  }
  auto& [data, random] = at->second;
  double left = 0;
  for (const FinishedCall& call : calls) left += std::max(call.output_tokens.value, 0);
  std::vector<float> numbers;
  std::vector<std::uint64_t> names;
  for (const FinishedCall& call : calls) {
    ++seen_;
    const std::uint64_t group = workflow != 0 ? workflow : ~seen_;  // apart from all numbers of workflows
    numbers.clear();
    names.clear();
    AppendRow(call.input, options_.sketch, numbers, names);
    if (data.rows() < options_.reservoir) {
      data.numbers.insert(data.numbers.end(), numbers.begin(), numbers.end());
      data.names.insert(data.names.end(), names.begin(), names.end());
      data.labels.push_back(static_cast<float>(left));
      data.groups.push_back(group);
    } else if (options_.reservoir > 0) {
      const std::size_t row = random.Below(data.rows());
      std::ranges::copy(numbers, data.numbers.begin() + static_cast<std::ptrdiff_t>(row * data.numeric));
      std::ranges::copy(names, data.names.begin() + static_cast<std::ptrdiff_t>(row * data.categories));
      data.labels[row] = static_cast<float>(left);
      data.groups[row] = group;
    }
    left -= std::max(call.output_tokens.value, 0);
  }
}

absl::StatusOr<std::shared_ptr<const LengthForest>> LengthLearner::Train(const ParallelFor& parallel,
                                                                         const Progress& progress) const {
  const auto lengths = std::make_shared<LengthForest>();
  lengths->sketch_ = options_.sketch;
  double all = 0, before = 0;  // rows
  for (const auto& [model, rows] : models_) all += static_cast<double>(rows.data.rows());
  for (const auto& [model, rows] : models_) {
    const auto own = static_cast<double>(rows.data.rows());
    if (own == 0) continue;
    Progress part;
    if (progress) part = [&](double done) { return progress((before + done * own) / all); };
    auto forest = QuantileForest::Train(rows.data, options_.forest, parallel, part);
    before += own;
    if (!forest.ok()) return forest.status();
    lengths->models_.push_back(model);
    lengths->forests_.push_back(*std::move(forest));
  }
  if (lengths->models_.empty()) return absl::InvalidArgumentError("lengths: no call was observed");
  return lengths;
}

std::size_t LengthLearner::calls(ModelId model) const {
  const auto at = models_.find(model);
  return at == models_.end() ? 0 : at->second.data.rows();
}

}  // namespace takt
