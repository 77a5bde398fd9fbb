// The members of a JSON object, read with their faults.
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

// A line as JSON; the error says where it stops being that.
absl::StatusOr<Json> ParseJsonLine(std::string_view line);

// What a message shows of a value.
std::string Shown(const Json& value);

// Reads the members of one JSON object. The first fault is kept, with its path, and whatever is read after it is
// harmless: ask for everything, then look at the fault once.
class Members {
 public:
  Members(const Json& object, std::string path, absl::Status& fault);

  const Json* Find(const char* key) const;

  // What has no `otherwise` must be there.
  std::int64_t Whole(const char* key, std::int64_t least, std::int64_t most,
                     std::optional<std::int64_t> otherwise = {});

  // A time in units of one second over `per_second`.
  Duration Time(const char* key, std::int64_t per_second, std::optional<Duration> otherwise = {});

  std::string_view Text(const char* key);
  std::span<const Json> Array(const char* key, bool optional = true);
  void Hashes(const char* key, std::vector<std::uint64_t>& hashes);
  void Runs(const char* key, std::vector<PrefixRun>& runs);  // [first id, count] each

  // One of the names of an enum; `otherwise` where there is none.
  template <NamedEnum E>
  E Named(const char* key, E otherwise) {
    if (Find(key) == nullptr) return otherwise;
    const std::string_view name = Text(key);
    if (const std::optional<E> value = FromName<E>(name)) return *value;
    return Fault(key, fmt::format("\"{}\" is none of {}", name, fmt::join(NamesOf(E{}), ", "))), otherwise;
  }

  // Any other key is most likely a misspelt one.
  void Only(std::initializer_list<std::string_view> known);

  // A whole number that is not a member's value: `key` says where it stands.
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
