#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tool/report/html_page.h"
#include "tool/report/html_text.h"
#include "tool/report/json_writer.h"
#include "lab/report/scenario_report.h"
#include "fmt/format.h"
#include "takt/version.h"

namespace takt::tool {

std::string PaperText(const ScenarioClaim& claim) {
  const auto &low = claim.paper_low, &high = claim.paper_high;
  if (!low) return high ? fmt::format("at most {:g}", *high) : "";
  if (!high) return *low == 0 ? "above 0" : fmt::format("over {:g}", *low);
  return *low == *high ? fmt::format("{:g}", *low) : fmt::format("{:g} to {:g}", *low, *high);
}

namespace {

template <class Enum>
std::string NameText(Enum value) {
  return std::string(NamesOf(value)[static_cast<std::size_t>(value)]);
}

// Returns a table of the measured claims, or of all.
Table ClaimTable(const ScenarioReport& report, bool all) {
  const bool limits = std::ranges::any_of(report.claims, [](const ScenarioClaim& c) { return !!c.limit; });
  std::vector<Table::Column> columns = {{"", "claim", false}, {"", report.claimed_by}, {"", "here"}};
  if (limits) columns.push_back({"", "95 % limit"});
  const bool tags = std::ranges::count(report.claims, ClaimSource::kPaper, &ScenarioClaim::source) > 0;
  for (const char* name : {"unit", "source", "verdict", "because"}) {
    if (tags || name != std::string_view("source")) columns.push_back({"", name, false});
  }
  Table table(std::move(columns));
  for (const ScenarioClaim& claim : report.claims) {
    if (!all && !claim.ours) continue;
    table.BeginRow();
    table.Text(claim.name);
    table.Text(PaperText(claim));
    table.Text(claim.ours ? Short(*claim.ours) : "-");
    if (limits) table.Text(claim.limit ? Short(*claim.limit) : "-");
    table.Text(claim.unit);
    if (tags) table.Text(NameText(claim.source));
    table.Text(NameText(claim.verdict));
    table.Text(claim.reason);
  }
  return table;
}

// Returns a count of the claims of these sources by verdict.
std::string CountOf(const ScenarioReport& report, std::initializer_list<ClaimSource> sources, std::string_view whose) {
  std::int64_t all = 0, measured = 0;
  std::array<std::int64_t, NamesOf(Verdict{}).size()> verdicts = {};
  for (const ScenarioClaim& c : report.claims) {
    if (std::ranges::find(sources, c.source) == sources.end()) continue;
    ++all;
    if (!c.ours) continue;
    ++measured;
    ++verdicts[static_cast<std::size_t>(c.verdict)];
  }
  return fmt::format("{}{}, {} measured: {} hold, {} beyond, {} fail, {} undecided.", Counted(all, "claim"), whose,
                     measured, verdicts[0], verdicts[3], verdicts[1], verdicts[2]);
}

// Returns the count of the paper's claims, and that of all claims if the report has others.
std::string ClaimCount(const ScenarioReport& report) {
  const auto papers = std::ranges::count(report.claims, ClaimSource::kPaper, &ScenarioClaim::source);
  std::string text;
  if (papers > 0) text = CountOf(report, {ClaimSource::kPaper}, " of the paper");
  if (papers == std::ssize(report.claims)) return text;
  return fmt::format("{}{}{}", text, text.empty() ? "" : " ",
                     CountOf(report, {ClaimSource::kPaper, ClaimSource::kOwn, ClaimSource::kFitted},
                             papers > 0 ? " with takt's own and fitted ones" : ""));
}

void WriteNumber(JsonWriter& json, std::string_view key, const std::optional<double>& number) {
  json.Key(key);
  if (number) json.Value(*number);
  else json.Null();
}

std::string PlotsHtml(const ScenarioPlots& group) {
  std::map<std::size_t, std::string> legend;
  for (const Plot& plot : group.plots) {
    for (const PlotLine& line : plot.lines) legend.emplace(line.style, line.name);
  }
  std::string html = fmt::format("<h2>{}</h2>\n<div class=legend>", HtmlText(group.heading));
  for (const auto& [style, name] : legend) html += LegendButton(style, name);
  html += "</div>\n<div class=plots>\n";
  for (const Plot& plot : group.plots) html += ToFigure(plot);
  return html + "</div>\n";
}

}  // namespace

std::string ScenarioText(const ScenarioReport& report, bool colour) {
  std::string text = report.title + "\n";
  for (const Condition& c : report.conditions) text += fmt::format("{:<11}{}\n", c.name, ShownName(c.text));
  for (const ScenarioTable& t : report.tables) {
    if (t.page_only) continue;
    text += fmt::format("\n{}\n\n{}", t.heading, Table(t.table).ToString(colour));
  }
  text += "\n";
  if (!report.claims.empty()) {
    text += fmt::format("{}\n\n{}\n", report.claims_heading, ClaimTable(report, false).ToString(colour));
    text += ClaimCount(report) + "\n";
  }
  for (const std::string& finding : report.findings) text += finding + "\n";
  if (report.interrupted) text += "Interrupted: what had not ended is missing.\n";
  return text;
}

std::string ScenarioHtml(const ScenarioReport& report) {
  std::string html = fmt::format("<h1>{}</h1>\n<dl>\n", HtmlText(report.title));
  for (const Condition& c : report.conditions) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", HtmlText(c.name), HtmlText(c.text));
  }
  html += "</dl>\n";
  if (report.interrupted) html += "<p>Interrupted: what had not ended is missing.</p>\n";
  for (const std::string& finding : report.findings) html += fmt::format("<p>{}</p>\n", HtmlText(finding));
  for (const ScenarioPlots& group : report.plots) html += PlotsHtml(group);
  for (const ScenarioFigure& figure : report.figures) {
    html += fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=wide>{}</div>\n", HtmlText(figure.heading),
                        HtmlText(figure.text), figure.svg);
  }
  if (!report.claims.empty()) {
    html += fmt::format("<h2>{}</h2>\n<p>{}</p>\n<div class=wide>{}</div>\n", HtmlText(report.claims_heading),
                        ClaimCount(report), ClaimTable(report, true).ToHtml());
  }
  for (const ScenarioTable& t : report.tables) {
    html += fmt::format("<h2>{}</h2>\n<div class=wide>{}</div>\n", HtmlText(t.heading), Table(t.table).ToHtml());
  }
  return HtmlPage(report.title, html);
}

