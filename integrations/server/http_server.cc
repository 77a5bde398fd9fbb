#include "http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "connections.h"
#include "faults.h"
#include "fmt/format.h"
#include "httplib.h"
#include "metrics_text.h"
#include "remembered.h"
#include "session_headers.h"

namespace serving {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGlance{50};  // time between checks whether a client is still connected
constexpr milliseconds kShortGlance{5};  // longest wait for one of several choices
constexpr int kClientLeft = 499;     // for the counts only
constexpr char kRequestId[] = "X-Request-Id";

// Socket of the request that this thread answers. The library does not pass it to handlers.
thread_local int client_socket = -1;

// The library parses complete requests, finds their handlers and writes the answers. Connections reads the sockets.
class Library : public httplib::Server {
 public:
  explicit Library(std::function<void(int)> take) : take_(std::move(take)) {
    new_task_queue = [] { return new AtOnce; };
  }

  // Returns false if the connection must end.
  bool Answer(Exchange& exchange, bool last) {
    client_socket = exchange.client();
    bool closed = false;
    const bool fine = process_request(exchange, last, closed, [](httplib::Request& request) {
      request.ranges.clear();  // answers are not cut
      // A body is always JSON, and its client was already asked to send it.
      for (const char* header : {"Range", "Content-Type", "Expect"}) request.headers.erase(header);
    });
    return fine && !closed;
  }

 private:
  // Runs on the listening thread.
  struct AtOnce : httplib::TaskQueue {
    void enqueue(std::function<void()> task) override { task(); }
    void shutdown() override {}
  };
  bool process_and_close_socket(socket_t socket) override { return take_(socket), true; }

  const std::function<void(int)> take_;
};

bool HasLeft(int socket) {
  pollfd look = {socket, POLLRDHUP, 0};
  return socket >= 0 && poll(&look, 1, 0) > 0;
}

void SetError(const ApiError& error, httplib::Response& response) {
  response.status = error.status;
  if (error.status == 429 || error.status == 503) {
    response.set_header("Retry-After", std::to_string(error.retry_after_s));
  }
  response.set_content(ErrorBody(error) + "\n", "application/json");
}

// Returns the error for a refusal by the library itself.
ApiError ErrorOfStatus(int status, std::size_t max_body) {
  switch (status) {
    case 404: return {404, "unknown path", "", "not_found"};
    case 413: return {413, fmt::format("the body is longer than {} bytes", max_body), "", "body_too_long"};
    case 500: return {500, "internal error", "", "internal"};
    default: return {status, "the request is not valid HTTP/1.1", "", "bad_request"};
  }
}

}  // namespace

// ---- one answer ----------------------------------------------------------------------------------------------------

namespace {

// One of the texts that answer a request.
struct Choice {
  Service::Ticket ticket;
  Decoder decoder;
  StopFinder stop;
  std::vector<std::int32_t> tokens = {};  // tokens sent with the text, if requested
  Reply::News news = {};  // not sent to the client yet
  std::string text = {};  // all of it, unless it is streamed
  End end = End::kNotYet;
  bool opened = false;    // the stream has begun
  bool over = false;

  bool has_news() const { return !over && (!news.tokens.empty() || news.end != End::kNotYet); }
};

// The state of an answer.
struct Answering {
  Service& service;
  const std::atomic<bool>& refusing;
  std::vector<Choice> choices;
  ApiAnswer answer;
  int socket = -1;
  AnswerFault fault = {};
  FaultOptions faults = {};
  int pieces = 0;  // sent

  bool over() const { return std::ranges::all_of(choices, &Choice::over); }
  bool failed() const { return choices[0].news.end == End::kFailed && choices[0].news.tokens.empty(); }

  // Waits for more; false if the client has disconnected, which cancels its request.
  bool WaitForNews(milliseconds most = std::chrono::hours(1000)) {
    const auto until = std::chrono::steady_clock::now() + most;
    while (std::ranges::none_of(choices, &Choice::has_news) && std::chrono::steady_clock::now() < until) {
      // The choices of a request have their tokens in the same steps, mostly.
      milliseconds glance = choices.size() > 1 ? kShortGlance : kGlance;
      for (Choice& choice : choices) {
        if (!choice.over) choice.news = choice.ticket.reply->Wait(std::exchange(glance, milliseconds(0)));
      }
      if (!HasLeft(socket)) continue;
      Cancel();
      return false;
    }
    return true;
  }

  void Cancel() {
    for (Choice& choice : choices) {
      if (!std::exchange(choice.over, true)) service.Cancel(choice.ticket.id);
    }
  }

