// takt-serve and takt observe as their users run them: the server's times are the simulator's, and faults lose nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
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
    for (int i = 0; i < 6000 && !tiny::Connection(port).connected(); ++i)
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

int DamagedEvents(const Answer& answer) {
  int damaged = 0;
  std::istringstream lines(answer.body);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("data: {")) continue;
    damaged += json::parse(line.substr(6), nullptr, false).is_discarded() ? 1 : 0;
  }
  return damaged;
}

// Gives each connection the same answer, and then repeats `more` until the client leaves.
class FakeServer {
 public:
  FakeServer(std::string answer, std::string more) : answer_(std::move(answer)), more_(std::move(more)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    REQUIRE(bind(listener_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    REQUIRE(listen(listener_, 64) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
      for (int client; (client = accept(listener_, nullptr, nullptr)) >= 0; close(client)) {
        char request[4096];
        if (recv(client, request, sizeof(request), 0) <= 0) continue;
        const auto put = [client](const std::string& text) {
          std::string_view rest = text;
          for (ssize_t n = 1; n > 0 && !rest.empty(); rest.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0)) {
            n = send(client, rest.data(), rest.size(), MSG_NOSIGNAL);
          }
          return rest.empty();
        };
        for (bool open = put(answer_); open && !more_.empty();) open = put(more_);
        shutdown(client, SHUT_WR);
        while (recv(client, request, sizeof(request), 0) > 0) continue;  // a close before would reset the connection
      }
    });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }

 private:
  const std::string answer_, more_;
  const int listener_ = socket(AF_INET, SOCK_STREAM, 0);
  int port_ = 0;
  std::thread thread_;
};

Ended Run(const Args& args) {
  std::string line;
  for (const std::string& arg : args) line += "'" + arg + "' ";
  const TempDir dir;
  const int status = std::system((line + "2>" + (dir / "err") + " >" + (dir / "out")).c_str());
  return {WEXITSTATUS(status), takt::ReadWhole(dir / "out"), takt::ReadWhole(dir / "err")};
}

// Runs takt-observe against the server.
Ended Observe(int port, Args more) {
  Args args = {TAKT_OBSERVE_PATH, "observe", fmt::format("http://127.0.0.1:{}/v1", port), "--quiet"};
  args.insert(args.end(), more.begin(), more.end());
  return Run(args);
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
  CHECK(json::parse(takt::ReadWhole(dir / "seen.json"))["runs"][0]["metrics"]["kv_peak"].is_null());
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
  CHECK(in_flight > 50);  // nearly all, if the machine does not stop for seconds
  CHECK(most < 1e-6);  // s

  // The clients' times are later by the machine's delays, but their files read.
  auto seen = takt::ReadWorkload(dir / "seen", {});
  REQUIRE(seen.ok());
  CHECK(seen->calls.size() == 100);
  CHECK(json::parse(takt::ReadWhole(dir / "seen.json"))["runs"][0]["completed"] == 100);
  const auto log = takt::ReadStepLog(dir / "steps");  // a busy machine's delays leave steps out
  REQUIRE(log.ok());
  CHECK_FALSE(log->steps.empty());
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
  CHECK(streamed.text == cut["choices"][0]["text"].get<std::string>());
  CHECK(streamed.done);

  const Answer usage = Post(site.port, kPath, Body(5, true, R"(, "stream_options": {"include_usage": true})"));
  CHECK(usage.body.find(R"("choices":[],"usage":{"prompt_tokens":4,"completion_tokens":5,"total_tokens":9})") !=
        std::string::npos);
  const std::string parts =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "12345678"}]}], "max_tokens": 2})";
  CHECK(Post(site.port, "/v1/chat/completions", parts).json()["usage"]["prompt_tokens"] == 3);
  CHECK(Post(site.port, kPath, Body(5, false, R"(, "n": 0)")).error("param") == "n");
  CHECK(Post(site.port, kPath, Body(5, false, R"(, "stop": "")")).error("param") == "stop");
  const std::string chat = "/v1/chat/completions";
  const std::string call = R"({"messages": [{"role": "user", "content": "What time is it?"},
                                            {"role": "assistant", "tool_calls": [{"id": "1"}]}]})";
  CHECK(Post(site.port, chat, call).status == 200);
  CHECK(Post(site.port, chat, R"({"messages": [{"role": "", "content": ""}]})").error("param") == "messages");
  CHECK(site.End().exit_code == 0);
}

