// Reads profiles from a JSON file.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "profiles_table.h"

namespace takt {
namespace {

using Json = nlohmann::json;

// Finds the position at which a text stops being JSON.
struct SyntaxCheck final : nlohmann::json_sax<Json> {
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    at = position;
    return false;
  }
  std::size_t at = 0;  // bytes read, including the invalid byte
};

// Fields of one object. Keeps the first fault, after which every field reads as zero.
class Fields {
 public:
  Fields(const Json& object, std::string where, absl::Status& status)
      : object_(object), where_(std::move(where)), status_(status) {
    if (!object.is_object()) Fail("is not an object");
  }

  // Returns null if the field is missing or null.
  const Json* Find(const char* field) const {
    const auto it = object_.find(field);
    return object_.is_object() && it != object_.end() && !it->is_null() ? &*it : nullptr;
  }

  std::string Text(const char* field) {
    const Json* value = Find(field);
    if (value != nullptr && value->is_string() && !value->get_ref<const std::string&>().empty()) {
      return value->get_ref<const std::string&>();
    }
    Wrong(field, value, "a text");
    return {};
  }

  double Number(const char* field) {
    const Json* value = Find(field);
    return IsCost(value) ? value->get<double>() : Wrong(field, value, "a number of at least 0");
  }
  double NumberOr(const char* field, double otherwise) { return Find(field) ? Number(field) : otherwise; }

  template <std::size_t kSize>
  std::array<double, kSize> Numbers(const char* field) {
    std::array<double, kSize> numbers = {};
    const Json* value = Find(field);
    if (value == nullptr || !value->is_array() || value->size() != kSize) {
      Wrong(field, value, fmt::format("{} numbers", kSize));
      return numbers;
    }
    for (std::size_t i = 0; i < kSize; ++i) {
      const Json& number = (*value)[i];
      numbers[i] = IsCost(&number) ? number.get<double>()
                                   : Wrong(fmt::format("{}[{}]", field, i), &number, "a number of at least 0");
    }
    return numbers;
  }

  std::int64_t Integer(const char* field, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int32_t>::max()) {
    const Json* value = Find(field);
    if (IsCost(value)) {
      const double number = value->get<double>();
      if (number >= static_cast<double>(least) && number <= static_cast<double>(most) && number == std::floor(number)) {
        return static_cast<std::int64_t>(number);
      }
    }
    Wrong(field, value, fmt::format("a whole number from {} to {}", least, most));
    return least;
  }
  std::int32_t Integer32(const char* field, std::int64_t least) {
    return static_cast<std::int32_t>(Integer(field, least));
  }

  Fields Object(const char* field) {
    const Json* value = Find(field);
    if (value == nullptr) Wrong(field, value, "an object");
    return {value ? *value : object_, fmt::format("{}.{}", where_, field), status_};
  }

  void Fail(std::string_view what) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(fmt::format("{} {}", where_, what));
  }

 private:
  static bool IsCost(const Json* value) {
    return value != nullptr && value->is_number() && value->get<double>() >= 0 && value->get<double>() < 1e300;
  }

  double Wrong(std::string_view field, const Json* value, std::string_view wanted) {
    if (value == nullptr) {
      Fail(fmt::format("lacks {}, {}", field, wanted));
    } else {
      const std::string text = value->is_primitive() ? value->dump(-1, ' ', false, Json::error_handler_t::replace)
                                                     : fmt::format("{} of {}", value->type_name(), value->size());
      Fail(fmt::format("has {} = {}, not {}", field, text.substr(0, 60), wanted));
    }
    return 0;
  }

  const Json& object_;
  std::string where_;
  absl::Status& status_;
};

constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;

template <std::size_t kSize>
SoftFloor FloorOf(const std::array<double, kSize>& x) {
  return {x[0], x[1], x[2], x[3]};
}

// Reads one file: its shared parts and its entries.
class Reader {
 public:
  Reader(std::string path, const Json& file) : path_(std::move(path)), file_(file) {}