  // Returns the pending text of a choice, and marks it as sent.
  std::string Text(Choice& choice) {
    answer.output_tokens += choice.news.tokens.size();
    std::string text = choice.stop.Add(choice.decoder.Add(choice.news.tokens));
    if (answer.token_ids)
      choice.tokens.insert(choice.tokens.end(), choice.news.tokens.begin(), choice.news.tokens.end());
    choice.news.tokens.clear();
    choice.end = choice.news.end;
    if (choice.end != End::kNotYet && !choice.stop.found()) text += choice.stop.Add(choice.decoder.Finish());
    if (choice.stop.found()) {
      if (choice.end == End::kNotYet) service.Cancel(choice.ticket.id);
      choice.end = End::kEndToken;
    } else if (choice.end != End::kNotYet) {
      text += choice.stop.Finish();
    }
    choice.over = choice.end != End::kNotYet;
    return text;
  }

  // Waits until the client has left, the server stops, or for at most this long.
  void Stall(milliseconds most) const {
    const auto until = std::chrono::steady_clock::now() + most;
    while (std::chrono::steady_clock::now() < until && !HasLeft(socket) && !refusing) {
      std::this_thread::sleep_for(std::min(kGlance, most));
    }
  }
};

// Sends a body with its fault.
void SetFaultyBody(const std::shared_ptr<Answering>& a, const std::string& body, httplib::Response& response) {
  response.set_content_provider(
      body.size(), "application/json", [a, body](std::size_t from, std::size_t, httplib::DataSink& sink) {
        if (a->fault.fault == Fault::kSlow) {
          a->Stall(a->faults.slow * static_cast<int>(a->answer.output_tokens));
          return sink.write(body.data() + from, body.size() - from);
        }
        if (a->fault.fault == Fault::kDamage) {
          const std::string damaged =
              body.substr(0, body.size() / 2) + std::string(body.size() - body.size() / 2, '\n');
          return sink.write(damaged.data() + from, damaged.size() - from);
        }
        if (from < body.size() / 2) return sink.write(body.data() + from, body.size() / 2 - from);
        if (a->fault.fault == Fault::kStall) a->Stall(a->faults.stall);
        return false;
      });
}

void AnswerAtOnce(const std::shared_ptr<Answering>& a, httplib::Response& response) {
  while (!a->over()) {
    if (!a->WaitForNews()) {
      response.status = kClientLeft;
      return;
    }
    for (Choice& choice : a->choices) {
      if (choice.has_news()) choice.text += a->Text(choice);
    }
  }
  std::vector<ApiPiece> pieces;
  for (const Choice& choice : a->choices) {
    if (choice.end == End::kFailed) return SetError(ErrorOf(choice.news.reason, choice.news.retry_after_ms), response);
    pieces.push_back({choice.text, choice.tokens, choice.end, pieces.size()});
  }
  const std::string body = AnswerBody(a->answer, pieces) + "\n";
  if (a->fault.fault != Fault::kNone) return SetFaultyBody(a, body, response);
  response.set_content(body, "application/json");
}

// Returns the events of a choice's news.
std::string Events(Answering& a, std::size_t index) {
  Choice& choice = a.choices[index];
  const std::string text = a.Text(choice);
  if (text.empty() && choice.tokens.empty() && !choice.over) return "";  // an incomplete character
  std::string events;
  if (choice.end == End::kFailed || choice.end == End::kCancelled) {
    if (!text.empty())
      events = StreamEvent(a.answer, {text, choice.tokens, End::kNotYet, index}, !choice.opened, false);
    events += StreamError(ErrorOf(choice.news.reason, choice.news.retry_after_ms));
  } else {
    events = StreamEvent(a.answer, {text, choice.tokens, choice.end, index}, !choice.opened, a.over());
  }
  choice.opened = true;
  choice.tokens.clear();
  return events;
}

// The library calls this repeatedly until it is done. False ends the connection.
bool StreamMore(Answering& a, httplib::DataSink& sink) {
  if (!a.WaitForNews(kGlance)) return false;
  std::string events;
  bool failed = false;
  for (std::size_t i = 0; i < a.choices.size(); ++i) {
    if (!a.choices[i].has_news()) continue;
    events += Events(a, i);
    failed |= a.choices[i].end == End::kFailed || a.choices[i].end == End::kCancelled;
  }
  if (failed) a.Cancel();  // the other choices
  if (events.empty()) return true;
  if (a.fault.fault == Fault::kSlow) a.Stall(a.faults.slow);
  if (a.pieces++ >= a.fault.after || a.over()) {
    if (a.fault.fault == Fault::kDamage) {
      const std::size_t from = events.rfind("data: ");  // the last event
      events.replace(from + (events.size() - from) / 2, std::string::npos, "\n\n");
      a.fault.fault = Fault::kNone;
    }
    if (a.fault.fault == Fault::kStall) a.Stall(a.faults.stall);
    if (a.fault.fault == Fault::kStall || a.fault.fault == Fault::kDrop) return false;
  }
  if (a.over() && !failed) {  // a failed answer lacks [DONE], so that no client takes it for a complete answer
    if (a.answer.usage) events += StreamUsage(a.answer);
    events += kStreamDone;
  }
  if (!sink.write(events.data(), events.size())) return false;
  if (a.over()) sink.done();
  return true;
}

}  // namespace