TEST_CASE("a client that leaves frees its seat") {
  const TempDir dir;
  Site site({"--max-seqs", "1", "--requests", dir / "requests"});
  {
    Connection leaves(site.port);
    REQUIRE(leaves.Send(PostText(kPath, Body(20'000, true))));
    leaves.ReadUntil("data: ");
  }
  CHECK(Post(site.port, kPath, Body(5, false)).status == 200);
  CHECK(site.End().exit_code == 0);
  const std::vector<json> lines = Lines(dir / "requests");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["output_tokens"] < 1000);
}

TEST_CASE("faults come on request") {
  Site site({"--fault", "stall_s=1,slow_ms=5"});
  const auto with = [&](const std::string& fault, bool stream) {
    return Post(site.port, kPath, Body(8, stream), "X-Takt-Fault: " + fault + "\r\n");
  };
  CHECK(with("error", true).status == 500);
  CHECK_FALSE(with("drop", true).stream().done);
  CHECK(with("drop", false).json().is_discarded());
  // The faults occur in answers shorter than allowed, and in those of several choices.
  const std::string first = Post(site.port, kPath, Body(8, false)).json()["choices"][0]["text"];
  for (int i = 0; i < 12; ++i) {
    const std::string stop = Body(8, true, R"(, "stop": [")" + first.substr(0, 3) + R"("])");
    CHECK_FALSE(Post(site.port, kPath, stop, "X-Takt-Fault: drop\r\n").stream().done);
    const std::string several = Body(8, true, R"(, "n": 2)");
    CHECK(DamagedEvents(Post(site.port, kPath, several, "X-Takt-Fault: damage\r\n")) == 1);
  }
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

TEST_CASE("an observation of a hostile server ends with a reason") {
  const std::string ok = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
  const std::string event = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
  struct Case {
    std::string answer, more;
    const char* says;
  };
  const std::string deep(200'000, '[');
  for (const Case& c : std::vector<Case>{
           {ok, event, "more than 68 events"},
           {"HTTP/1.1 500 Error\r\nConnection: close\r\n\r\n", std::string(100, 'x'), "status 500: xxx"},
           {ok + "data: {\"error\":" + deep + std::string(deep.size(), ']') + "}\n\n", "", "more than 64 levels"},
           {ok + "data: {\"error\":{\"code\":[[1]]}}\n\n", "", "the server's error: (no message)"},
           {ok + "data: {\"error\":\"full\"}\n\n", "", "the server's error: full"},
           {ok + event + "data: [DONE]\n\n", event, ""},
       }) {
    FakeServer server(c.answer, c.more);
    const Ended run = Observe(server.port(), {"--workload", "gen:poisson,requests=2,rate=99,output=constant:2"});
    INFO(run.err);
    CHECK(run.exit_code == (*c.says == '\0' ? 0 : 1));
    CHECK(run.err.find(c.says) != std::string::npos);
  }
}

TEST_CASE("a trace of a server that counts few tokens replays") {
  const TempDir dir;
  FakeServer server(
      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: {\"choices\":[{\"text\":\"a\"}],\"usage\":"
      "{\"prompt_tokens\":40,\"completion_tokens\":2147483647}}\n\ndata: [DONE]\n\n",
      "");
  const std::string load = dir.Write("load.jsonl", R"({"takt_workload": 1, "prefix_block_tokens": 16}
{"arrival_s": 0, "calls": [{"prompt": 100, "output": 3, "prefix": [1, 2, 3, 4, 5, 6, 7]}]}
{"arrival_s": 0, "calls": [{"prompt": 100, "output": 3, "blocks": [[0, 1], [4, 6]]}]}
{"arrival_s": 0, "calls": [{"prompt": 100, "output": 3, "blocks": [[0, 3]]}]}
)");
  const Ended run = Observe(server.port(), {"--workload", load, "--trace", dir / "seen"});
  INFO(run.err);
  CHECK(run.exit_code == 0);
  CHECK(run.err.find("2 requests: a prefix longer than the server's prompt") != std::string::npos);
  const auto seen = takt::ReadWorkload(dir / "seen", {});
  INFO(seen.status().ToString());
  REQUIRE(seen.ok());
  CHECK(seen->calls.size() == 3);
}

TEST_CASE("an invalid URL is named") {
  for (const char* url : {"localhost:8000", "http://", "http://localhost", "http://:80", "http://localhost:0",
                          "http://localhost:99999999999", "http://localhost:8000/v2", "http://a b:1"}) {
    INFO(url);
    const Ended run = Run({TAKT_OBSERVE_PATH, "observe", url, "--workload", "bundled"});
    CHECK(run.exit_code == 2);
    CHECK(run.err.find("URL: ") != std::string::npos);
  }
}

TEST_CASE("an observation of a server that dies ends") {
  const TempDir dir;
  Site site;
  std::atomic<bool> ended = false;
  std::thread killer([&] {
    while (!ended && tiny::Metric(site.port, "takt_arrived_total") < 40) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    REQUIRE(kill(site.tool->pid(), SIGKILL) == 0);
  });
  const Ended partial =
      Observe(site.port, {"--workload", "gen:poisson,requests=400,rate=100,prompt=constant:20,output=constant:40",
                          "--trace", dir / "seen", "--requests", dir / "lines"});
  ended = true;
  killer.join();
  INFO(partial.err);
  CHECK(partial.exit_code == 1);
  CHECK(partial.err.find("partial: ") != std::string::npos);
  CHECK(Lines(dir / "lines").size() > 20);
  CHECK(takt::ReadWorkload(dir / "seen", {}).ok());
}

}  // namespace
}  // namespace tiny
