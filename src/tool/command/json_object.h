// Reads members of hand-written JSON objects.
#ifndef TAKT_SRC_TOOL_COMMAND_JSON_OBJECT_H_
#define TAKT_SRC_TOOL_COMMAND_JSON_OBJECT_H_

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace takt::tool {

// Reads members of one JSON object. Keeps the first fault, which names the object's place.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {}

  bool Has(const char* key) const { return object_.contains(key); }

  std::string Text(const char* key) {
    seen_.insert(key);
    if (!Has(key) || !object_[key].is_string()) return Fault(key, "is invalid; expected a string"), "";
    return object_[key].get<std::string>();
  }

  std::string TextOr(const char* key, std::string otherwise) { return Has(key) ? Text(key) : otherwise; }

  bool FlagOr(const char* key, bool otherwise) {
    seen_.insert(key);
    if (!Has(key)) return otherwise;
    if (!object_[key].is_boolean()) return Fault(key, "is invalid; expected true or false"), otherwise;
    return object_[key].get<bool>();
  }

  // Returns null if the member is missing or is not a list.
  const nlohmann::json* List(const char* key) {
    seen_.insert(key);
    if (Has(key) && object_[key].is_array()) return &object_[key];
    Fault(key, "is invalid; expected a list");
    return nullptr;
  }

  double Number(const char* key, const nlohmann::json& value) {
    // JSON has no NaN or infinity, but Python's writer emits them.
    if (!value.is_number()) Fault(key, "is invalid; expected a number");
    return value.is_number() ? value.get<double>() : 0;
  }

  std::int32_t Count(const char* key, const nlohmann::json& value, std::int64_t least = 1) {
    const bool whole = value.is_number_integer() && value >= least && value <= std::numeric_limits<std::int32_t>::max();
    if (!whole) {
      const std::string shown = value.is_structured() ? value.type_name() : value.dump();  // of any depth
      Fault(key, fmt::format("{} is invalid; expected a whole number of at least {}", shown, least));
    }
    return whole ? value.get<std::int32_t>() : 1;
  }

  std::int32_t CountOr(const char* key, std::int32_t otherwise, std::int64_t least = 1) {
    seen_.insert(key);
    return Has(key) ? Count(key, object_[key], least) : otherwise;
  }

  double NumberOr(const char* key, double otherwise) {
    seen_.insert(key);
    return Has(key) ? Number(key, object_[key]) : otherwise;
  }

  std::vector<std::int32_t> Counts(const char* key, std::vector<std::int32_t> otherwise) {
    seen_.insert(key);
    if (!Has(key)) return otherwise;
    std::vector<std::int32_t> counts;
    if (!object_[key].is_array()) return Fault(key, "is invalid; expected a list of whole numbers"), counts;
    for (const nlohmann::json& value : object_[key]) counts.push_back(Count(key, value));
    return counts;
  }

  std::vector<double> Numbers(const char* key) {
    seen_.insert(key);
    std::vector<double> numbers;
    if (!Has(key) || !object_[key].is_array()) return Fault(key, "is invalid; expected a list of numbers"), numbers;
    for (const nlohmann::json& value : object_[key]) numbers.push_back(Number(key, value));
    return numbers;
  }

  void NothingElse() {
    for (const auto& [key, value] : object_.items()) {
      if (!seen_.contains(key)) Fault(key.c_str(), "is unknown");
    }
  }

  void Fault(const char* key, std::string_view what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{}: {} {}", where_, key, what));
  }
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> seen_;
  absl::Status status_;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_JSON_OBJECT_H_