// ---- the server ----------------------------------------------------------------------------------------------------

class HttpServer::Impl {
 public:
  Impl(Service& service, ApiLimits limits, HttpOptions options)
      : service_(service),
        limits_(std::move(limits)),
        options_(std::move(options)),
        server_([this](int socket) { connections_.Take(socket); }),
        connections_(
            {.connections = options_.connections, .max_body = options_.max_body, .patience = options_.patience},
            [this](Exchange& exchange, bool last) { return server_.Answer(exchange, last); },
            [this](int status) { CountResponse(status); }) {
    if (options_.faults) faults_.emplace(*options_.faults);
    server_.set_payload_max_length(options_.max_body);
    server_.set_tcp_nodelay(true);
    server_.set_keep_alive_timeout(options_.patience.count());
    server_.set_socket_options([this](int socket) {
      httplib::default_socket_options(socket);
      listener_ = socket;
    });
    Route();
  }

  absl::Status Start() {
    port_ = options_.port == 0                                   ? server_.bind_to_any_port(options_.host)
            : server_.bind_to_port(options_.host, options_.port) ? options_.port
                                                                 : -1;
    if (port_ <= 0) {
      return absl::UnavailableError(fmt::format("cannot listen at {}:{}", options_.host, options_.port));
    }
    if (absl::Status status = connections_.Start(); !status.ok()) return status;
    listen(listener_, 1024);  // the library's own backlog is 5
    listening_ = std::thread([this] { server_.listen_after_bind(); });
    return absl::OkStatus();
  }

  void Stop() {
    Refuse();
    if (!listening_.joinable()) return;
    while (!server_.is_running()) std::this_thread::sleep_for(milliseconds(1));  // stop() has no effect earlier
    // The library cuts streams when it is stopped, including their last part.
    while (answering_ > 0) std::this_thread::sleep_for(milliseconds(1));
    server_.stop();
    listening_.join();
    connections_.Stop();
  }

  void Refuse() { refusing_ = true; }
  int port() const { return port_; }

 private:
  void Route() {
    server_.Post("/v1/completions", [this](const auto& q, auto& r) { Complete(Api::kCompletion, q, r); });
    server_.Post("/v1/chat/completions", [this](const auto& q, auto& r) { Complete(Api::kChat, q, r); });
    server_.Get("/v1/models", [this](const auto&, auto& response) {
      response.set_content(ModelsBody(limits_) + "\n", "application/json");
    });
    server_.Get("/health", [this](const auto&, auto& response) {
      response.status = refusing_ ? 503 : 200;
      response.set_content(refusing_ ? "{\"status\":\"draining\"}\n" : "{\"status\":\"ok\"}\n", "application/json");
    });
    server_.Get("/metrics", [this](const auto&, auto& response) { Metrics(response); });
    server_.set_exception_handler([](const auto&, auto& response, std::exception_ptr) {
      SetError({500, "internal error", "", "internal"}, response);  // without details of the exception
    });
    server_.set_error_handler([this](const auto&, auto& response) {
      if (response.body.empty()) SetError(ErrorOfStatus(response.status, options_.max_body), response);
    });
    server_.set_logger([this](const auto&, const auto& response) {  // after the whole answer was written, or failed
      if (response.has_header(kRequestId)) --answering_;
      CountResponse(response.status);
    });
  }

  void CountResponse(int status) {
    const std::lock_guard lock(mutex_);
    ++responses_[status];
  }

