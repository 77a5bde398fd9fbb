#include "tool/plan/plan_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tool/report/html_page.h"
#include "tool/report/html_text.h"
#include "tool/report/json_writer.h"
#include "tool/report/plot.h"
#include "tool/report/reports.h"
#include "tool/report/table.h"
#include "fmt/format.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

std::string ShapeText(const Profile& shape) {
  return shape.cost.pp > 1 ? fmt::format("tp{} pp{}", shape.cost.tp, shape.cost.pp)
                           : fmt::format("tp{}", shape.cost.tp);
}

std::string GoalText(const PlanRun& run) {
  const std::string soft = std::isfinite(run.goal.penalty)
                               ? fmt::format("; a miss costs {} times its share of the range", Short(run.goal.penalty))
                               : "";
  if (run.goal.kind == CascadeGoal::Kind::kLatencyBudget) {
    return fmt::format("the best quality with a p95 latency of at most {} s{}", Short(run.goal.latency_budget), soft);
  }
  return fmt::format("the least p95 latency {} with a quality of at least {}{}",
                     run.goal.end_to_end ? "along the path" : "of the slowest model", Short(run.goal.quality_floor),
                     soft);
}

std::string ThresholdText(const std::vector<double>& thresholds) {
  std::string text;
  for (const double h : thresholds) text += fmt::format("{}{:g}", text.empty() ? "" : ", ", h);
  return text.empty() ? "none" : text;
}

std::vector<Condition> ConditionsOf(const PlanRun& run) {
  std::string models;
  bool derived = false;
  for (const ServedModel& m : run.problem.models) {
    models += (models.empty() ? "" : " -> ") + m.name;
    for (const Profile& shape : m.shapes) derived |= shape.derived;
  }
  return {
      {"Cascade", models + (derived ? " (some profiles are derived, not measured)" : "")},
      {"Workload", fmt::format("{} of {}, {:g} requests/s; quality from {} (first model alone) to {} (best routing)",
                               Counted(std::ssize(run.problem.sample), "request"), run.workload, run.problem.rate,
                               Short(run.nadir), Short(run.best_quality))},
      {"Cluster", fmt::format("{} at {:g} USD/h; a judge takes {:g} s", Counted(run.problem.gpus, "GPU"),
                              run.problem.gpu_usd_per_hour, run.problem.judge_s)},
      {"Goal", GoalText(run)}};
}

Table PlanTable(const PlanRun& run) {
  Table table({{"", "model", false},
               {"", "GPUs"},
               {"", "replicas", false},
               {"requests", "share %"},
               {"requests", "1/s"},
               {"p95 [s]", "by tables"},
               {"p95 [s]", "simulated"},
               {"", "busy %"},
               {"", "escalates below", false}});
  for (std::size_t m = 0; m < run.plan.models.size(); ++m) {
    const ModelPlan& own = run.plan.models[m];
    table.BeginRow();
    table.Text(own.name);
    table.Number(own.gpus);
    table.Text(own.replicas.empty() ? "-" : ReplicasText(run.problem.models[m], own));
    table.Number(100 * own.share);
    table.Number(own.rate);
    table.Number(own.gpus > 0 ? own.p95 : Table::kNoNumber);
    table.Number(own.gpus > 0 && own.simulated_p95 > 0 ? own.simulated_p95 : Table::kNoNumber);
    table.Number(own.gpus > 0 ? 100 * own.utilisation : Table::kNoNumber);
    table.Text(m < run.plan.thresholds.size() ? fmt::format("{:g}", run.plan.thresholds[m]) : "-");
  }
  return table;
}