std::string ScenarioJson(const ScenarioReport& report) {
  JsonWriter json;
  json.BeginObject().Field("takt", TAKT_VERSION).Field("scenario", report.name).Field("full", report.full);
  if (!report.regime.empty()) json.Field("regime", report.regime);
  json.Field("seeds", report.seeds).Field("partial", report.interrupted);
  json.Key("conditions").BeginObject();
  for (const Condition& c : report.conditions) json.Field(c.name, c.text);
  json.EndObject();
  json.Key("rows").BeginArray();
  for (const ScenarioRow& row : report.rows) {
    json.BeginObject();
    for (const auto& [key, value] : row) {
      std::visit([&, &name = key](const auto& v) { json.Field(name, v); }, value);
    }
    json.EndObject();
  }
  json.EndArray().Key("claims").BeginArray();
  for (const ScenarioClaim& claim : report.claims) {
    json.BeginObject().Field("name", claim.name);
    WriteNumber(json, "ours", claim.ours);
    WriteNumber(json, "paper_low", claim.paper_low);
    WriteNumber(json, "paper_high", claim.paper_high);
    if (claim.limit) json.Field("limit_95", *claim.limit);
    if (claim.low && claim.high) {
      json.Key("interval_95").BeginArray();
      for (const double end : {*claim.low, *claim.high}) {
        if (std::isfinite(end)) json.Value(end);
        else json.Null();
      }
      json.EndArray();
    }
    json.Field("unit", claim.unit).Field("holds", claim.holds()).Field("verdict", NameText(claim.verdict));
    json.Field("source", NameText(claim.source));
    json.Field("reason", claim.reason).EndObject();
  }
  json.EndArray().Key("findings").BeginArray();
  for (const std::string& finding : report.findings) json.Value(finding);
  json.EndArray();
  if (report.wall_s) json.Key("wall").BeginObject().Field("total_s", *report.wall_s).EndObject();
  json.EndObject();
  return json.Take() + "\n";
}

}  // namespace takt::tool
