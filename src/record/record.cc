#include "takt/record.h"

#include <zlib.h>

#include <cstdint>
#include <ranges>
#include <type_traits>

#include "record/codec.h"
#include "record/frame.h"

namespace takt {

using internal::Frame;
using internal::Reader;
using internal::Writer;

namespace internal {
namespace {

constexpr std::size_t kChecksumBytes = 4;

// CRC-8 (polynomial x^8 + x^2 + x + 1) of a record's length. Without it a damaged length would look like a truncated
// log.
std::uint8_t Crc8(std::string_view bytes) {
  unsigned crc = 0xff;
  for (char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x80) != 0 ? 0x107u : 0u);
  }
  return static_cast<std::uint8_t>(crc);
}

std::uint32_t Crc32(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

// Layout: kind, length of the body and their CRC-8, then the body and its CRC-32.
void AppendFrame(std::string& out, std::uint8_t kind, std::string_view body) {
  const std::size_t start = out.size();
  Writer writer(out, {});
  writer.Fixed(kind, 1);
  writer.Varint(body.size());
  writer.Fixed(Crc8(std::string_view(out).substr(start)), 1);
  out += body;
  writer.Fixed(Crc32(body), kChecksumBytes);
}

Frame ReadFrame(std::string_view in) {
  constexpr std::size_t kLongestLength = 10;
  Frame frame;
  Reader reader(in, {});
  frame.kind = static_cast<std::uint8_t>(reader.Fixed(1));
  const std::uint64_t length = reader.Varint();
  if (!reader.ok()) {
    if (in.size() > kLongestLength) frame.state = Frame::State::kDamaged;
    return frame;
  }
  std::size_t head = 2;
  while (static_cast<unsigned char>(in[head - 1]) >= 0x80) ++head;
  if (in.size() == head) return frame;
  if (static_cast<std::uint8_t>(in[head]) != Crc8(in.substr(0, head))) {
    frame.state = Frame::State::kDamaged;
    return frame;
  }
  in.remove_prefix(head + 1);
  if (in.size() < kChecksumBytes || in.size() - kChecksumBytes < length) return frame;
  frame.body = in.substr(0, length);
  frame.bytes = head + 1 + frame.body.size() + kChecksumBytes;
  const std::uint64_t checksum = Reader(in.substr(length), {}).Fixed(kChecksumBytes);
  frame.state = checksum == Crc32(frame.body) ? Frame::State::kWhole : Frame::State::kDamaged;
  return frame;
}

namespace {

template <class T, class Variant>
constexpr std::size_t kIndexOf = 0;
template <class T, class... U>
constexpr std::size_t kIndexOf<T, std::variant<U...>> = [] {
  std::size_t index = 0;
  static_cast<void>(((std::is_same_v<T, U> ? false : (++index, true)) && ...));
  return index;
}();

template <class T>
constexpr auto kKind = static_cast<std::uint8_t>(kIndexOf<T, LogRecord>);

// Makes alternative `index` of a variant. Returns false if there is none.
template <class Variant, std::size_t I = 0>
bool EmplaceAt(Variant& variant, std::uint64_t index) {
  if constexpr (I < std::variant_size_v<Variant>) {
    if (index != I) return EmplaceAt<Variant, I + 1>(variant, index);
    variant.template emplace<I>();
    return true;
  } else {
    return false;
  }
}

}  // namespace
}  // namespace internal

using internal::kKind;

PlanDigest Digest(const StepPlan& plan) {
  const auto hash = []<class Part>(const Part& part) {
    return internal::Hash(std::span<const std::ranges::range_value_t<Part>>(part));
  };
  return {.id = plan.id,
          .tokens = plan.tokens,
          .idle = plan.idle,
          .wake_at = plan.wake_at,
          .entries = static_cast<std::int64_t>(plan.run.size()),
          .run = hash(plan.run),
          .moves = hash(plan.moves),
          .preempted = hash(plan.preempted),
          .failed = hash(plan.failed),
          .released = hash(plan.released)};
}

KeptPlan Keep(const StepPlan& plan) {
  const auto all = [](const auto& part) { return std::vector(part.begin(), part.end()); };
  return {plan.id,     all(plan.run), all(plan.moves), all(plan.preempted), all(plan.failed), all(plan.released),
          plan.tokens, plan.idle,     plan.wake_at};
}

// ---- writing --------------------------------------------------------------------------------------------------

Recorder::Recorder(Sink sink, RecorderOptions options) : sink_(std::move(sink)), options_(options) {
  buffer_ += internal::kLogMagic;
  buffer_ += internal::kLogVersion;
}

void Recorder::Append(std::uint8_t kind) {
  internal::AppendFrame(buffer_, kind, body_);
  body_.clear();
  if (sink_ && !start_ && buffer_.size() >= options_.flush_bytes) Flush();
}

void Recorder::Flush() {
  if (!sink_ || buffer_.empty()) return;
  sink_(buffer_);
  buffer_.clear();
}

void Recorder::Begin(TimePoint now) {
  Writer(body_, context_.now).Put(now, TimePoint{});
  context_.now = now;
  start_.reset();
  in_operation_ = true;
}

void Recorder::Start(const SchedulerOptions& options, std::string_view policy, std::string_view pause) {
  start_ = buffer_.size();
  Writer(body_, context_.now).Put(LogStart{options, std::string(policy), std::string(pause)}, LogStart{});
  Append(kKind<LogStart>);
  in_operation_ = true;
}

template <class E>
void Recorder::PutEvent(const E& event, TimePoint now) {
  Begin(now);
  Writer writer(body_, now);
  writer.Varint(internal::kIndexOf<E, LoggedEvent>);
  writer.Put(event, E{});
  Append(kKind<LogEvent>);
}

void Recorder::On(const Event& event, TimePoint now) {
  std::visit([&](const auto& e) { PutEvent(e, now); }, event);
}
void Recorder::On(const Epoch& epoch, TimePoint now) { PutEvent(epoch, now); }
void Recorder::ChangePolicy(const AnyPolicy& policy, TimePoint now) { PutEvent(LogPolicy{policy.spec()}, now); }
void Recorder::SetOptions(const SchedulerOptions& options, TimePoint now) { PutEvent(LogOptions{options}, now); }
void Recorder::SetRetention(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times) {
  PutEvent(LogRetention{retention.spec(), gate.spec(), times}, context_.now);
}

void Recorder::Plan(TimePoint now, const StepLimits& limits) {
  Begin(now);
  Writer(body_, now).Put(limits, context_.limits);
  context_.limits = limits;
  Append(kKind<LogPlan>);
}

void Recorder::Planned(const StepPlan& plan) {
  in_operation_ = false;
  Writer writer(body_, context_.now);
  writer.Varint(options_.plan_contents ? 1 : 0);
  options_.plan_contents ? writer.Put(Keep(plan), KeptPlan{}) : writer.Put(Digest(plan), PlanDigest{});
  Append(kKind<LogStep>);
}

void Recorder::Commit(const StepResult& result, TimePoint now) {
  Begin(now);
  Writer writer(body_, now);
  writer.Put(result.step, StepId{});
  writer.PutRows(result.rows, context_.rows);
  context_.rows.assign(result.rows.begin(), result.rows.end());
  if (result.rest_as_planned) writer.Varint(1);  // omitted if false, so that older logs read the same
  Append(kKind<LogCommit>);
}

void Recorder::Refused() {
  if (start_) buffer_.resize(*start_);
  Done();
}

void Recorder::Done() {
  in_operation_ = false;
  if (std::exchange(start_, std::nullopt) && sink_ && buffer_.size() >= options_.flush_bytes) Flush();
}

void Recorder::Answer(OracleQuestion question, std::int32_t value) {
  if (!in_operation_) return;
  Writer(body_, context_.now).Put(LogAnswer{question, value, {}, {}}, LogAnswer{});
  Append(kKind<LogAnswer>);
}

void Recorder::Answer(std::span<const KvReservation> reserved) {
  if (!in_operation_) return;
  reserved_.question = OracleQuestion::kReserve;
  reserved_.granted.clear();
  reserved_.for_ever.clear();
  for (const KvReservation& wish : reserved) {
    reserved_.granted.push_back(wish.granted);
    if (wish.granted || wish.refusal != KvRefusal::kForEver) continue;
    reserved_.for_ever.resize(reserved.size());
    reserved_.for_ever[reserved_.granted.size() - 1] = true;
  }
  Writer(body_, context_.now).Put(reserved_, LogAnswer{});
  Append(kKind<LogAnswer>);
}

// ---- reading --------------------------------------------------------------------------------------------------

namespace {

void ReadNow(Reader& reader, internal::LogContext& context, TimePoint& now) {
  reader.Get(now);
  context.now = now;
  reader.set_now(now);
}

template <class Record>  // LogStart, LogAnswer
void Read(Reader& reader, internal::LogContext&, Record& record) {
  reader.Get(record);
}

void Read(Reader& reader, internal::LogContext& context, LogEvent& record) {
  ReadNow(reader, context, record.now);
  if (!internal::EmplaceAt(record.event, reader.Varint())) return reader.Fail();
  std::visit([&](auto& event) { reader.Get(event); }, record.event);
  if (!reader.hashes().empty()) {
    record.hashes = std::make_shared<const std::vector<std::uint64_t>>(std::move(reader.hashes()));
  }
}

void Read(Reader& reader, internal::LogContext& context, LogPlan& record) {
  ReadNow(reader, context, record.now);
  reader.Get(context.limits);
  record.limits = context.limits;
}

void Read(Reader& reader, internal::LogContext&, LogStep& record) {
  switch (reader.Varint()) {
    case 0: return reader.Get(record.digest);
    case 1:
      reader.Get(record.plan.emplace());
      record.digest = Digest(record.plan->view());
      return;
    default: return reader.Fail();
  }
}

void Read(Reader& reader, internal::LogContext& context, LogCommit& record) {
  ReadNow(reader, context, record.now);
  reader.Get(record.step);
  reader.GetRows(record.rows, context.rows);
  context.rows = record.rows;
  record.rest_as_planned = !reader.done();
  if (record.rest_as_planned && reader.Varint() != 1) reader.Fail();
}

}  // namespace

absl::StatusOr<LogReader> LogReader::Open(std::string_view bytes) {
  if (!bytes.starts_with(internal::kLogMagic) || bytes.size() < internal::kLogHeaderBytes) {
    return absl::InvalidArgumentError("log: is invalid; expected \"takt log\" and a version at the start");
  }
  const int version = static_cast<unsigned char>(bytes[internal::kLogMagic.size()]);
  if (version != internal::kLogVersion) {
    return absl::InvalidArgumentError("log version " + std::to_string(version) + ": is unsupported; expected version " +
                                      std::to_string(internal::kLogVersion));
  }
  LogReader reader(bytes);
  reader.at_ = internal::kLogHeaderBytes;
  return reader;
}

absl::StatusOr<std::optional<LogRecord>> LogReader::Next() {
  if (at_ == bytes_.size()) return std::nullopt;
  const Frame frame = internal::ReadFrame(bytes_.substr(at_));
  if (frame.state == Frame::State::kCutOff) {
    truncated_ = true;
    return std::nullopt;
  }
  LogRecord record;
  if (frame.state == Frame::State::kDamaged) return Damaged("checksum mismatch");
  if (!internal::EmplaceAt(record, frame.kind)) return Damaged("unknown record kind " + std::to_string(frame.kind));
  Reader reader(frame.body, context_.now);
  std::visit([&](auto& r) { Read(reader, context_, r); }, record);
  if (!reader.ok() || !reader.done()) return Damaged("invalid content");
  at_ += frame.bytes;
  return record;
}

absl::Status LogReader::Damaged(std::string_view why) const {
  return absl::DataLossError("log record at byte " + std::to_string(at_) + ": " + std::string(why));
}

}  // namespace takt
