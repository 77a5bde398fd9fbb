// The engine over HTTP, and clients of every kind: those that behave, leave, stall, and send rubbish.
#include "http_server.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "alone.h"
#include "catch.h"
#include "cli/json_writer.h"
#include "client.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/record.h"
#include "text.h"

namespace tiny {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Json = nlohmann::json;

const std::string kPath = "/v1/completions";
const std::string kChatPath = "/v1/chat/completions";

// Half a millisecond a token.
const Model& TestModel() {
  static const Model model = Model::Random(
      {.layers = 4, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 352, .vocab = 272, .max_context = 6000}, 3);
  return model;
}

struct Site {
  explicit Site(EngineOptions options = {}, HttpOptions http = {}) {
    auto started = Service::Start(TestModel(), std::move(options));
    REQUIRE(started.ok());
    service = *std::move(started);
    server = std::make_unique<HttpServer>(
        *service, ApiLimits{"tiny", TestModel().config().max_context, TestModel().config().vocab}, http);
    REQUIRE(server->Start().ok());
    port = server->port();
  }

  std::int64_t End(std::chrono::nanoseconds patience = seconds(600)) {
    server->Refuse();
    const std::int64_t cut = service->Drain(patience);
    server->Stop();
    return cut;
  }

  // Waits until a figure is what it should come to be.
  void Expect(const std::string& metric, double value) {
    double seen = -1;
    for (int i = 0; i < 6000 && (seen = Metric(port, metric)) != value; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    INFO(metric);
    CHECK(seen == value);
  }

  std::unique_ptr<Service> service;
  std::unique_ptr<HttpServer> server;
  int port = 0;
};

std::string Body(const std::string& prompt, int tokens, bool stream = false) {
  return Json({{"prompt", prompt}, {"max_tokens", tokens}, {"stream", stream}, {"ignore_eos", true}}).dump();
}

// What the engine says to a prompt alone, as JSON would show it.
std::string TextAlone(const std::string& prompt, int tokens) {
  EngineRequest request{.max_output_tokens = tokens};
  Encode(prompt, request.prompt);
  Decoder decoder;
  std::string text;
  for (const Sample& sample : Alone(TestModel(), request)) text += decoder.Add(std::vector{sample.token});
  text += decoder.Finish();
  return Json::parse(takt::cli::JsonString(text));
}

// Calls f(i) on threads of their own; returns when all are done.
template <class F>
void InParallel(int n, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("many clients at once are answered as if each were alone, streamed or not") {
  for (const bool overlap : {false, true}) {
    Site site({.policy = "sjf", .limits = {.tokens = {64}, .max_seqs = 8}, .prefix_cache = true, .overlap = overlap});
    constexpr int kClients = 32;
    std::vector<std::string> texts(kClients);
    std::vector<Answer> answers(kClients);
    InParallel(kClients, [&](int i) {
      const std::string prompt = "A prompt that many share, and its end: " + std::to_string(i / 2);
      answers[static_cast<std::size_t>(i)] = Post(site.port, kPath, Body(prompt, 20 + i / 2, i % 2 == 0));
    });
    for (int i = 0; i < kClients; ++i) {
      const Answer& answer = answers[static_cast<std::size_t>(i)];
      INFO(answer.body);
      REQUIRE(answer.status == 200);
      const std::string alone =
          TextAlone("A prompt that many share, and its end: " + std::to_string(i / 2), 20 + i / 2);
      if (i % 2 == 0) {
        const Answer::Stream stream = answer.stream();
        CHECK(stream.done);
        CHECK(stream.text == alone);
        CHECK(stream.last["usage"]["completion_tokens"] == 20 + i / 2);
      } else {
        CHECK(answer.json()["choices"][0]["text"] == alone);
        CHECK(answer.json()["choices"][0]["finish_reason"] == "length");
      }
    }
    CHECK(Metric(site.port, "takt_finished_total") == kClients);
    CHECK(Metric(site.port, "tiny_engine_request_seconds_count") == kClients);
    CHECK(site.End() == 0);
  }
}

TEST_CASE("a chat, the list of models, health, and what is not there") {
  Site site;
  const Answer chat =
      Post(site.port, kChatPath, R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3})");
  CHECK(chat.status == 200);
  CHECK(chat.json()["choices"][0]["message"]["role"] == "assistant");
  CHECK(chat.json()["usage"]["prompt_tokens"] == 5);
  CHECK(Get(site.port, "/v1/models").json()["data"][0]["id"] == "tiny");
  CHECK(Get(site.port, "/health").json()["status"] == "ok");
  CHECK(Get(site.port, "/v2").status == 404);
  CHECK(Get(site.port, "/v2").error("message").find("no such path") != std::string::npos);
  CHECK(Get(site.port, "/metrics").body.find("# TYPE takt_arrived_total counter") != std::string::npos);
}

TEST_CASE("headers tell takt who asks") {
  std::string log;
  takt::Recorder recorder([&](std::string_view bytes) { log += bytes; });
  {
    Site site({.policy = "aged(stjf)", .recorder = &recorder});
    for (const char* headers : {"X-Workflow-Id: trip\r\nX-Agent: planner\r\nX-Priority: -3\r\n", "",
                                "X-Workflow-Id: trip\r\nX-Agent: coder\r\n"}) {
      CHECK(Post(site.port, kPath, Body("x", 2), headers).status == 200);
    }
    CHECK(Post(site.port, kPath, Body("x", 2), "X-Priority: high\r\n").error("param") == "X-Priority");
    CHECK(site.End() == 0);
  }
  recorder.Flush();
  std::vector<takt::Request> requests;
  auto reader = takt::LogReader::Open(log);
  REQUIRE(reader.ok());
  while (true) {
    auto record = reader->Next();
    REQUIRE(record.ok());
    if (!*record) break;
    const auto* event = std::get_if<takt::LogEvent>(&**record);
    const auto* arrived = event != nullptr ? std::get_if<takt::Arrived>(&event->event) : nullptr;
    if (arrived != nullptr) requests.push_back(arrived->request);
  }
  REQUIRE(requests.size() == 3);
  CHECK(requests[0].workflow == requests[2].workflow);
  CHECK(requests[0].workflow_arrival == requests[2].workflow_arrival);
  CHECK(requests[0].agent != requests[2].agent);
  CHECK(requests[0].priority == -3);
  CHECK_FALSE(requests[1].workflow);
  CHECK_FALSE(requests[1].agent);
  CHECK(takt::ReplayLog(log)->difference == std::nullopt);
}

TEST_CASE("rubbish is refused, and nobody else is hurt") {
  Site site({}, {.max_body = 100'000, .patience = seconds(1)});
  std::atomic<bool> stop = false;
  std::thread neighbour([&] {
    while (!stop) {
      if (Post(site.port, kPath, Body("neighbour", 5)).status != 200) FAIL("the neighbour was hurt");
    }
  });
  CHECK(Post(site.port, kPath, "{\"prompt\": ").status == 400);
  const Answer long_prompt = Post(site.port, kPath, Body(std::string(10'000'000, 'x'), 5));
  CHECK(long_prompt.status == 413);
  CHECK(long_prompt.error("code") == "body_too_long");
  CHECK(Post(site.port, kPath, Body(std::string(50'000, 'x'), 5)).error("code") == "context_length_exceeded");
  CHECK(Post(site.port, kPath, Body("x", -1)).error("param") == "max_tokens");
  CHECK(Post(site.port, kPath, R"({"prompt": "x", "model": "gpt-5"})").error("code") == "model_not_found");
  CHECK(Get(site.port, kPath).status == 404);
  const std::vector<std::string> rubbish = {
      "\r\n\r\n",
      "GET\r\n\r\n",
      std::string("\0\1\2\3\r\n\r\n", 8),
      "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
      "POST /v1/completions HTTP/1.1\r\nContent-Length: 4000000000\r\n\r\n{}",
      "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
      "GET /health HTTP/1.1\r\nX: " + std::string(100'000, 'a') + "\r\n\r\n",
      std::string(100'000, '\n')};
  std::vector<int> statuses(rubbish.size());
  InParallel(static_cast<int>(rubbish.size()), [&](int i) {
    Connection connection(site.port);
    connection.Send(rubbish[static_cast<std::size_t>(i)]);
    statuses[static_cast<std::size_t>(i)] = Parse(connection.ReadAll()).status;
  });
  for (const int status : statuses) CHECK((status == 0 || status >= 400));  // an error, or just the end
  takt::Random random(2);
  for (int i = 0; i < 200; ++i) {
    std::string noise = PostText(kPath, Body("x", 3));
    for (int flips = 0; flips < 5; ++flips) noise[random.Below(noise.size())] = static_cast<char>(random.Below(256));
    Connection connection(site.port);
    connection.Send(noise);
  }
  stop = true;
  neighbour.join();
  CHECK(Post(site.port, kPath, Body("x", 3)).status == 200);
  CHECK(site.End() == 0);
}

TEST_CASE("a client that leaves is cancelled, wherever it stood") {
  Site site({.limits = {.tokens = {256}, .max_seqs = 2}});  // others wait
  constexpr int kEach = 6;
  {
    std::vector<std::unique_ptr<Connection>> clients;
    for (int i = 0; i < 2 * kEach; ++i) {
      clients.push_back(std::make_unique<Connection>(site.port));
      REQUIRE(clients.back()->Send(PostText(kPath, Body("long", 5000, i % 2 == 0))));
    }
    site.Expect("takt_running", 2);
    site.Expect("takt_waiting", 2 * kEach - 2);
  }
  site.Expect("takt_cancelled_total", 2 * kEach);
  {
    Connection client(site.port);
    REQUIRE(client.Send(PostText(kPath, Body("long", 5000, true))));
    client.ReadUntil("data: ");  // it has begun
  }
  site.Expect("takt_cancelled_total", 2 * kEach + 1);
  site.Expect("takt_kv_blocks_used", 0);
  CHECK(Post(site.port, kPath, Body("x", 3)).status == 200);
  CHECK(Metric(site.port, "takt_finished_total") == 1);
  CHECK(site.End() == 0);
}

TEST_CASE("a client that stalls is given up, and others do not wait for it") {
  Site site({}, {.connections = 16, .patience = seconds(1)});
  std::vector<std::unique_ptr<Connection>> stalled;
  for (int i = 0; i < 8; ++i) {
    stalled.push_back(std::make_unique<Connection>(site.port));
    const std::string whole = PostText(kPath, Body("stalls", 5));
    REQUIRE(stalled.back()->Send(whole.substr(0, whole.size() / 9 * static_cast<std::size_t>(i + 1))));
  }
  Connection never_reads(site.port);
  REQUIRE(never_reads.Send(PostText(kPath, Body("long", 5000, true))));
  InParallel(8, [&](int) {
    if (Post(site.port, kPath, Body("behaves", 20)).status != 200) FAIL("one that behaves was not served");
  });
  for (const auto& client : stalled) CHECK(Parse(client->ReadAll()).status != 200);  // comes to an end
  CHECK(site.End() == 0);
  const Answer late = Parse(never_reads.ReadAll());
  CHECK((late.stream().done || late.body.find("[DONE]") == std::string::npos));
}

TEST_CASE("memory for three requests only, and forty clients") {
  // A request is up to 34 + 30 tokens long: 4 blocks.
  for (const takt::KvAction action : {takt::KvAction::kDrop, takt::KvAction::kOut}) {
    EngineOptions options;
    options.scheduler.preempt_action = action;
    options.gpu_blocks = {12};
    options.cpu_blocks = {action == takt::KvAction::kOut ? 24 : 0};
    options.limits = {.tokens = {64}, .max_seqs = 16};
    Site site(options);
    InParallel(40, [&](int i) {
      const std::string prompt = fmt::format("There is room for three of us: {}", i % 5);
      const Answer answer = Post(site.port, kPath, Body(prompt, 30));
      if (answer.status != 200 || answer.json()["choices"][0]["text"] != TextAlone(prompt, 30)) {
        FAIL("not answered as if alone: " + answer.body);
      }
    });
    CHECK(Metric(site.port, "takt_finished_total") == 40);
    const char* preempted =
        action == takt::KvAction::kOut ? "takt_preempted_swap_total" : "takt_preempted_recompute_total";
    CHECK(Metric(site.port, preempted) > 0);
    // One that never fits is told so.
    const Answer large = Post(site.port, kPath, Body(std::string(200, 'x'), 5));
    CHECK(large.status == 400);
    CHECK(large.error("code") == "never_fits");
    // One that outgrows it all is, too.
    const Answer grows = Post(site.port, kPath, Body("grows", 400));
    CHECK(grows.status == 400);
    CHECK((grows.error("code") == "kv_exhausted" || grows.error("code") == "never_fits"));
    const Answer::Stream stream = Post(site.port, kPath, Body("grows", 400, true)).stream();
    REQUIRE(stream.last.is_object());
    CHECK(stream.last["error"]["code"] == grows.error("code"));
    CHECK_FALSE(stream.done);
    CHECK(site.End() == 0);
  }
}

TEST_CASE("where too many wait the newest is told to come again") {
  EngineOptions options;
  options.scheduler.max_waiting = 2;
  options.limits = {.tokens = {64}, .max_seqs = 1};
  Site site(options);
  std::atomic<int> served = 0, refused = 0;
  InParallel(12, [&](int) {
    const std::string response = [&] {
      Connection connection(site.port);
      connection.Send(PostText(kPath, Body("x", 300)));
      return connection.ReadAll();
    }();
    const Answer answer = Parse(response);
    if (answer.status == 200) ++served;
    const bool told = response.find("Retry-After") != std::string::npos && answer.error("code") == "shed";
    if (answer.status == 503 && told) ++refused;
  });
  CHECK(served + refused == 12);
  CHECK(served >= 2);
  CHECK(refused > 0);
  CHECK(site.End() == 0);
}

TEST_CASE("draining answers all that are there and nobody new") {
  Site site({.limits = {.tokens = {64}, .max_seqs = 4}});
  std::vector<Answer> answers(12);
  std::thread clients([&] {
    InParallel(12, [&](int i) {
      answers[static_cast<std::size_t>(i)] = Post(site.port, kPath, Body("drains", 200, i % 2 == 0));
    });
  });
  site.Expect("takt_arrived_total", 12);
  site.server->Refuse();
  CHECK(Get(site.port, "/health").status == 503);
  const Answer late = Post(site.port, kPath, Body("late", 2));
  CHECK(late.status == 503);
  CHECK(late.error("code") == "draining");
  CHECK(site.End() == 0);
  clients.join();
  for (const Answer& answer : answers) {
    CHECK(answer.status == 200);
    CHECK((answer.stream().done || answer.json()["choices"][0]["finish_reason"] == "length"));
  }
  CHECK(site.service->Submit({}).reply->Wait(seconds(1)).end == End::kFailed);
  CHECK_FALSE(site.service->Report(seconds(1)));
}

TEST_CASE("who is cut by the end is told, and counted") {
  Site site({.limits = {.tokens = {64}, .max_seqs = 3}});
  std::vector<Answer> answers(8);
  std::thread clients([&] {
    InParallel(8, [&](int i) {
      answers[static_cast<std::size_t>(i)] = Post(site.port, kPath, Body("cut", 5900, i % 2 == 0));
    });
  });
  site.Expect("takt_arrived_total", 8);
  site.Expect("takt_running", 3);
  CHECK(site.End(milliseconds(50)) == 8);
  clients.join();
  for (const Answer& answer : answers) {
    INFO(answer.body.substr(0, 300));
    if (answer.status == 200) {  // a stream that had begun
      REQUIRE(answer.stream().last.is_object());
      CHECK(answer.stream().last["error"]["code"] == "draining");
      CHECK_FALSE(answer.stream().done);
    } else {
      CHECK(answer.status == 503);
      CHECK(answer.error("code") == "draining");
    }
  }
}

TEST_CASE("an address that is taken is no place to serve") {
  Site site;
  HttpServer second(*site.service, {}, {.host = "192.0.2.1", .port = site.port});  // nobody's address (RFC 5737)
  const absl::Status status = second.Start();
  CHECK_FALSE(status.ok());
  CHECK(std::string(status.message()).find("192.0.2.1") != std::string::npos);
}

}  // namespace
}  // namespace tiny
