#include "tool/plan/cluster_input.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/json_object.h"
#include "tool/run/output.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace takt::tool {
namespace {

using Json = nlohmann::json;

// Reads the entries of the list `key` with `read`. Returns the first fault.
template <class Read>
absl::Status ReadList(JsonObject& object, const char* key, const std::string& where, const Read& read) {
  const Json* list = object.List(key);
  if (list == nullptr) return object.status();
  std::size_t number = 0;
  for (const Json& entry : *list) {
    const std::string here = fmt::format("{}: {} {}", where, key, ++number);
    if (!entry.is_object()) return absl::InvalidArgumentError(here + ": is invalid; expected an object");
    JsonObject members(entry, here);
    if (absl::Status status = read(members, here); !status.ok()) return status;
    members.NothingElse();
    if (!members.status().ok()) return members.status();
  }
  return absl::OkStatus();
}

// Returns the index of the item whose name is the value of `key`.
template <class Named>
int Find(JsonObject& members, const char* key, const std::vector<Named>& all) {
  const std::string name = members.Text(key);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  members.Fault(key, fmt::format("\"{}\" is unknown", name));
  return 0;
}

absl::Status ReadClass(JsonObject& members, const std::string& where, ClusterProblem& problem) {
  GpuClass gpu_class;
  gpu_class.name = members.Text("name");
  gpu_class.price = members.NumberOr("price", 0);
  absl::Status status = ReadList(members, "servers", where, [&](JsonObject& group, const std::string&) {
    gpu_class.servers.push_back({.servers = group.CountOr("servers", 1, 0), .gpus = group.CountOr("gpus", 8)});
    return absl::OkStatus();
  });
  problem.classes.push_back(std::move(gpu_class));
  return status;
}

void ReadReplicas(JsonObject& members, ClusterProblem& problem) {
  ReplicaType type;
  type.model = Find(members, "model", problem.models);
  type.gpu_class = Find(members, "class", problem.classes);
  type.tp = members.CountOr("tp", 1);
  type.pp = members.CountOr("pp", 1);
  type.rate = members.NumberOr("rate", 0);
  type.most = members.CountOr("most", kNoLimit, 0);
  type.current = members.CountOr("current", 0, 0);
  type.max_change = members.CountOr("max_change", kNoLimit, 0);
  type.move_cost = members.NumberOr("move_cost", 0);
  const std::string model = members.TextOr("model", "");
  type.name = members.TextOr("name", fmt::format("{} tp{} pp{}", model, type.tp, type.pp));
  problem.types.push_back(std::move(type));
}

}  // namespace

absl::StatusOr<ClusterProblem> ReadClusterProblem(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return absl::InvalidArgumentError(path + ": is invalid; expected a JSON object");
  JsonObject object(json, path);
  ClusterProblem problem;
  const std::string goal = object.TextOr("goal", "cost");
  if (goal != "cost" && goal != "throughput") object.Fault("goal", "is invalid; expected cost or throughput");
  problem.goal = goal == "cost" ? ClusterGoal::kLeastCost : ClusterGoal::kMostThroughput;
  problem.min_quality = object.NumberOr("quality", problem.min_quality);
  problem.budget = object.NumberOr("budget", problem.budget);
  problem.move_budget = object.NumberOr("move_budget", problem.move_budget);
  problem.mixed = object.FlagOr("mixed", false);
  absl::Status status = ReadList(object, "models", path, [&](JsonObject& members, const std::string&) {
    problem.models.push_back({.name = members.Text("name"), .min_replicas = members.CountOr("min_replicas", 0, 0)});
    return absl::OkStatus();
  });
  status.Update(ReadList(object, "classes", path, [&](JsonObject& members, const std::string& where) {
    return ReadClass(members, where, problem);
  }));
  status.Update(ReadList(object, "replicas", path, [&](JsonObject& members, const std::string&) {
    ReadReplicas(members, problem);
    return absl::OkStatus();
  }));
  status.Update(ReadList(object, "routings", path, [&](JsonObject& members, const std::string&) {
    RoutingChoice routing;
    routing.name = members.TextOr("name", fmt::format("{}", problem.routings.size() + 1));
    routing.rates = members.Numbers("rates");
    routing.quality = members.NumberOr("quality", 0);
    problem.routings.push_back(std::move(routing));
    return absl::OkStatus();
  }));
  object.NothingElse();
  status.Update(object.status());
  if (!status.ok()) return status;
  if (absl::Status valid = problem.Validate(); !valid.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path, std::string(valid.message())));
  }
  return problem;
}

}  // namespace takt::tool