  absl::StatusOr<std::vector<Profile>> Read() {
    if (!file_.is_object()) return absl::InvalidArgumentError(path_ + ": is not an object");
    ReadList("profiles", [this](Fields& fields) { return ReadProfile(fields); });
    ReadList("e2e", [this](Fields& fields) { return ReadServed(fields); });
    if (status_.ok() && profiles_.empty()) {
      status_ = absl::InvalidArgumentError(path_ + ": has neither profiles nor e2e");
    }
    if (!status_.ok()) return status_;
    return std::move(profiles_);
  }

 private:
  template <class ReadEntry>
  void ReadList(const char* name, ReadEntry read_entry) {
    const auto list = file_.find(name);
    if (list == file_.end()) return;
    if (!list->is_array()) {
      status_ = absl::InvalidArgumentError(fmt::format("{}: {} is not an array", path_, name));
      return;
    }
    for (std::size_t i = 0; i < list->size() && status_.ok(); ++i) {
      const Json& entry = (*list)[i];
      const auto id = entry.find("id");
      const std::string named =
          entry.is_object() && id != entry.end() && id->is_string() ? " " + id->get_ref<const std::string&>() : "";
      Fields fields(entry, fmt::format("{}: {}[{}]{}", path_, name, i, named), status_);
      Profile profile = read_entry(fields);
      if (const std::string faults = profile.cost.Faults(); !faults.empty()) fields.Fail("is invalid: " + faults);
      if (!ids_.insert(profile.id).second) fields.Fail("repeats the id of an earlier entry");
      if (status_.ok()) profiles_.push_back(std::move(profile));
    }
  }

  Profile ReadProfile(Fields& fields) {
    Profile p;
    p.id = fields.Text("id");
    p.model = fields.Text("model");
    p.gpu = fields.Text("gpu");
    p.dtype = fields.Text("dtype");
    if (fields.Find("kv_heads")) p.kv_heads = fields.Integer32("kv_heads", 1);
    p.cost.tp = fields.Integer32("tp", 1);
    p.cost.layers = fields.Integer32("layers", 1);
    p.cost.hidden = fields.Integer32("hidden", 1);
    p.cost.gemm = FloorOf(fields.Numbers<4>("lin"));
    p.cost.head = FloorOf(fields.Numbers<4>("head"));
    const auto prefill = fields.Numbers<3>("ap");
    const auto decode = fields.Numbers<3>("ad");
    p.cost.prefill = {prefill[0], prefill[1], prefill[2]};
    p.cost.decode = {decode[0], decode[1], decode[2]};
    if (p.cost.tp > 1) p.cost.all_reduce = Curve(fields.Text("allreduce"), fields);
    if (fields.Find("experts")) {
      const auto experts = fields.Numbers<2>("experts");
      p.cost.experts = {experts[0], experts[1]};
    }
    if (fields.Find("fit")) {
      Fields fit = fields.Object("fit");
      p.decode_error_pct = Error(fit, "iter_decode");
      p.prefill_error_pct = Error(fit, "iter_prefill");
    }
    Complete(fields, p);
    if (fields.Find("kv_capacity_tokens")) {
      p.kv_capacity_tokens = fields.Object("kv_capacity_tokens").Integer("pp1", 0, kMostBytes);
    }
    return p;
  }

  Profile ReadServed(Fields& fields) {
    Profile p;
    p.id = fields.Text("id");
    const std::vector<std::string_view> parts = internal::SplitId(p.id);
    p.cost.tp = internal::NumberAfter("tp", parts.back());
    if (parts.size() < 5 || p.cost.tp == 0) {
      fields.Fail("has an invalid id; expected <family>/<model>/<gpu>/<dtype>/.../tp<N>");
      return p;
    }
    p.model = parts[1];
    p.gpu = parts[2];
    p.dtype = parts[3];
    p.cost.served =
        CostModel::Served{fields.Number("a0"), fields.Number("aB"), fields.Number("aS"), fields.Number("aQ")};
    p.decode_error_pct = fields.NumberOr("tpot_mape", -1);
    Complete(fields, p);
    return p;
  }

