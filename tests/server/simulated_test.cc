// takt-serve and takt observe as their users run them: the server's times are the simulator's, and faults lose nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "client.h"
#include "fmt/format.h"
#include "takt/sim/calibrate.h"
#include "takt/sim/replay.h"
#include "takt/workload/read.h"
#include "tool/tool.h"

namespace tiny {
namespace {

using nlohmann::json;
using takt::Args;
using takt::Ended;
using takt::RunTool;
using takt::TempDir;
using takt::Tool;

constexpr const char* kProfile = "aic/llama-3.1-8b/h100/bf16/tp1";
const std::string kPath = "/v1/completions";

int FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(listener);
  return ntohs(address.sin_port);
}

struct Site {
  explicit Site(Args more = {}) {
    Args args = {"--simulated", kProfile, "--port", std::to_string(port)};
    args.insert(args.end(), more.begin(), more.end());
    tool = std::make_unique<Tool>(args);
    for (int i = 0; i < 500 && !tiny::Connection(port).connected(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Ended End() {
    tool->Interrupt();
    return tool->Wait();
  }

  int port = FreePort();
  std::unique_ptr<Tool> tool;
};

std::string Body(int tokens, bool stream, const std::string& more = "") {
  return fmt::format(R"({{"prompt": "Once upon a time", "max_tokens": {}, "stream": {}{}}})", tokens, stream, more);
}

std::vector<json> Lines(const std::string& path) {
  std::vector<json> lines;
  std::istringstream text(takt::ReadWhole(path));
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

// Runs takt-observe against the server.
Ended Observe(int port, Args more) {
  Args args = {TAKT_OBSERVE_PATH, "observe", fmt::format("http://127.0.0.1:{}", port), "--quiet"};
  args.insert(args.end(), more.begin(), more.end());
  std::string line;
  for (const std::string& arg : args) line += "'" + arg + "' ";
  const TempDir dir;
  const int status = std::system((line + "2>" + (dir / "err") + " >" + (dir / "out")).c_str());
  return {WEXITSTATUS(status), takt::ReadWhole(dir / "out"), takt::ReadWhole(dir / "err")};
}

TEST_CASE("a hundred requests in flight take the simulator's times") {
  const TempDir dir;
  Site site({"--requests", dir / "requests", "--max-seqs", "64"});
  // All are in flight after two seconds.
  const Ended observed = Observe(
      site.port, {"--workload", "gen:poisson,requests=100,rate=50,prompt=lognormal:400:0.6,output=constant:250,seed=3",
                  "--steps", dir / "steps", "--trace", dir / "seen", "--json", dir / "seen.json"});
  INFO(observed.err);
  REQUIRE(observed.exit_code == 0);
  const Ended ended = site.End();
  INFO(ended.err);
  CHECK(ended.exit_code == 0);
  std::vector<json> served = Lines(dir / "requests");
  REQUIRE(served.size() == 100);
  std::ranges::sort(served, {}, [](const json& r) { return r["arrival_s"].get<double>(); });
  std::string table = "arrival,prompt,output\n";
  for (const json& r : served) {
    table += fmt::format("{:.9f},{},{}\n", r["arrival_s"].get<double>(), r["prompt_tokens"].get<int>(),
                         r["output_tokens"].get<int>());
  }
  auto workload =
      takt::ReadWorkload(dir.Write("served.csv", table), {.columns = "arrival=arrival,prompt=prompt,output=output"});
  REQUIRE(workload.ok());
  takt::ReplayOptions options;
  options.profile = *takt::FindProfile(kProfile);
  options.engine.limits.tokens = {2048};
  options.engine.limits.max_seqs = 64;
  const auto replayed = takt::Replay(*workload, options);
  REQUIRE(replayed.ok());
  double most = 0;
  int in_flight = 0;
  for (std::size_t i = 0; i < served.size(); ++i) {
    const takt::RequestRecord& r = replayed->requests[i];
    const double arrival = served[i]["arrival_s"];
    most = std::max(most, std::abs(served[i]["first_token_s"].get<double>() - arrival -
                                   takt::ToSeconds(r.first_token - r.arrival)));
    most = std::max(most, std::abs(served[i]["end_s"].get<double>() - arrival - takt::ToSeconds(r.end - r.arrival)));
    in_flight += served[i]["end_s"].get<double>() > served.back()["arrival_s"].get<double>() ? 1 : 0;
  }
  CHECK(in_flight > 90);
  CHECK(most < 1e-6);  // s

  // The clients' times are later by the machine's delays, but their files read and calibrate.
  auto seen = takt::ReadWorkload(dir / "seen", {});
  REQUIRE(seen.ok());
  CHECK(seen->calls.size() == 100);
  CHECK(json::parse(takt::ReadWhole(dir / "seen.json"))["runs"][0]["completed"] == 100);
  const auto log = takt::ReadStepLog(dir / "steps");
  REQUIRE(log.ok());
  CHECK(log->steps.size() > 200);
  CHECK(takt::Calibrate(*log).ok());
}

TEST_CASE("choices, stop texts, usage and errors have OpenAI's form") {
  Site site;
  const json several = Post(site.port, kPath, Body(6, false, R"(, "n": 3, "temperature": 0.7)")).json();
  CHECK(several["choices"].size() == 3);
  CHECK(several["choices"][2]["index"] == 2);
  CHECK(several["usage"]["completion_tokens"] == 18);

  const std::string whole = Post(site.port, kPath, Body(30, false)).json()["choices"][0]["text"];
  const std::string stop = whole.substr(20, 7);
  const std::string more = R"(, "stop": [")" + stop + R"("])";
  const json cut = Post(site.port, kPath, Body(30, false, more)).json();
  CHECK(cut["choices"][0]["text"] == whole.substr(0, whole.find(stop)));
  CHECK(cut["choices"][0]["finish_reason"] == "stop");
  const Answer::Stream streamed = Post(site.port, kPath, Body(30, true, more)).stream();
  CHECK(streamed.text == cut["choices"][0]["text"]);
  CHECK(streamed.done);

  const Answer usage = Post(site.port, kPath, Body(5, true, R"(, "stream_options": {"include_usage": true})"));
  CHECK(usage.body.find(R"("choices":[],"usage":{"prompt_tokens":4,"completion_tokens":5,"total_tokens":9})") !=
        std::string::npos);
  const std::string parts =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "12345678"}]}], "max_tokens": 2})";
  CHECK(Post(site.port, "/v1/chat/completions", parts).json()["usage"]["prompt_tokens"] == 3);
  CHECK(Post(site.port, kPath, Body(5, false, R"(, "n": 0)")).error("param") == "n");
  CHECK(Post(site.port, kPath, Body(5, false, R"(, "stop": "")")).error("param") == "stop");
  CHECK(site.End().exit_code == 0);
}

