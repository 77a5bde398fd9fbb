// The engine over HTTP, with clients of every kind: some behave, leave, stall, or send garbage.
#include "http_server.h"

#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "alone.h"
#include "catch.h"
#include "tool/report/json_writer.h"
#include "client.h"
#include "fmt/format.h"
#include "session_headers.h"
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

  // Waits until a figure reaches a value.
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

// The engine's answer to a prompt served alone, as JSON shows it.
std::string TextAlone(const std::string& prompt, int tokens) {
  EngineRequest request{.max_output_tokens = tokens};
  ByteVocabulary().Encode(prompt, request.prompt);
  Decoder decoder;
  std::string text;
  for (const Sample& sample : Alone(TestModel(), request)) text += decoder.Add(std::vector{sample.token});
  text += decoder.Finish();
  return Json::parse(takt::tool::JsonString(text));
}

// Calls f(i) on separate threads; returns after all have finished.
template <class F>
void InParallel(int n, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("the session of a coding agent comes from the headers that every language reads") {
  std::ifstream file(TAKT_SOURCE_DIR "/tests/session_headers.json");
  const Json table = Json::parse(file);
  CHECK(table["names"].get<std::vector<std::string>>() ==
        std::vector<std::string>(std::begin(kSessionHeaders), std::end(kSessionHeaders)));
  REQUIRE(table["cases"].size() > 20);
  for (const Json& c : table["cases"]) {
    INFO(c["why"].get<std::string>());
    std::map<std::string, std::string> last;
    for (const Json& header : c["headers"]) {
      std::string name = header[0].get<std::string>(), value;
      std::transform(name.begin(), name.end(), name.begin(), [](char x) { return x >= 'A' && x <= 'Z' ? x + 32 : x; });
      if (header[1].is_string()) value = header[1].get<std::string>();
      else
        for (int i = 0; i < header[1][1].get<int>(); ++i) value += header[1][0].get<std::string>();
      last[name] = value;
    }
    CHECK(SessionOf([&](const char* name) { return last.contains(name) ? last[name] : std::string(); }) ==
          c["session"].get<std::string>());
  }
}

TEST_CASE("many clients at once are answered as if each were alone") {
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
    CHECK(Metric(site.port, "vllm:e2e_request_latency_seconds_count") == kClients);
    CHECK(site.End() == 0);
  }
}

TEST_CASE("chat, models and health answer, and unknown paths do not") {
  Site site;
  const Answer chat =
      Post(site.port, kChatPath, R"({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3})");
  CHECK(chat.status == 200);
  CHECK(chat.json()["choices"][0]["message"]["role"] == "assistant");
  CHECK(chat.json()["usage"]["prompt_tokens"] == 5);
  CHECK(Get(site.port, "/v1/models").json()["data"][0]["id"] == "tiny");
  CHECK(Get(site.port, "/health").json()["status"] == "ok");
  CHECK(Get(site.port, "/v2").status == 404);
  CHECK(Get(site.port, "/v2").error("message").find("unknown path") != std::string::npos);
  CHECK(Get(site.port, "/metrics").body.find("# TYPE takt_arrived_total counter") != std::string::npos);
}

