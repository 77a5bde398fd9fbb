// takt train and takt predict: a user's own log in, a model and predictions out.
#include <algorithm>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "nlohmann/json.hpp"
#include "takt/base/random.h"
#include "takt/learning/call_predictor.h"

namespace takt {
namespace {

using Json = nlohmann::json;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Workflows of a plan and code. The prompt's length predicts the plan's length, and code is twice as long.
std::string CsvLog(int workflows) {
  Random random(4);
  std::string csv = "workflow,stage,model,prompt_tokens,output_tokens,solved,note\n";
  for (int w = 0; w < workflows; ++w) {
    const int prompt = 100 + static_cast<int>(random.Below(900));
    const char* model = w % 3 == 0 ? "small" : "large";
    const int solved = random.Chance(prompt < 500 ? 0.9 : 0.2) ? 1 : 0;
    csv += "w" + std::to_string(w) + ",plan," + model + "," + std::to_string(prompt) + "," + std::to_string(prompt) +
           "," + std::to_string(solved) + ",ignored\n";
    csv += "w" + std::to_string(w) + ",code," + model + "," + std::to_string(prompt + 50) + "," +
           std::to_string(2 * prompt) + ",,\n";
  }
  return csv;
}

TEST_CASE("tokens before a tool call are learned from a column, checked and predicted") {
  const TempDir dir;
  Random random(4);
  std::string csv = "model,prompt_tokens,output_tokens,before_tool_tokens\n";
  for (int i = 0; i < 500; ++i) {
    const int prompt = 100 + static_cast<int>(random.Below(400));
    csv += "m," + std::to_string(prompt) + ",500," + (i % 7 == 0 ? "" : std::to_string(prompt / 2)) + "\n";
  }
  const Ended train = RunTool({"train", dir.Write("calls.csv", csv), "--out", dir / "calls.model", "--json",
                               dir / "fit.json", "--trees", "40"});
  CAPTURE(train.out, train.err);
  REQUIRE(train.exit_code == 0);
  const Json fit = Json::parse(ReadWhole(dir / "fit.json"), nullptr, false)["before_tool"];
  const int checked = fit["calls"].get<int>();  // of 100 calls held out, a seventh lacks the column
  CHECK((checked == 85 || checked == 86));
  CHECK(Has(train.out, "tokens over " + std::to_string(checked) + " calls held out"));
  CHECK(fit["mean_absolute_error"].get<double>() < 10);
  CHECK(fit["within_15"].get<double>() > 0.8);
  const std::string next = dir.Write("next.csv", "model,prompt_tokens\nm,300\nother,300\n");
  const Ended told = RunTool({"predict", dir / "calls.model", next});
  REQUIRE(told.exit_code == 0);
  std::istringstream lines(told.out);
  std::string header, known, unknown;
  std::getline(lines, header), std::getline(lines, known), std::getline(lines, unknown);
  CHECK(header == "line,workflow,mean,q10,q25,q50,q75,q90,before_tool");
  CHECK(std::abs(std::stod(known.substr(known.rfind(',') + 1)) - 150) < 15);
  CHECK(unknown.ends_with(","));
  const Ended jsonl = RunTool({"predict", dir / "calls.model", next, "--format", "jsonl"});
  const std::string last = jsonl.out.substr(jsonl.out.find('\n') + 1);
  CHECK(Json::parse(last, nullptr, false)["before_tool"].is_null());
}

TEST_CASE("a log is learnt, checked on held-out workflows, and queried") {
  const TempDir dir;
  const std::string log = dir.Write("calls.csv", CsvLog(600));
  const Ended train = RunTool({"train", log, "--out", dir / "calls.model", "--json", dir / "fit.json", "--html",
                               dir / "fit.html", "--trees", "40"});
  CAPTURE(train.out, train.err);
  REQUIRE(train.exit_code == 0);
  CHECK(train.err.empty());
  for (const char* part : {"1,200 calls of 600 workflows, 2 models", "960 calls", "pinball loss", "Quantiles", "small",
                           "Mean average precision"}) {
    CAPTURE(part);
    CHECK(Has(train.out, part));
  }
  const Json json = Json::parse(ReadWhole(dir / "fit.json"), nullptr, false);
  REQUIRE(json["held_out"].size() == 3);
  for (const Json& check : json["held_out"]) {
    CHECK(check["tau_distance"].get<double>() < 0.05);
    CHECK(check["tau_distance"] < check["tau_distance_of_stage"]);
    CHECK(check["pinball_loss"].get<double>() < 60);
    CHECK(check["reliability"].size() == 5);
    CHECK(check["predicted_mean"].get<double>() == Approx(check["mean"].get<double>()).epsilon(0.1));
  }
  CHECK(json["held_out"][0]["calls"] == 240);
  CHECK(json["solved"].size() == 2);
  CHECK(json["mean_average_precision"].get<double>() > 0.6);
  CHECK(Has(ReadWhole(dir / "fit.html"), "reliability of quantiles"));
  CHECK(Has(ReadWhole(dir / "fit.html"), "reliability of confidence"));

  // A file for hosts gives the same predictions as the tool.
  const auto predictor = CallPredictor::Load(ReadWhole(dir / "calls.model"));
  REQUIRE(predictor.ok());
  CallPredictor::Scratch scratch;
  const std::vector<CallDescription> calls = {{.model = "large", .stage = "plan", .prompt_tokens = {400}}};
  std::vector<CallForecast> told(1);
  (*predictor)->Predict(calls, told, scratch);
  CHECK(told[0].tokens_left.Quantile(0.5) == Approx(1200).epsilon(0.1));
  CHECK(told[0].solved > 0.6);

  const std::string next =
      dir.Write("next.jsonl", R"({"stage": "plan", "model": "large", "prompt_tokens": 400})"
                              "\n"
                              R"({"workflow": 7, "stage": "plan", "model": "other", "prompt_tokens": 400})"
                              "\n");
  const Ended csv = RunTool({"predict", dir / "calls.model", next});
  CAPTURE(csv.out, csv.err);
  REQUIRE(csv.exit_code == 0);
  std::istringstream lines(csv.out);
  std::string header, first, second;
  std::getline(lines, header), std::getline(lines, first), std::getline(lines, second);
  CHECK(header == "line,workflow,mean,q10,q25,q50,q75,q90,solved");
  CHECK(first.starts_with("1,," + Json(static_cast<float>(told[0].tokens_left.mean)).dump().substr(0, 4)));
  CHECK(second == "2,7,,,,,,,");

  const Ended jsonl = RunTool({"predict", dir / "calls.model", next, "--format", "jsonl", "--output", dir / "told"});
  REQUIRE(jsonl.exit_code == 0);
  std::istringstream told_lines(ReadWhole(dir / "told"));
  std::getline(told_lines, first);
  const Json one = Json::parse(first, nullptr, false);
  CHECK(one["mean"].get<double>() == Approx(told[0].tokens_left.mean));
  CHECK(one["q90"].get<double>() == Approx(static_cast<double>(told[0].tokens_left.quantiles[4])));
  CHECK(one["line"] == 1);
}

TEST_CASE("train reports it if a stage's mean ranks better") {
  // The stage holds all information about a call. The prompt's length is noise that the forest learns.
  const TempDir dir;
  Random random(2);
  std::string csv = "stage,model,prompt_tokens,output_tokens\n";
  for (int i = 0; i < 300; ++i) {
    const int stage = static_cast<int>(random.Below(6));
    const auto prompt = 100 + random.Below(5000);  // drawn in this order by any compiler
    const int output = 100 * (stage + 1) + static_cast<int>(random.Below(90));
    csv += "s" + std::to_string(stage) + ",m," + std::to_string(prompt) + "," + std::to_string(output) + "\n";
  }
  const Ended train = RunTool({"train", dir.Write("calls.csv", csv), "--trees", "3", "--json", dir / "fit.json"});
  CAPTURE(train.out, train.err);
  REQUIRE(train.exit_code == 0);
  const Json all = Json::parse(ReadWhole(dir / "fit.json"), nullptr, false)["held_out"][0];
  REQUIRE(all["tau_distance_of_stage"] < all["tau_distance"]);
  CHECK(all["best_order"] == "stage");
  const std::string said = "The mean of a call's stage alone ranks these calls better than the forest: distance";
  REQUIRE(Has(train.out, said));
  CHECK(train.out.find(said) == train.out.rfind("The mean of"));  // once if there is one model

  const Ended forest = RunTool({"train", dir.Write("other.csv", CsvLog(600)), "--trees", "40", "--json", dir / "b"});
  CHECK_FALSE(Has(forest.out, "these calls better than the forest"));
  CHECK(Json::parse(ReadWhole(dir / "b"), nullptr, false)["held_out"][0]["best_order"] == "forest");
}

TEST_CASE("equal log and seed make equal models with any threads") {
  const TempDir dir;
  const std::string log = dir.Write("calls.csv", CsvLog(100));
  std::istringstream lines(CsvLog(100));
  std::string line, jsonl;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::vector<std::string> fields;
    std::istringstream split(line);
    for (std::string field; std::getline(split, field, ',');) fields.push_back(field);
    Json json = {{"workflow", fields[0]}, {"stage", fields[1]}, {"model", fields[2]}};
    json["prompt_tokens"] = std::stoi(fields[3]);
    json["output_tokens"] = std::stoi(fields[4]);
    if (fields.size() > 5 && !fields[5].empty()) json["solved"] = fields[5] == "1";
    jsonl += json.dump() + "\n";
  }
  const std::string same = dir.Write("calls.jsonl", jsonl);
  const Args quick = {"--trees", "8", "-q", "--out"};
  const auto model = [&](const std::string& from, const std::string& to, const Args& more) {
    Args args = {"train", from};
    args.insert(args.end(), more.begin(), more.end());
    args.insert(args.end(), quick.begin(), quick.end());
    args.push_back(dir / to);
    const Ended ended = RunTool(args);
    CAPTURE(ended.err);
    CHECK(ended.exit_code == 0);
    CHECK(ended.out.empty());
    return ReadWhole(dir / to);
  };
  const std::string one = model(log, "one", {"-j", "1"});
  CHECK(one == model(log, "three", {"-j", "3"}));
  CHECK(one == model(same, "json", {}));
  CHECK(one != model(log, "seed", {"--seed", "2"}));
  CHECK(one != model(log, "all", {"--holdout", "0"}));
}

TEST_CASE("values missing from a log are unknown, and quotes are read") {
  const TempDir dir;
  std::string csv = "workflow,stage,model,output_tokens,text\n";
  for (int w = 0; w < 200; ++w) {
    const int first = w % 2 == 0 ? 100 : 1000;
    csv += "w" + std::to_string(w) + ",\"say \"\"x\"\", then y\",m," + std::to_string(first) + ",\n";
    csv += "w" + std::to_string(w) + ",code,m," + std::to_string(2 * first) + ",\n";
  }
  REQUIRE(RunTool({"train", dir.Write("calls.csv", csv), "--trees", "20", "-q", "--out", dir / "m"}).exit_code == 0);
  const auto told = [&](const std::string& log) {
    const Ended ended = RunTool({"predict", dir / "m", dir.Write("next", log), "--format", "jsonl"});
    CAPTURE(log, ended.err);
    REQUIRE(ended.exit_code == 0);
    std::istringstream lines(ended.out);
    std::string last;
    for (std::string line; std::getline(lines, line);) last = line;
    return Json::parse(last, nullptr, false)["mean"].get<double>();
  };
  // An empty field does not mean that nothing was generated.
  const std::string head = "{\"workflow\": 1, \"model\": \"m\", \"stage\": \"p\"",
                    code =
                        "{\"workflow\": 1, "
                        "\"model\": \"m\", \"stage\": \"code\", \"calls_before\": 1";
  const double nothing = told(code + ", \"tokens_before\": 0}\n"), unknown = told(head + "}\n" + code + "}\n");
  CHECK(told(head + ", \"output_tokens\": 0}\n" + code + "}\n") == nothing);
  CHECK(unknown != nothing);
  CHECK(told(head + "}\n" + head + ", \"output_tokens\": 5}\n" + code + "}\n") == unknown);
  CHECK(told("model,stage\nm,\"say \"\"x\"\", then y\"\n") ==
        told("{\"model\": \"m\", \"stage\": \"say \\\"x\\\", then y\"}\n"));

  const auto fault = [&](const std::string& log) {
    const Ended ended = RunTool({"predict", dir / "m", dir.Write("next", log)});
    CHECK(ended.exit_code == 1);
    return ended.err;
  };
  CHECK(Has(fault("model,stage\nm,\"say \"x\"\n"),
            "next: after line 1: line 2: text after a closing quote is invalid; expected a comma"));
  CHECK(Has(fault("model,stage\nm,\"say \"\"x\n"),
            "next: after line 1: line 3: a quoted field has no end; expected a closing quote"));
  CHECK(told("model,stage,text\nm,\"say \"\"x\"\", then y\",\"a\nn,b\r\n\"\r\n") ==
        told("model,stage\nm,\"say \"\"x\"\", then y\"\n"));
  CHECK(Has(fault("foo,bar\n1,2\n"), "next: the header has no known column; known columns: output_tokens"));
  CHECK(Has(fault("{\"foo\": 1}\n"), "no known column"));
  const Ended other = RunTool({"predict", dir / "m", dir.Write("next", "model\nm\nn\nm\n")});
  CHECK(other.exit_code == 0);
  CHECK(Has(other.err, "1 of 3 calls have no prediction, because their model is not in"));
}

TEST_CASE("faults of a log are reported by line, and nothing is written") {
  const TempDir dir;
  const auto fault = [&](const std::string& text) {
    const Ended ended = RunTool({"train", dir.Write("log", text), "--out", dir / "none"});
    CHECK(ended.exit_code == 1);
    CHECK_FALSE(std::filesystem::exists(dir / "none"));
    return ended.err;
  };
  CHECK(Has(fault(""), "log: is empty"));
  CHECK(Has(fault("a,b\n1,2\n"),
            "log:1: header: column \"output_tokens\" is missing; the columns are \"a\", \"b\"; expected JSON"));
  CHECK(Has(fault("output_tokens\n"), "holds no calls"));
  CHECK(Has(fault("output_tokens\n5\n-1\n"), "log:3: output_tokens: \"-1\" is negative; expected at least 0"));
  CHECK(Has(fault("output_tokens,solved\n5,2\n"), "log:2: solved: \"2\" is above 1"));
  CHECK(Has(fault("output_tokens,stage\n5\n"), "log:2: 1 fields; expected 2, as in the header"));
  CHECK(Has(fault("{\"output_tokens\": 5}\n{\"output_tokens\": \"many\"}\n"), "log:2: output_tokens: "));
  CHECK(Has(fault("{\"prompt_tokens\": 5}\n"), "log:1: output_tokens: is missing"));
  CHECK(Has(fault("{\"output_tokens\": 5, \"stage\": [1]}\n"), "log:1: stage: "));
  CHECK(Has(fault("{\"output_tokens\": 5\n"), "log:1: "));
  CHECK(RunTool({"train", dir / "absent"}).exit_code == 1);
  CHECK(RunTool({"train"}).exit_code == 2);
  const std::string good = dir.Write("good", CsvLog(30));
  CHECK(RunTool({"train", good, "--holdout", "0.9"}).exit_code == 2);
  CHECK(RunTool({"train", good, "--json", "-", "--html", "-"}).exit_code == 2);

  const Ended skipped = RunTool({"train", dir.Write("some", CsvLog(30) + "oops\n"), "--skip-bad-lines"});
  CHECK(skipped.exit_code == 0);
  CHECK(Has(skipped.err, "some:62"));
  // One call is enough to learn from, too.
  CHECK(RunTool({"train", dir.Write("one", "output_tokens\n5\n")}).exit_code == 0);
}

TEST_CASE("a model without calls counts as untried, not as bad") {
  const TempDir dir;
  std::string csv = "model,output_tokens,solved\n";
  for (int i = 0; i < 60; ++i) csv += i % 2 == 0 ? "tried,5,1\n" : "other,9,\n";
  const Ended train = RunTool({"train", dir.Write("log", csv), "--trees", "5", "--json", dir / "json"});
  REQUIRE(train.exit_code == 0);
  const std::string table = train.out.substr(train.out.find("Probability that a model"));
  CAPTURE(table);
  std::istringstream lines(table.substr(table.find("  other")));
  std::string other, tried, more;
  lines >> other >> tried >> more;
  CHECK(tried == "untried");
  CHECK(more == "tried");  // the next line
  CHECK(Has(table, "Mean average precision: 1.000"));
  const Json solved = Json::parse(ReadWhole(dir / "json"), nullptr, false)["solved"];
  REQUIRE(solved.size() == 2);
  CHECK(solved[0]["calls"] == 0);
  CHECK(solved[0]["reliability"].empty());
  for (const char* key : {"share", "average_precision", "cross_entropy", "calibration_error"}) {
    CHECK(solved[0][key].is_null());
    CHECK(solved[1][key].is_number());
  }
}

TEST_CASE("Ctrl-C ends training and keeps the old file") {
  const TempDir dir;
  const std::string log = dir.Write("log", CsvLog(4000));
  dir.Write("m", "old");
  const std::set<std::string> names = dir.Names();
  Tool tool({"train", log, "--trees", "10000", "--out", dir / "m"}, Tool::Where::kTerminal);
  tool.WaitFor("learning");
  tool.Interrupt();
  const Ended ended = tool.Wait();
  CHECK(ended.exit_code == 130);
  CHECK(Has(ended.err, "stopped"));
  CHECK_FALSE(Has(ended.out, "pinball"));
  CHECK(ReadWhole(dir / "m") == "old");
  CHECK(dir.Names() == names);
}

TEST_CASE("a truncated, damaged or invalid model is refused by name") {
  const TempDir dir;
  const std::string log = dir.Write("calls.csv", CsvLog(30));
  REQUIRE(RunTool({"train", log, "--trees", "3", "-q", "--out", dir / "m"}).exit_code == 0);
  const std::string bytes = ReadWhole(dir / "m");
  const auto fault = [&](const std::string& text) {
    const Ended ended = RunTool({"predict", dir.Write("bad.model", text), log});
    CHECK(ended.exit_code == 1);
    CHECK(ended.out.empty());
    return ended.err;
  };
  CHECK(Has(fault(bytes.substr(0, bytes.size() / 2)), "bad.model: a predictor is truncated or damaged"));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  CHECK(Has(fault(damaged), "checksum mismatch"));
  CHECK(Has(fault("output_tokens\n5\n"), "bad.model: expected a predictor"));
  std::string newer = bytes;
  newer[15] = 9;
  CHECK(Has(fault(newer), "version 9"));
  CHECK(RunTool({"predict", dir / "absent", log}).exit_code == 1);
  CHECK(RunTool({"predict", dir / "m", dir / "absent"}).exit_code == 1);
  CHECK(RunTool({"predict", dir / "m", log, "--format", "xml"}).exit_code == 2);
  CHECK(RunTool({"predict", dir / "m", log, "--output", "/dev/full"}).exit_code == 1);
}

}  // namespace
}  // namespace takt