TEST_CASE("faults come on request") {
  Site site({"--fault", "stall_s=1,slow_ms=5"});
  const auto with = [&](const std::string& fault, bool stream) {
    return Post(site.port, kPath, Body(8, stream), "X-Takt-Fault: " + fault + "\r\n");
  };
  CHECK(with("error", true).status == 500);
  CHECK_FALSE(with("drop", true).stream().done);
  CHECK(with("drop", false).json().is_discarded());
  CHECK_FALSE(with("stall", true).stream().done);
  CHECK(with("damage", false).json().is_discarded());
  CHECK(with("slow", true).stream().done);
  CHECK(with("none", true).stream().done);
  CHECK(with("flood", true).error("param") == "X-Takt-Fault");
  CHECK(site.End().exit_code == 0);
  CHECK(RunTool({"--simulated", kProfile, "--fault", "drop=2"}).exit_code == 2);
  CHECK(RunTool({"--simulated", "no/such/profile"}).exit_code == 1);
}

TEST_CASE("a partial observation is marked, and keeps what ended") {
  const TempDir dir;
  Site site({"--fault", "drop=0.2,damage=0.2,error=0.1"});
  const std::string load = "gen:poisson,requests=60,rate=60,prompt=constant:20,output=constant:20,seed=1";
  const Ended partial = Observe(site.port, {"--workload", load, "--trace", dir / "seen", "--requests", dir / "lines"});
  INFO(partial.err);
  CHECK(partial.exit_code == 1);
  CHECK(partial.err.find("partial: 60 of 60 requests were sent") != std::string::npos);
  CHECK(partial.err.find("status 500") != std::string::npos);
  CHECK(partial.err.find("damaged stream") != std::string::npos);
  const std::vector<json> lines = Lines(dir / "lines");
  REQUIRE(lines.size() == 60);
  for (const json& line : lines) CHECK(line.contains("fault") == (line["outcome"] != "completed"));
  const auto seen = takt::ReadWorkload(dir / "seen", {});
  REQUIRE(seen.ok());
  CHECK(seen->calls.size() == 60);
  CHECK(takt::ReadWhole(dir / "seen").find("partial") != std::string::npos);
  CHECK(site.End().exit_code == 0);

  const Ended gone = Observe(site.port, {"--workload", load});  // nobody listens
  CHECK(gone.exit_code == 1);
  CHECK(gone.err.find("the server refuses connections") != std::string::npos);
}

TEST_CASE("an observation of a server that dies ends") {
  const TempDir dir;
  Site site;
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    REQUIRE(kill(site.tool->pid(), SIGKILL) == 0);
  });
  const Ended partial =
      Observe(site.port, {"--workload", "gen:poisson,requests=400,rate=100,prompt=constant:20,output=constant:40",
                          "--trace", dir / "seen", "--requests", dir / "lines"});
  killer.join();
  INFO(partial.err);
  CHECK(partial.exit_code == 1);
  CHECK(partial.err.find("partial: ") != std::string::npos);
  CHECK(Lines(dir / "lines").size() > 20);
  CHECK(takt::ReadWorkload(dir / "seen", {}).ok());
}

}  // namespace
}  // namespace tiny
