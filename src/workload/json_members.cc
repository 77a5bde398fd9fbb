#include "workload/json_members.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "workload/format.h"

namespace takt {
namespace {

// Finds the position at which a line stops being JSON, which the parser that builds values does not report.
struct FaultFinder : Json::json_sax_t {
  std::size_t position = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(Json::number_integer_t) override { return true; }
  bool number_unsigned(Json::number_unsigned_t) override { return true; }
  bool number_float(Json::number_float_t, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    position = at;
    return false;
  }
};

}  // namespace

absl::StatusOr<Json> ParseJsonLine(std::string_view line) {
  Json json = Json::parse(line.begin(), line.end(), nullptr, false);
  if (!json.is_discarded()) return json;
  FaultFinder finder;
  Json::sax_parse(line.begin(), line.end(), &finder);
  const std::size_t from = finder.position > 20 ? finder.position - 20 : 0;
  return absl::InvalidArgumentError(
      fmt::format("column {}: invalid JSON near {}", finder.position, Quoted(line.substr(from, 40))));
}

std::string Shown(const Json& value) {
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  return value.is_string() ? Quoted(value.get_ref<const std::string&>()) : value.dump();
}

Members::Members(const Json& object, std::string path, absl::Status& fault)
    : object_(object), path_(std::move(path)), fault_(fault) {
  if (!object.is_object()) Fault("", Shown(object) + " is invalid; expected an object");
}

const Json* Members::Find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

const Json* Members::Find(const char* key, bool optional) {
  const Json* value = Find(key);
  if (value == nullptr && !optional) Fault(key, "is missing");
  return value;
}

std::int64_t Members::Whole(const char* key, std::int64_t least, std::int64_t most,
                            std::optional<std::int64_t> otherwise) {
  const Json* value = Find(key, otherwise.has_value());
  return value == nullptr ? otherwise.value_or(least) : WholeOf(*value, key, least, most);
}

std::int64_t Members::WholeOf(const Json& value, const std::string& key, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) return Fault(key, Shown(value) + " is invalid; expected a whole number"), least;
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  const std::int64_t whole = huge ? INT64_MAX : value.get<std::int64_t>();
  if (whole >= least && whole <= most) return whole;
  if (whole > most) return Fault(key, fmt::format("{} is above {}", Shown(value), most)), least;
  return Fault(key, Shown(value) + (least == 0 ? " is negative" : fmt::format(" is below {}", least))), least;
}

Duration Members::Time(const char* key, std::int64_t per_second, std::optional<Duration> otherwise) {
  constexpr Duration kZero{0};
  const Json* value = Find(key, otherwise.has_value());
  if (value == nullptr) return otherwise.value_or(kZero);
  if (!value->is_number()) return Fault(key, Shown(*value) + " is invalid; expected a number"), kZero;
  const double time = value->get<double>();
  const std::int64_t most = kMaxWorkloadTime / std::chrono::seconds(1) * per_second;
  if (time < 0) return Fault(key, Shown(*value) + " is negative"), kZero;
  if (time > static_cast<double>(most)) return Fault(key, fmt::format("{} is above {}", Shown(*value), most)), kZero;
  return FromSeconds(time / static_cast<double>(per_second));
}

std::string_view Members::Text(const char* key) {
  const Json* value = Find(key, true);
  if (value == nullptr) return "";
  if (!value->is_string()) return Fault(key, Shown(*value) + " is invalid; expected a string"), "";
  return value->get_ref<const std::string&>();
}

std::span<const Json> Members::Array(const char* key, bool optional) {
  const Json* value = Find(key, optional);
  if (value == nullptr) return {};
  if (!value->is_array()) return Fault(key, Shown(*value) + " is invalid; expected an array"), std::span<const Json>();
  return value->get_ref<const Json::array_t&>();
}

void Members::Hashes(const char* key, std::vector<std::uint64_t>& hashes) {
  hashes.clear();
  for (const Json& hash : Array(key)) {
    if (!hash.is_number_unsigned())
      return Fault(key, Shown(hash) + " is invalid; expected a whole number from 0 to 2^64-1");
    hashes.push_back(hash.get<std::uint64_t>());
  }
}

void Members::Runs(const char* key, std::vector<PrefixRun>& runs) {
  runs.clear();
  for (const Json& run : Array(key)) {
    const std::string at = fmt::format("{}[{}]", key, runs.size());
    if (!run.is_array() || run.size() != 2) return Fault(at, "is invalid; expected [first id, count]");
    const auto first = WholeOf(run[0], at, 0, UINT32_MAX);
    const auto count = WholeOf(run[1], at, 1, std::int64_t{UINT32_MAX} + 1 - first);
    runs.push_back(
        {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(std::min<std::int64_t>(count, UINT32_MAX))});
  }
}

void Members::Only(std::initializer_list<std::string_view> known) {
  if (!object_.is_object()) return;
  for (const auto& [key, value] : object_.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    return Fault("", fmt::format("key {} is unknown; expected one of {}", Quoted(key), fmt::join(known, ", ")));
  }
}

void Members::Fault(const std::string& key, const std::string& what) {
  if (!fault_.ok()) return;
  const std::string path = path_ + (path_.empty() || key.empty() ? "" : ".") + key;
  fault_ = path.empty() ? absl::InvalidArgumentError(what) : BadField(path, what);
}

}  // namespace takt
