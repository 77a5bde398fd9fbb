#include "tool/plan/plan_input.h"

#include <string_view>
#include <utility>

#include "tool/command/json_object.h"
#include "tool/run/output.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "takt/workload/cascadia.h"

namespace takt::tool {
namespace {

using Json = nlohmann::json;

}  // namespace

absl::StatusOr<std::vector<ServedModel>> ReadModels(const std::string& path, std::span<const Profile> more) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded()) return absl::InvalidArgumentError(path + ": is invalid; expected JSON");
  if (!json.is_object() || !json.contains("models") || !json["models"].is_array()) {
    return absl::InvalidArgumentError(path + ": is invalid; expected an object with a list \"models\"");
  }
  std::vector<ServedModel> models;
  for (const Json& entry : json["models"]) {
    const std::string where = fmt::format("{}: model {}", path, models.size() + 1);
    if (!entry.is_object()) return absl::InvalidArgumentError(where + ": is invalid; expected an object");
    JsonObject members(entry, where);
    const std::string id = members.Text("profile");
    const std::vector<std::int32_t> tp = members.Counts("tp", {1, 2, 4, 8});
    const std::vector<std::int32_t> pp = members.Counts("pp", {1, 2, 4});
    ServedModel model;
    model.name = members.Has("name") ? members.Text("name") : id;
    model.token_budget = members.CountOr("token_budget", model.token_budget);
    model.max_seqs = members.CountOr("max_seqs", model.max_seqs);
    model.prefix_hit_rate = members.NumberOr("prefix_hit_rate", 0);
    members.NothingElse();
    for (const auto& [key, degrees] : {std::pair("tp", &tp), std::pair("pp", &pp)}) {  // every tp with every pp
      if (degrees->size() > 64) members.Fault(key, fmt::format("has {} degrees; expected at most 64", degrees->size()));
    }
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
      return absl::InvalidArgumentError(
          fmt::format("{}: is unknown; expected cascadia:1, cascadia:2 or cascadia:3", path));
    }
    if (models > 3) return absl::InvalidArgumentError(fmt::format("{}: supports 1 to 3 models, not {}", path, models));
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
      return absl::InvalidArgumentError(where + ": is invalid; expected a JSON object (JSON has no NaN)");
    }
    JsonObject members(json, where);
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
      members.Fault("outputs", fmt::format("has {} numbers; expected {}, one per model", s.outputs.size(), models));
    }
    if (members.status().ok() && s.scores.size() != models) {
      members.Fault("scores", fmt::format("has {} numbers; expected {}, one per model", s.scores.size(), models));
    }
    if (!members.status().ok()) return members.status();
    sample.push_back(std::move(s));
  }
  if (sample.empty()) return absl::InvalidArgumentError(path + ": has no requests");
  return sample;
}

}  // namespace takt::tool
