// Prints logs as text.
#include <iterator>
#include <string>
#include <variant>

#include "record/text.h"
#include "takt/record.h"

namespace takt {
namespace internal {
namespace {

static_assert(std::size(kEventNames) == std::variant_size_v<LoggedEvent>);

struct LineOf {
  std::string& line;

  void Head(TimePoint now, std::string_view what) {
    Printer(line).Text(now);
    line += ' ';
    line += what;
  }

  void operator()(const LogStart& r) {
    line += TextOf("start policy=", r.policy, " pause=", r.pause);
    Printer(line).Pairs(r.options, " ");
  }
  void operator()(const LogEvent& r) {
    Head(r.now, kEventNames[r.event.index()]);
    std::visit([this](const auto& e) { Printer(line).Pairs(e, " "); }, r.event);
  }
  void operator()(const LogPlan& r) {
    Head(r.now, "plan");
    Printer(line).Pairs(r.limits, " ");
  }
  void operator()(const LogStep& r) {
    line += "  step";
    r.plan ? Printer(line).Pairs(*r.plan, " ") : Printer(line).Pairs(r.digest, " ");
  }
  void operator()(const LogCommit& r) {
    Head(r.now, TextOf("commit step=", r.step.value, " rows="));
    Printer(line).Text(r.rows);
    if (r.rest_as_planned) line += " rest=as_planned";
  }
  void operator()(const LogAnswer& r) {
    line += TextOf("  oracle ", Name(r.question), " ");
    r.question == OracleQuestion::kReserve ? Printer(line).Text(r.granted) : Printer(line).Text(r.value);
    if (!r.for_ever.empty()) line += " refused_for_ever=", Printer(line).Text(r.for_ever);
  }
};

}  // namespace
}  // namespace internal

absl::Status DumpLog(std::string_view bytes, const std::function<void(std::string_view line)>& out) {
  auto reader = LogReader::Open(bytes);
  if (!reader.ok()) return reader.status();
  std::string line;
  for (;;) {
    const auto record = reader->Next();
    if (!record.ok()) return record.status();
    if (!*record) break;
    line.clear();
    std::visit(internal::LineOf{line}, **record);
    out(line);
  }
  if (reader->truncated()) out(internal::TextOf("(truncated at byte ", reader->offset(), ")"));
  return absl::OkStatus();
}

}  // namespace takt