// Sends one request with each of these headers, and returns the requests as takt's log has them.
std::vector<takt::Request> LoggedRequests(const std::vector<std::string>& headers, HttpOptions http = {}) {
  std::string log;
  takt::Recorder recorder([&](std::string_view bytes) { log += bytes; });
  {
    Site site({.policy = "aged(stjf)", .recorder = &recorder}, std::move(http));
    for (const std::string& each : headers) CHECK(Post(site.port, kPath, Body("x", 2), each).status == 200);
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
  CHECK(takt::ReplayLog(log)->difference == std::nullopt);
  REQUIRE(requests.size() == headers.size());
  return requests;
}

TEST_CASE("headers pass the client's identity to takt") {
  const auto requests = LoggedRequests({"X-Workflow-Id: trip\r\nX-Agent: planner\r\nX-Priority: -3\r\n", "",
                                        "X-Workflow-Id: trip\r\nX-Agent: coder\r\n"});
  CHECK(requests[0].workflow == requests[2].workflow);
  CHECK(requests[0].workflow_arrival == requests[2].workflow_arrival);
  CHECK(requests[0].agent != requests[2].agent);
  CHECK(requests[0].priority == -3);
  CHECK_FALSE(requests[1].workflow);
  CHECK_FALSE(requests[1].agent);
}

TEST_CASE("a coding agent's session is the workflow of requests that name none, unless the option is off") {
  const std::vector<std::string> headers = {
      "X-Takt-Workflow: s\r\n",
      "X-Claude-Code-Session-Id: s\r\nSession-Id: other\r\n",
      "Session-Id: other\r\nSession-Id: s\r\n",  // the last counts
      "X-Takt-Workflow: s\r\nSession-Id: other\r\n",
      "X-Takt-Tenant: t\r\nSession-Id: s\r\n",
      "Session-Id: " + std::string(257, 's') + "\r\n",
      "Session-Id: s\x7f\r\n",
  };
  const auto requests = LoggedRequests(headers);
  for (const std::size_t i : {1U, 2U, 3U}) CHECK(requests[i].workflow == requests[0].workflow);
  CHECK(requests[4].workflow);
  CHECK(requests[4].workflow != requests[0].workflow);
  CHECK_FALSE(requests[5].workflow);
  CHECK_FALSE(requests[6].workflow);
  const auto off = LoggedRequests(headers, {.session_headers = false});
  CHECK(off[0].workflow == off[3].workflow);
  for (const std::size_t i : {1U, 2U, 4U}) CHECK_FALSE(off[i].workflow);
}

TEST_CASE("garbage is refused without harm to others") {
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

std::string Gzipped(const std::string& text) {
  z_stream stream = {};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_CASE("a body has its stated length, within the limit") {
  Site site({}, {.max_body = 1000});
  const std::string body = Body("x", 2), spaces(100'000, ' ');
  const auto answer_to = [&](const std::string& headers, const std::string& text) {
    Connection connection(site.port);
    connection.Send("POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n" + text);
    return Parse(connection.ReadAll());
  };
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  const std::string packed = Gzipped(spaces + body);
  CHECK(packed.size() < 1000);
  CHECK(Post(site.port, kPath, packed, "Content-Encoding: gzip\r\n").status == 415);
  CHECK(Post(site.port, kPath, packed, "content-encoding: br\r\n").error("param") == "Content-Encoding");
  CHECK(Post(site.port, kPath, body, "Content-Encoding: identity\r\n").status == 200);
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", (spaces + body).size(), spaces + body);
  CHECK(answer_to("Transfer-Encoding: chunked\r\n", chunk).status == 411);
  CHECK(answer_to("Transfer-Encoding: chunked\r\n" + length, chunk).status == 411);
  CHECK(answer_to("", body).error("code") == "invalid_json");  // no length was announced
  CHECK(answer_to(length + length, body).status == 400);
  CHECK(answer_to("Content-Length: +5\r\n", body).status == 400);
  CHECK(answer_to("Content-Length: 5, 5\r\n", body).status == 400);
  CHECK(answer_to("Content-Length: 99999999999999999999999\r\n", body).status == 413);
  CHECK(answer_to("Content-Length: 1001\r\n", body).status == 413);
  CHECK(answer_to("Content-Type: application/x-www-form-urlencoded\r\n" + length, body).status == 200);
  CHECK(answer_to("Content-Type: multipart/form-data; boundary=x\r\n" + length, body).status == 200);
  CHECK(answer_to("Range: bytes=0-0\r\n" + length, body).status == 200);
  CHECK(answer_to("Range: bytes=" + std::string(8000, '1') + "\r\n" + length, body).status > 0);
  std::string ranges = "Range: bytes=0-0";
  for (int i = 0; i < 1900; ++i) ranges += ",0-0";
  CHECK(answer_to(ranges + "\r\n" + length, body).body.size() < 2000);
  CHECK(site.End() == 0);
}

TEST_CASE("numbers beyond double are refused by field, without exception texts") {
  Site site;
  for (const std::string body :
       {R"({"prompt": "x", "max_tokens": 1e400})", R"({"prompt": "x", "no_field": [-1e999]})",
        R"({"prompt": "x", "max_tokens": 123456789012345678901234567890})", R"({"prompt": "\ud800"})"}) {
    Connection connection(site.port);
    connection.Send(PostText(kPath, body));
    const std::string response = connection.ReadAll();
    CAPTURE(response);
    CHECK(Parse(response).status == 400);
    CHECK(response.find("xception") == std::string::npos);
    CHECK(response.find("EXCEPTION") == std::string::npos);
    CHECK(response.find("json.") == std::string::npos);
  }
  CHECK(Post(site.port, kPath, R"({"prompt": "x", "max_tokens": 1e400})").error("param") == "max_tokens");
}

TEST_CASE("clients that never finish their request keep none out") {
  Site site({}, {.connections = 16, .patience = seconds(600)});
  const std::string whole = PostText(kPath, Body("slow", 5));
  std::vector<std::unique_ptr<Connection>> slow;
  for (std::size_t i = 0; i < 64; ++i) {
    slow.push_back(std::make_unique<Connection>(site.port));
    REQUIRE(slow.back()->Send(whole.substr(0, 1 + i % (whole.size() - 1))));
    if (i % 16 == 15) CHECK(Get(site.port, "/health").status == 200);
  }
  CHECK(Post(site.port, kPath, Body("behaves", 5)).status == 200);
  CHECK(Metric(site.port, "takt_finished_total") == 1);
  CHECK(slow.front()->ReadAll().empty());  // it made room
  CHECK_FALSE(slow.back()->has_news());
  REQUIRE(slow.back()->Send(whole.substr(1 + 63 % (whole.size() - 1))));
  CHECK(Parse(slow.back()->ReadAll()).status == 200);  // late, but answered
  slow.clear();
  CHECK(site.End() == 0);
}

TEST_CASE("a request must be whole in time, even if bytes keep coming") {
  Site site({}, {.patience = seconds(1)});
  for (const bool in_head : {true, false}) {
    Connection slow(site.port);
    REQUIRE(slow.Send(in_head ? "POST /v1" : PostText(kPath, std::string(1000, ' ')).substr(0, 200)));
    bool ended = false;
    for (int bytes = 0; bytes < 800 && !ended; ++bytes) {
      ended = slow.has_news() || !slow.Send(" ");
      std::this_thread::sleep_for(milliseconds(10));
    }
    REQUIRE(ended);
    const Answer answer = Parse(slow.ReadAll());
    CHECK(answer.status == 408);
    CHECK(answer.error("code") == "timeout");
  }
  CHECK(site.End() == 0);
}

TEST_CASE("a full server answers others, and health and metrics work") {
  Site site({.limits = {.tokens = {64}, .max_seqs = 2}}, {.connections = 2});
  std::vector<std::unique_ptr<Connection>> taken;
  for (int i = 0; i < 4; ++i) {  // two are answered, two wait
    taken.push_back(std::make_unique<Connection>(site.port));
    REQUIRE(taken.back()->Send(PostText(kPath, Body("long", 5900, true))));
    if (i == 1) site.Expect("vllm:num_requests_running", 2);
  }
  CHECK(Get(site.port, "/health").status == 200);
  CHECK(Get(site.port, "/v1/models").status == 200);
  CHECK(Metric(site.port, "vllm:num_requests_running") == 2);
  Connection fifth(site.port);
  REQUIRE(fifth.Send(PostText(kPath, Body("x", 2))));
  const std::string refused = fifth.ReadAll();
  CHECK(Parse(refused).status == 503);
  CHECK(Parse(refused).error("code") == "busy");
  CHECK(refused.find("Retry-After") != std::string::npos);
  taken.clear();  // they leave
  site.Expect("takt_cancelled_total", 4);
  CHECK(Post(site.port, kPath, Body("x", 3)).status == 200);
  CHECK(site.End() == 0);
}

TEST_CASE("pipelined requests are answered one after the other") {
  Site site;
  const auto post = [](const std::string& body, const std::string& headers = "") {
    return "POST /v1/completions HTTP/1.1\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  };
  Connection client(site.port);
  REQUIRE(client.Send("GET /health HTTP/1.1\r\n\r\nGET /health HTTP/1.1\r\n\r\n" + post(Body("first", 2)) +
                      "GET /v1/models HTTP/1.1\r\n\r\n" + post(Body("second", 2, true)) + "GET /no HTTP/1.1\r\n\r\n" +
                      post("", "Connection: close\r\n") + post(Body("never", 2))));
  const std::string all = client.ReadAll();
  std::vector<int> statuses;
  for (std::size_t at = 0; (at = all.find("HTTP/1.1 ", at)) != std::string::npos; ++at) {
    statuses.push_back(std::atoi(all.c_str() + at + 9));
  }
  CHECK(statuses == std::vector<int>{200, 200, 200, 200, 200, 404, 400});
  CHECK(Metric(site.port, "takt_finished_total") == 2);

  Connection asks(site.port);
  const std::string whole = post(Body("x", 2), "Connection: close\r\nExpect: 100-continue\r\n");
  const std::size_t head = whole.find("\r\n\r\n") + 4;
  REQUIRE(asks.Send(whole.substr(0, head)));
  asks.ReadUntil("HTTP/1.1 100 Continue\r\n\r\n");
  REQUIRE(asks.Send(whole.substr(head)));
  CHECK(asks.ReadAll().find("HTTP/1.1 200") != std::string::npos);
  CHECK(site.End() == 0);
}

TEST_CASE("a client that leaves is cancelled in any state") {
  Site site({.limits = {.tokens = {256}, .max_seqs = 2}});  // others wait
  constexpr int kEach = 6;
  {
    std::vector<std::unique_ptr<Connection>> clients;
    for (int i = 0; i < 2 * kEach; ++i) {
      clients.push_back(std::make_unique<Connection>(site.port));
      REQUIRE(clients.back()->Send(PostText(kPath, Body("long", 5000, i % 2 == 0))));
    }
    site.Expect("vllm:num_requests_running", 2);
    site.Expect("vllm:num_requests_waiting", 2 * kEach - 2);
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

TEST_CASE("a stalled client is dropped, and others do not wait") {
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
  for (const auto& client : stalled) CHECK(Parse(client->ReadAll()).status != 200);  // it ends
  CHECK(site.End() == 0);
  const Answer late = Parse(never_reads.ReadAll());
  CHECK((late.stream().done || late.body.find("[DONE]") == std::string::npos));
}

TEST_CASE("forty clients share memory for three requests") {
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
    // A request that never fits gets its own error.
    const Answer large = Post(site.port, kPath, Body(std::string(200, 'x'), 5));
    CHECK(large.status == 400);
    CHECK(large.error("code") == "never_fits");
    // A request that outgrows all memory gets its own error too.
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

TEST_CASE("if too many wait, the newest is asked to retry") {
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
    if (answer.status == 429 && told) ++refused;
  });
  CHECK(served + refused == 12);
  CHECK(served >= 2);
  CHECK(refused > 0);
  CHECK(site.End() == 0);
}

TEST_CASE("draining answers present requests and no new ones") {
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

TEST_CASE("a client cut by the shutdown gets an error and is counted") {
  Site site({.limits = {.tokens = {64}, .max_seqs = 3}});
  std::vector<Answer> answers(8);
  std::thread clients([&] {
    InParallel(8, [&](int i) {
      answers[static_cast<std::size_t>(i)] = Post(site.port, kPath, Body("cut", 5900, i % 2 == 0));
    });
  });
  site.Expect("takt_arrived_total", 8);
  site.Expect("vllm:num_requests_running", 3);
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

TEST_CASE("a taken or foreign address fails to serve") {
  Site site;
  HttpServer second(*site.service, {}, {.host = "192.0.2.1", .port = site.port});  // an unassigned address (RFC 5737)
  const absl::Status status = second.Start();
  CHECK_FALSE(status.ok());
  CHECK(std::string(status.message()).find("192.0.2.1") != std::string::npos);
}

}  // namespace
}  // namespace tiny