std::vector<std::string> Sentences(const PlanRun& run) {
  const CascadePlan& p = run.plan;
  std::vector<std::string> lines;
  lines.push_back(fmt::format(
      "The slowest model's p95 latency is {} s by the tables{}; the quality is {}.", Short(p.latency),
      p.simulated_latency > 0 ? fmt::format(", {} s simulated", Short(p.simulated_latency)) : "", Short(p.quality)));
  if (p.simulated_e2e > 0) {
    lines.push_back(
        fmt::format("The p95 latency of whole requests, judges included, is {} s.", Short(p.simulated_e2e)));
  }
  lines.push_back(
      fmt::format("{} of {} GPUs get work; the cluster costs {} USD/h, {} USD per 1,000 requests; it sustains "
                  "{} requests/s at this quality.",
                  p.gpus, run.problem.gpus, Short(p.usd_per_hour), Short(p.usd_per_1000), Short(run.most)));
  lines.push_back(
      fmt::format("A replica counts as busy during every step, even with one request. A replica that is always busy "
                  "may have room for more. {:g} requests/s are {:.1f} % of the capacity of these GPUs.",
                  run.problem.rate, 100 * run.problem.rate / run.most));
  if (run.alternation) {
    const double gap = 100 * (run.alternation->latency / p.latency - 1);
    lines.push_back(
        fmt::format("The paper's alternation ends after {} rounds at thresholds {}: p95 {} s ({:+.1f} %), quality "
                    "{}.",
                    run.alternation->rounds, ThresholdText(run.alternation->thresholds),
                    Short(run.alternation->latency), gap, Short(run.alternation->quality)));
  } else if (!run.alternation_fault.empty()) {
    lines.push_back("The paper's alternation: " + run.alternation_fault + ".");
  }
  lines.push_back(fmt::format("{1} of {0} different routings form the frontier of latency and quality.",
                              Grouped(static_cast<long long>(run.routings)), run.frontier.size()));
  return lines;
}

std::string WallText(const PlanRun& run) {
  return fmt::format(
      "Measuring the tables took {} s, the plan and its simulation {} s. Tables fit all thresholds, rates and goals.",
      Short(run.measure_s), Short(run.plan_s));
}

void WritePlan(JsonWriter& json, const PlanRun& run, const CascadePlan& plan) {
  json.BeginObject().Key("thresholds").BeginArray();
  for (const double h : plan.thresholds) json.Value(h);
  json.EndArray();
  json.Field("latency_p95_s", plan.latency).Field("quality", plan.quality).Field("objective", plan.objective);
  json.Field("simulated_latency_p95_s", plan.simulated_latency).Field("simulated_e2e_p95_s", plan.simulated_e2e);
  json.Field("simulated_quality", plan.simulated_quality).Field("gpus", plan.gpus);
  json.Field("usd_per_hour", plan.usd_per_hour).Field("usd_per_1000_requests", plan.usd_per_1000);
  json.Field("rounds", plan.rounds).Key("models").BeginArray();
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    const ModelPlan& own = plan.models[m];
    json.BeginObject().Field("name", own.name).Field("gpus", own.gpus).Field("share", own.share);
    json.Field("rate_rps", own.rate).Field("p95_s", own.p95).Field("simulated_p95_s", own.simulated_p95);
    json.Field("utilisation", own.utilisation).Key("replicas").BeginArray();
    for (const ReplicaCount& r : own.replicas) {
      const Profile& shape = run.problem.models[m].shapes[r.shape];
      json.BeginObject().Field("profile", shape.id).Field("tp", shape.cost.tp).Field("pp", shape.cost.pp);
      json.Field("count", r.count).Field("rate_rps", r.rate).Field("derived", shape.derived).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray().EndObject();
}

Plot FrontierPlot(const PlanRun& run) {
  Plot plot;
  plot.title = "Latency against quality: the frontier of these GPUs";
  plot.x_label = "quality (mean score)";
  plot.y_label = "p95 of the slowest model [s]";
  plot.x_scale = Scale::kFit;
  plot.y_scale = Scale::kAuto;
  plot.marks = true;
  PlotLine line{.name = "frontier", .style = 0, .points = {}};
  for (const FrontierPoint& point : run.frontier) line.points.push_back({point.quality, point.latency});
  std::reverse(line.points.begin(), line.points.end());
  plot.lines.push_back(std::move(line));
  plot.lines.push_back({.name = "this plan", .style = 1, .points = {{run.plan.quality, run.plan.latency}}});
  if (run.alternation) {
    plot.lines.push_back({.name = "the paper's alternation",
                          .style = 2,
                          .points = {{run.alternation->quality, run.alternation->latency}}});
  }
  return plot;
}

}  // namespace