  void Complete(Api api, const httplib::Request& request, httplib::Response& response) {
    auto parsed = ParseRequest(api, request.body, limits_);
    if (const ApiError* error = std::get_if<ApiError>(&parsed)) return SetError(*error, response);
    ApiRequest& asked = std::get<ApiRequest>(parsed);
    EngineRequest wanted;
    if (const char* wrong = ReadHeaders(request, wanted)) {
      return SetError({400, fmt::format("{} is invalid; expected a number", wrong), wrong}, response);
    }
    if (refusing_) return SetError(ErrorOf(takt::FailReason::kDraining), response);
    AnswerFault fault;
    if (faults_) {
      const std::string wants = request.get_header_value("X-Takt-Fault");
      const std::optional<AnswerFault> drawn = faults_->Next(wants, asked.max_tokens);
      if (!drawn)
        return SetError(
            {400, "X-Takt-Fault is invalid; expected error, drop, stall, damage, slow or none", "X-Takt-Fault"},
            response);
      fault = *drawn;
      if (fault.fault == Fault::kError) return SetError({500, "a fault on request", "", "fault"}, response);
    }
    wanted.about.max_output_tokens = {asked.max_tokens};
    wanted.max_output_tokens = asked.max_tokens;
    wanted.end_token = asked.end_token;
    wanted.prompt = std::move(asked.prompt);
    auto a = std::make_shared<Answering>(Answering{.service = service_,
                                                   .refusing = refusing_,
                                                   .choices = {},
                                                   .answer = {},
                                                   .socket = client_socket,
                                                   .fault = fault});
    if (faults_) a->faults = faults_->options();
    const std::size_t prompt_tokens = wanted.prompt.size();
    for (std::int32_t i = 0; i < asked.choices; ++i) {
      EngineRequest copy = i + 1 < asked.choices ? wanted : std::move(wanted);
      a->choices.push_back({service_.Submit(std::move(copy)), Decoder(*limits_.text), StopFinder(asked.stop)});
    }
    const std::uint64_t id = a->choices[0].ticket.id.value;
    a->answer = {api, id, UnixSeconds(), limits_.model, prompt_tokens, 0, asked.usage, asked.token_ids};
    response.set_header(kRequestId, std::to_string(id));
    ++answering_;

    // The status is sent with the first token.
    if (!a->WaitForNews()) {
      response.status = kClientLeft;
      return;
    }
    if (a->failed()) {
      a->Cancel();
      return SetError(ErrorOf(a->choices[0].news.reason, a->choices[0].news.retry_after_ms), response);
    }
    if (!asked.stream) return AnswerAtOnce(a, response);
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream", [a](std::size_t, httplib::DataSink& sink) { return StreamMore(*a, sink); },
        [a](bool) { a->Cancel(); });
  }

  // Returns the invalid header; null: none.
  const char* ReadHeaders(const httplib::Request& request, EngineRequest& to) const {
    const auto either = [&](const char* name, const char* older) {
      return request.get_header_value(request.has_header(name) ? name : older);
    };
    const auto number = [](const std::string& text, auto& value) {
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
      return text.empty() || (error == std::errc() && stop == text.data() + text.size());
    };
    takt::Request& about = to.about;
    about.tenant = {ids_.Of(request.get_header_value("X-Takt-Tenant"))};
    std::string workflow = either("X-Takt-Workflow", "X-Workflow-Id");
    if (workflow.empty() && options_.session_headers) {
      workflow = SessionOf([&](const char* name) {
        const std::size_t times = request.get_header_value_count(name);
        return times == 0 ? "" : request.get_header_value(name, times - 1);
      });
    }
    about.workflow = {ids_.Of(workflow, about.tenant.value)};
    about.agent = {ids_.Of(either("X-Takt-Agent", "X-Agent"))};
    to.last = request.get_header_value("X-Takt-Last") == "1";
    if (!number(request.get_header_value("X-Takt-Priority"), about.priority)) return "X-Takt-Priority";
    if (!number(request.get_header_value("X-Priority"), about.priority)) return "X-Priority";
    double deadline = -1;
    if (!number(request.get_header_value("X-Takt-Deadline"), deadline) || !(deadline < 1e9)) return "X-Takt-Deadline";
    if (deadline >= 0) to.deadline = takt::FromSeconds(deadline);
    return nullptr;
  }

  static std::int64_t UnixSeconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  void Metrics(httplib::Response& response) {
    const std::optional<ServiceReport> report = service_.Report(std::chrono::seconds(5));
    if (!report) return SetError({503, "the engine does not respond", "", "busy"}, response);
    std::map<int, std::int64_t> responses;
    {
      const std::lock_guard lock(mutex_);
      responses = responses_;
    }
    response.set_content(MetricsText(options_.program, limits_.model, *report, responses), "text/plain; version=0.0.4");
  }

  Service& service_;
  const ApiLimits limits_;
  const HttpOptions options_;
  const ClientIds ids_{options_.hash_seed};
  std::optional<FaultDraw> faults_;
  Library server_;
  std::thread listening_;
  int listener_ = -1;
  int port_ = -1;
  std::atomic<bool> refusing_ = false;
  std::atomic<int> answering_ = 0;  // requests in the engine whose answer is not written yet
  std::mutex mutex_;
  std::map<int, std::int64_t> responses_;  // guarded by mutex_
  Connections connections_;
};

HttpServer::HttpServer(Service& service, ApiLimits limits, HttpOptions options)
    : impl_(std::make_unique<Impl>(service, std::move(limits), std::move(options))) {}
HttpServer::~HttpServer() { Stop(); }
absl::Status HttpServer::Start() { return impl_->Start(); }
int HttpServer::port() const { return impl_->port(); }
void HttpServer::Refuse() { impl_->Refuse(); }
void HttpServer::Stop() { impl_->Stop(); }

}  // namespace serving
