#include "cli/plan_input.h"

#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "cli/cascadia_traces.h"
#include "cli/output.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace takt::cli {
namespace {

using Json = nlohmann::json;

// Reads members of one JSON object, and keeps the first fault.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const { return object_.contains(key); }

  std::string Text(const char* key) {
    seen_.insert(key);
    if (!Has(key) || !object_[key].is_string()) return Fault(key, "must be a text"), "";
    return object_[key].get<std::string>();
  }

  double Number(const char* key, const Json& value) {
    // What JSON cannot say, Python's writer says so.
    if (!value.is_number()) Fault(key, "must be a number");
    return value.is_number() ? value.get<double>() : 0;
  }

  std::int32_t Count(const char* key, const Json& value, std::int64_t least = 1) {
    const bool whole = value.is_number_integer() && value >= least && value <= std::numeric_limits<std::int32_t>::max();
    if (!whole) Fault(key, fmt::format("{} must be a whole number from {}", value.dump(), least));
    return whole ? value.get<std::int32_t>() : 1;
  }

  std::int32_t CountOr(const char* key, std::int32_t otherwise) {
    seen_.insert(key);
    return Has(key) ? Count(key, object_[key]) : otherwise;
  }

  double NumberOr(const char* key, double otherwise) {
    seen_.insert(key);
    return Has(key) ? Number(key, object_[key]) : otherwise;
  }

  std::vector<std::int32_t> Counts(const char* key, std::vector<std::int32_t> otherwise) {
    seen_.insert(key);
    if (!Has(key)) return otherwise;
    std::vector<std::int32_t> counts;
    if (!object_[key].is_array()) return Fault(key, "must be a list of whole numbers"), counts;
    for (const Json& value : object_[key]) counts.push_back(Count(key, value));
    return counts;
  }

  std::vector<double> Numbers(const char* key) {
    seen_.insert(key);
    std::vector<double> numbers;
    if (!Has(key) || !object_[key].is_array()) return Fault(key, "must be a list of numbers"), numbers;
    for (const Json& value : object_[key]) numbers.push_back(Number(key, value));
    return numbers;
  }

  void NothingElse() {
    for (const auto& [key, value] : object_.items()) {
      if (!seen_.contains(key)) Fault(key.c_str(), "is not known");
    }
  }

  void Fault(const char* key, std::string_view what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{}: {} {}", where_, key, what));
  }
  const absl::Status& status() const { return status_; }

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> seen_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<ServedModel>> ReadModels(const std::string& path, std::span<const Profile> more) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError(path + ": is not JSON");
  if (!json.is_object() || !json.contains("models") || !json["models"].is_array()) {
    return absl::InvalidArgumentError(path + ": must be an object with a list \"models\"");
  }
  std::vector<ServedModel> models;
  for (const Json& entry : json["models"]) {
    const std::string where = fmt::format("{}: model {}", path, models.size() + 1);
    if (!entry.is_object()) return absl::InvalidArgumentError(where + ": must be an object");
    Members members(entry, where);
    const std::string id = members.Text("profile");
    const std::vector<std::int32_t> tp = members.Counts("tp", {1, 2, 4, 8});
    const std::vector<std::int32_t> pp = members.Counts("pp", {1, 2, 4});
    ServedModel model;
    model.name = members.Has("name") ? members.Text("name") : id;
    model.token_budget = members.CountOr("token_budget", model.token_budget);
    model.max_seqs = members.CountOr("max_seqs", model.max_seqs);
    model.prefix_hit_rate = members.NumberOr("prefix_hit_rate", 0);
    members.NothingElse();
    if (!members.status().ok()) return members.status();
    absl::StatusOr<std::vector<Profile>> shapes = FindShapes(id, tp, pp, more);
    if (!shapes.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}: {}", where, std::string(shapes.status().message())));
    }
    model.shapes = *std::move(shapes);
    models.push_back(std::move(model));
  }
  if (models.empty()) return absl::InvalidArgumentError(path + ": no models");
  return models;
}

absl::StatusOr<std::vector<CascadeSample>> ReadSample(const std::string& path, std::size_t models) {
  constexpr std::string_view kMade = "cascadia:";
  if (path.starts_with(kMade)) {
    const std::string which = path.substr(kMade.size());
    if (which != "1" && which != "2" && which != "3") {
      return absl::InvalidArgumentError(fmt::format("{}: there are cascadia:1, cascadia:2 and cascadia:3", path));
    }
    if (models > 3) return absl::InvalidArgumentError(fmt::format("{}: is of 1 to 3 models, not {}", path, models));
    constexpr std::size_t kRequests = 2000;
    return DrawCascadia(which[0] - '0', models, kRequests, 1).sample;
  }
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  std::vector<CascadeSample> sample;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    const std::string_view line = std::string_view(*text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}:{}", path, number);
    const Json json = Json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
      return absl::InvalidArgumentError(where + ": is not a JSON object (NaN is none of JSON's numbers)");
    }
    Members members(json, where);
    CascadeSample s;
    s.prompt = json.contains("prompt") ? members.CountOr("prompt", 1) : (members.Fault("prompt", "is missing"), 1);
    if (json.contains("output")) {
      s.outputs.assign(models, members.CountOr("output", 1));
    } else {
      s.outputs = members.Counts("outputs", {});
    }
    if (models == 1 && !json.contains("scores")) {
      s.scores = {0};
    } else {
      s.scores = members.Numbers("scores");
    }
    members.NothingElse();
    if (members.status().ok() && s.outputs.size() != models) {
      members.Fault("outputs", fmt::format("has {} numbers for {} models", s.outputs.size(), models));
    }
    if (members.status().ok() && s.scores.size() != models) {
      members.Fault("scores", fmt::format("has {} numbers for {} models", s.scores.size(), models));
    }
    if (!members.status().ok()) return members.status();
    sample.push_back(std::move(s));
  }
  if (sample.empty()) return absl::InvalidArgumentError(path + ": empty: no request that the models have answered");
  return sample;
}

}  // namespace takt::cli