std::string ReplicasText(const ServedModel& model, const ModelPlan& plan) {
  std::string text;
  for (const ReplicaCount& r : plan.replicas) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", r.count, ShapeText(model.shapes[r.shape]));
  }
  return text;
}

std::string PlanPicture(const CascadeProblem& problem, const CascadePlan& plan) {
  constexpr int kPictureWidth = 1100, kLabelWidth = 230, kCell = 22, kGap = 10, kRow = 30, kMostShown = 24;
  std::string body;
  int y = 16;
  for (std::size_t m = 0; m < plan.models.size(); ++m) {
    const ModelPlan& own = plan.models[m];
    const int top = y;
    body += fmt::format("<text class=label x=0 y={} style='font-size:15px;font-weight:600'>{}</text>", y + 16,
                        HtmlText(own.name));
    body += fmt::format("<text x=0 y={}>{:.0f} % of requests, {:.3g}/s</text>", y + 34, 100 * own.share, own.rate);
    if (own.gpus > 0) {
      body += fmt::format("<text x=0 y={}>{}, p95 {:.3g} s</text>", y + 50, Counted(own.gpus, "GPU"),
                          own.simulated_p95 > 0 ? own.simulated_p95 : own.p95);
    } else {
      body += fmt::format("<text x=0 y={}>no GPUs</text>", y + 50);
    }
    int x = kLabelWidth;
    for (const ReplicaCount& r : own.replicas) {
      const CostModel& cost = problem.models[m].shapes[r.shape].cost;
      const int width = cost.tp * kCell + 4;
      const int height = cost.pp * kCell + 4;
      for (std::int32_t i = 0; i < std::min(r.count, kMostShown); ++i) {
        if (x + width > kPictureWidth) x = kLabelWidth, y += std::max(kRow, height + 24);
        body += fmt::format(
            "<rect x={} y={} width={} height={} rx=5 style='fill:none;stroke:var(--c{});stroke-width:1.5'/>", x, y,
            width, height, m % 7);
        for (int stage = 0; stage < cost.pp; ++stage) {
          for (int gpu = 0; gpu < cost.tp; ++gpu) {
            body += fmt::format("<rect x={} y={} width={} height={} rx=3 style='fill:var(--c{});fill-opacity:.75'/>",
                                x + 3 + gpu * kCell, y + 3 + stage * kCell, kCell - 2, kCell - 2, m % 7);
          }
        }
        if (i == 0) {
          body += fmt::format("<text x={} y={}>{} x {}</text>", x, y + height + 14, r.count,
                              ShapeText(problem.models[m].shapes[r.shape]));
        }
        x += width + kGap;
      }
      if (r.count > kMostShown) {
        body += fmt::format("<text x={} y={}>and {} more</text>", x, y + 16, r.count - kMostShown);
        x += 100;
      }
      x += kGap;
    }
    int tallest = 1;
    for (const ReplicaCount& r : own.replicas) tallest = std::max(tallest, problem.models[m].shapes[r.shape].cost.pp);
    y = std::max(y + tallest * kCell + 24, top + 60);
    if (m + 1 < plan.models.size()) {
      const double onward = own.share > 0 ? 100 * plan.models[m + 1].share / own.share : 0;
      body += fmt::format(
          "<path d='M20 {0}V{1}M14 {2}L20 {1}L26 {2}' style='fill:none;stroke:var(--soft);stroke-width:1.5'/>"
          "<text x=36 y={3}>score below {4:g}: {5:.0f} % escalate</text>",
          y, y + 28, y + 21, y + 18, plan.thresholds[m], onward);
      y += 40;
    }
  }
  return fmt::format(
      "<div class=wide><svg viewBox='0 0 {} {}' style='min-width:760px' role=img "
      "aria-label='the plan'>{}</svg></div>\n",
      kPictureWidth, y + 8, body);
}

