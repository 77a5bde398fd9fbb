// Reads the members of a JSON object and reports faults.
#ifndef TAKT_SRC_WORKLOAD_JSON_MEMBERS_H_
#define TAKT_SRC_WORKLOAD_JSON_MEMBERS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "takt/base/names.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

using Json = nlohmann::json;

// Parses a line as JSON. The error has the position of the first fault.
absl::StatusOr<Json> ParseJsonLine(std::string_view line);

// Returns a value as messages show it.
std::string Shown(const Json& value);

// Reads the members of one JSON object and keeps the first fault with its path. Values read after a fault are harmless,
// so callers read all members and check the fault once.
class Members {
 public:
  Members(const Json& object, std::string path, absl::Status& fault);

  const Json* Find(const char* key) const;

  // Members without `otherwise` are required.
  std::int64_t Whole(const char* key, std::int64_t least, std::int64_t most,
                     std::optional<std::int64_t> otherwise = {});

  // A time in units of 1 / `per_second` seconds.
  Duration Time(const char* key, std::int64_t per_second, std::optional<Duration> otherwise = {});

  std::string_view Text(const char* key);
  std::span<const Json> Array(const char* key, bool optional = true);
  void Hashes(const char* key, std::vector<std::uint64_t>& hashes);
  void Runs(const char* key, std::vector<PrefixRun>& runs);  // each as [first id, count]

  // Returns a value of an enum by name; `otherwise` if the member is missing.
  template <NamedEnum E>
  E Named(const char* key, E otherwise) {
    if (Find(key) == nullptr) return otherwise;
    const std::string_view name = Text(key);
    if (const std::optional<E> value = FromName<E>(name)) return *value;
    return Fault(key, fmt::format("\"{}\" is invalid; expected one of {}", name, fmt::join(NamesOf(E{}), ", "))),
           otherwise;
  }

  // Rejects any other key, which is most likely misspelt.
  void Only(std::initializer_list<std::string_view> known);

  // Reads a whole number that is not a member's value. `key` names its place in messages.
  std::int64_t WholeOf(const Json& value, const std::string& key, std::int64_t least, std::int64_t most);

  void Fault(const std::string& key, const std::string& what);

 private:
  const Json* Find(const char* key, bool optional);

  const Json& object_;
  std::string path_;
  absl::Status& fault_;
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_JSON_MEMBERS_H_