  // Reads the fields that all entries share, and fills defaults from the entry's GPU and family.
  void Complete(Fields& fields, Profile& p) {
    if (fields.Find("weight_bytes")) p.weight_bytes = fields.Integer("weight_bytes", 1, kMostBytes);
    if (fields.Find("kv_bytes_per_token")) p.kv_bytes_per_token = fields.Integer("kv_bytes_per_token", 1, kMostBytes);
    p.cost.kv_bytes_per_token = static_cast<double>(p.kv_bytes_per_token);
    if (fields.Find("kv_bytes_per_sequence")) {
      p.kv_bytes_per_sequence = fields.Integer("kv_bytes_per_sequence", 0, kMostBytes);
    }
    if (fields.Find("front_end")) {
      const auto front_end = fields.Numbers<2>("front_end");
      p.front_end_ms = front_end[0], p.front_end_token_us = front_end[1];
    }
    p.source = fields.Find("source") ? fields.Text("source") : internal::SourceOf(internal::SplitId(p.id)[0]);
    if (const GpuSpec* gpu = internal::FindGpu(p.gpu)) p.gpu_memory_gib = gpu->memory_gib;
    Fields file(file_, path_ + ":", status_);
    if (file.Find("gpus")) {
      Fields gpus = file.Object("gpus");
      if (gpus.Find(p.gpu.c_str())) p.gpu_memory_gib = gpus.Object(p.gpu.c_str()).Number("mem_gib");
    }
    const std::string network(internal::SendRecvNetwork(p.gpu));
    p.send_recv_intra = CurveOr("sendrecv/" + network + "/intra");
    p.send_recv_inter = CurveOr("sendrecv/" + network + "/inter");
    p.kv_capacity_tokens = KvCapacityTokens(p);
  }

  static double Error(Fields& fit, const char* part) { return fit.Find(part) ? fit.Object(part).Number("mape") : -1; }

  // Returns null if the file's "net" lacks the name.
  const Json* FindCurve(const std::string& name) const {
    const auto net = file_.find("net");
    if (net == file_.end() || !net->is_object()) return nullptr;
    const auto curve = net->find(name);
    return curve == net->end() ? nullptr : &*curve;
  }

  TransferCurve Curve(const std::string& name, Fields& user) {
    const Json* curve = FindCurve(name);
    if (curve == nullptr) {
      user.Fail(fmt::format("has allreduce = \"{}\"; expected a name in net", name));
      return {};
    }
    return CurveOf(name, *curve);
  }

  TransferCurve CurveOr(const std::string& name) {
    const Json* curve = FindCurve(name);
    return curve ? CurveOf(name, *curve) : internal::FindCurve(name);
  }

  TransferCurve CurveOf(const std::string& name, const Json& json) {
    const std::string where = fmt::format("{}: net \"{}\"", path_, name);
    Fields fields(json, where, status_);
    const Json* bytes = fields.Find("bytes");
    const Json* ms = fields.Find("ms");
    if (!bytes || !ms || !bytes->is_array() || !ms->is_array() || bytes->size() != ms->size() || bytes->empty()) {
      fields.Fail("has invalid bytes or ms; expected two arrays of one length");
      return {};
    }
    const auto number = [](const Json& value) {
      return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    };
    TransferCurve curve;
    for (std::size_t i = 0; i < bytes->size(); ++i) curve.points.push_back({number((*bytes)[i]), number((*ms)[i])});
    return curve;
  }

  std::string path_;
  const Json& file_;
  absl::Status status_;
  std::set<std::string> ids_;
  std::vector<Profile> profiles_;
};

}  // namespace

absl::StatusOr<std::vector<Profile>> ReadProfiles(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> in(std::fopen(path.c_str(), "rb"));
  if (!in) return absl::NotFoundError(path + ": cannot be opened");
  constexpr std::size_t kMost = std::size_t{64} << 20;
  std::string text;
  std::array<char, 65536> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), in.get())) {
    if (text.append(buffer.data(), got).size() > kMost) break;
  }
  if (std::ferror(in.get()) != 0) return absl::InvalidArgumentError(path + ": cannot be read");
  if (text.size() > kMost) return absl::ResourceExhaustedError(fmt::format("{}: more than {} bytes", path, kMost));
  SyntaxCheck check;
  if (!Json::sax_parse(text, &check)) {
    const std::string before = text.substr(0, check.at);
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: not JSON", path, 1 + std::count(before.begin(), before.end(), '\n')));
  }
  return Reader(path, Json::parse(text, nullptr, false)).Read();
}

}  // namespace takt