std::string PlanText(const PlanRun& run, bool colour) {
  std::string text;
  for (const Condition& c : ConditionsOf(run)) text += fmt::format("{:<10}{}\n", c.name, ShownName(c.text));
  text += "\n" + PlanTable(run).ToString(colour) + "\n";
  for (const std::string& line : Sentences(run)) text += line + "\n";
  if (run.tells_wall) text += WallText(run) + "\n";
  return text;
}

std::string PlanJson(const PlanRun& run) {
  JsonWriter json;
  json.BeginObject().Field("takt", TAKT_VERSION).Field("workload", run.workload);
  json.Field("requests", run.problem.sample.size()).Field("rate_rps", run.problem.rate).Field("gpus", run.problem.gpus);
  json.Field("judge_s", run.problem.judge_s).Field("usd_per_gpu_hour", run.problem.gpu_usd_per_hour);
  json.Key("goal").BeginObject();
  if (run.goal.kind == CascadeGoal::Kind::kLatencyBudget) {
    json.Field("latency_budget_s", run.goal.latency_budget);
  } else {
    json.Field("quality_floor", run.goal.quality_floor);
  }
  json.Field("penalty", run.goal.penalty).EndObject();
  json.Field("quality_all_on_first", run.nadir).Field("quality_all_on_last", run.utopia);
  json.Field("quality_best", run.best_quality).Field("routings", run.routings).Field("sustains_rps", run.most);
  json.Key("plan");
  WritePlan(json, run, run.plan);
  json.Key("alternation");
  if (run.alternation) WritePlan(json, run, *run.alternation);
  else json.Null();
  json.Key("frontier").BeginArray();
  for (const FrontierPoint& point : run.frontier) {
    json.BeginObject()
        .Field("quality", point.quality)
        .Field("latency_p95_s", point.latency)
        .Key("thresholds")
        .BeginArray();
    for (const double h : point.thresholds) json.Value(h);
    json.EndArray().Key("gpus").BeginArray();
    for (const std::int32_t g : point.gpus) json.Value(g);
    json.EndArray().EndObject();
  }
  json.EndArray();
  if (run.tells_wall) {
    json.Key("wall").BeginObject().Field("tables_s", run.measure_s).Field("plan_s", run.plan_s).EndObject();
  }
  json.EndObject();
  return json.Take() + "\n";
}

std::string PlanHtml(const PlanRun& run) {
  const std::string title = "cascade plan";
  std::string html = "<h1>Cascade plan</h1>\n<dl>\n";
  for (const Condition& c : ConditionsOf(run)) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", HtmlText(c.name), HtmlText(c.text));
  }
  html += "</dl>\n" + PlanPicture(run.problem, run.plan);
  for (const std::string& line : Sentences(run)) html += fmt::format("<p>{}</p>\n", HtmlText(line));
  html += fmt::format("<div class=wide>{}</div>\n", PlanTable(run).ToHtml());
  const Plot plot = FrontierPlot(run);
  html += "<h2>Frontier</h2>\n<div class=legend>";
  for (const PlotLine& line : plot.lines) html += LegendButton(line.style, line.name);
  html += "</div>\n<div style='max-width:640px'>\n" + ToFigure(plot) + "</div>\n";
  if (run.tells_wall) html += fmt::format("<p class=soft>{}</p>\n", WallText(run));
  return HtmlPage(title, html);
}

}  // namespace takt::tool
