// takt observe: sends a workload to a server, and writes what its clients saw.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "httplib.h"
#include "takt/base/random.h"
#include "takt/sim/workload_progress.h"
#include "tool/command/commands.h"
#include "tool/command/report_files.h"
#include "tool/observe/observed_steps.h"
#include "tool/observe/openai_stream.h"
#include "tool/report/comparison.h"
#include "tool/report/json_writer.h"
#include "tool/report/table.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/run/progress_bar.h"
#include "tool/run/terminal.h"

namespace takt::tool {
namespace {

using Clock = std::chrono::steady_clock;

struct ObserveArguments : ReportFiles, ReplaySetup {
  std::string url, model, api = "completions", key_variable = "OPENAI_API_KEY", policy = "fcfs";
  std::string trace, requests, steps;  // files
  WorkloadSource workload;
  double timeout = 60;  // s
  std::int64_t first_token_id = 97, last_token_id = 122;  // letters, for a tokenizer of bytes
  std::int32_t connections = 1024;
};

constexpr const char* kObserveExamples =
    R"(Requests are sent at the workload's times, whether or not earlier ones have ended. Tools inside answers are
left out. docs/howto/observe.md has the whole round.

Example
  takt observe http://localhost:8000 --workload bundled --limit 200 --trace seen.jsonl --steps steps.jsonl --json seen.json
  takt calibrate steps.jsonl --id own/model/gpu/bf16/tp1 --kv-tokens 100000 --out own.json
  takt replay --workload seen.jsonl --profiles own.json --profile own/model/gpu/bf16/tp1 --policy fcfs --json replay.json
  takt compare --measured seen.json --predicted replay.json

Exit code: 0 done, 1 failed, or requests failed (the files have the rest), 2 wrong usage, 130 interrupted (the files
have what had ended).)";

std::uint64_t SeedOf(std::uint64_t seed, std::uint64_t hash) { return Mix64(seed ^ hash); }

// One run against the server. The main thread sends requests when they are due; each has a thread of its own, which
// sleeps until its answer comes.
class Observation {
 public:
  Observation(const ObserveArguments& arguments, std::string server, const Workload& workload,
              std::optional<OutputFile>& lines)
      : arguments_(arguments),
        server_(std::move(server)),
        workload_(workload),
        lines_(lines),
        progress_(workload, {EstimateKind::kNone, 0}, arguments.workload.seed, records_),
        observed_(workload.calls.size()) {}

  void Run(ProgressBar& bar);

  // Returns the workflows that have begun, as the clients saw them. Times start at the first request. `cut` is the
  // number of calls whose prefix was longer than the prompt that the server counted.
  Workload Seen(ReplayResult& result, std::int64_t& cut) const;
  std::vector<ClientTimes> Times() const;

  std::int64_t begun() const { return begun_; }
  std::int64_t ended() const { return ended_; }  // completely
  const std::map<std::string, std::int64_t>& faults() const { return faults_; }
  double latest() const { return latest_; }  // of a request's sending [s]
  bool gave_up() const { return gave_up_; }

 private:
  struct Due {
    Duration time;
    std::uint32_t call;
    friend bool operator>(const Due& a, const Due& b) { return a.time > b.time; }
  };

  Duration Now() const { return Clock::now() - start_; }
  double At(Clock::time_point time) const { return std::chrono::duration<double>(time - start_).count(); }
  std::string BodyOf(std::uint32_t call) const;
  void Send(std::uint32_t call);
  void JoinFinished();
  void Ended(std::uint32_t call, ObservedRequest observed);

  const ObserveArguments& arguments_;
  const std::string server_;  // its URL
  const Workload& workload_;
  std::optional<OutputFile>& lines_;
  std::vector<RequestRecord> records_;
  Clock::time_point start_ = Clock::now();

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  WorkloadProgress progress_;
  std::vector<ObservedRequest> observed_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::map<std::uint32_t, std::unique_ptr<httplib::Client>> in_flight_;
  std::map<std::uint32_t, std::thread> threads_;
  std::vector<std::uint32_t> finished_;  // calls whose threads need nothing else
  std::int64_t begun_ = 0, ended_ = 0, refused_in_a_row_ = 0;
  std::map<std::string, std::int64_t> faults_;
  double latest_ = 0;
  bool stopping_ = false, gave_up_ = false;
};

// Prompts with the same prefix hashes have the same tokens.
std::string Observation::BodyOf(std::uint32_t index) const {
  const WorkloadCall& call = workload_.calls[index];
  std::vector<std::int64_t> tokens;
  const auto length = static_cast<std::size_t>(call.prompt_tokens);
  const auto ids = static_cast<std::uint64_t>(arguments_.last_token_id - arguments_.first_token_id + 1);
  const auto add = [&](std::uint64_t seed, std::size_t most) {
    Random random(seed);
    for (; most > 0 && tokens.size() < length; --most) {
      tokens.push_back(arguments_.first_token_id + static_cast<std::int64_t>(random.Below(ids)));
    }
  };
  std::vector<std::uint64_t> made;
  for (const std::uint64_t hash : workload_.PrefixOf(records_[index].workflow, call, made)) {
    add(SeedOf(arguments_.workload.seed, hash), static_cast<std::size_t>(workload_.prefix_block_tokens));
  }
  add(SeedOf(arguments_.workload.seed, ~std::uint64_t{index}), length);
  JsonWriter json(0);
  json.BeginObject();
  if (!arguments_.model.empty()) json.Field("model", arguments_.model);
  if (arguments_.api == "chat") {
    std::string text;  // about a token per four bytes
    for (const std::int64_t token : tokens) {
      for (std::int64_t i = 0, rest = token; i < 3; ++i, rest /= 7) text += static_cast<char>('a' + rest % 26);
      text += ' ';
    }
    json.Key("messages").BeginArray().BeginObject().Field("role", "user").Field("content", text);
    json.EndObject().EndArray();
  } else {
    json.Key("prompt").BeginArray();
    for (const std::int64_t token : tokens) json.Value(token);
    json.EndArray();
  }
  json.Field("max_tokens", call.output_tokens).Field("temperature", 0).Field("stream", true).Field("ignore_eos", true);
  json.Key("stream_options").BeginObject().Field("include_usage", true).EndObject();
  return json.EndObject().Take();
}

void Observation::Run(ProgressBar& bar) {
  constexpr Duration kGlance = std::chrono::milliseconds(20), kStopAgain = std::chrono::milliseconds(50);
  constexpr std::int64_t kMostRefused = 20;  // connections refused in a row after which the server is gone
  std::uint32_t next = 0;  // workflow
  std::unique_lock lock(mutex_);
  start_ = Clock::now();
  while (!progress_.over() && !Interrupted() && !gave_up_) {
    JoinFinished();
    const auto arrival = [&] {
      return next == workload_.workflows.size()
                 ? Duration::max()
                 : FromSeconds(ToSeconds(workload_.workflows[next].arrival) / arguments_.rate_scale);
    };
    for (; arrival() <= Now(); ++next) {
      const Duration at = arrival();
      progress_.Start(next, TimePoint(at), [&](std::uint32_t c) { due_.push({at + workload_.calls[c].delay, c}); });
    }
    while (!due_.empty() && due_.top().time <= Now() && std::ssize(in_flight_) < arguments_.connections) {
      const Due due = due_.top();
      due_.pop();
      latest_ = std::max(latest_, ToSeconds(Now() - due.time));
      records_[due.call].arrival = TimePoint(due.time);
      Send(due.call);
    }
    gave_up_ = refused_in_a_row_ >= kMostRefused;
    const std::size_t over = progress_.calls_over(), calls = workload_.calls.size();
    bar.Show(static_cast<double>(over) / static_cast<double>(calls),
             fmt::format("observing, {} of {} done, {} in flight", over, calls, in_flight_.size()));
    const Duration wake = std::min(arrival(), due_.empty() ? Duration::max() : due_.top().time);
    changed_.wait_for(lock, std::clamp(wake - Now(), Duration(1), kGlance));
  }
  // A stop before the connection has no effect.
  for (stopping_ = true; !in_flight_.empty(); changed_.wait_for(lock, kStopAgain)) {
    for (const auto& [call, client] : in_flight_) client->stop();
  }
  JoinFinished();
}

void Observation::JoinFinished() {
  for (const std::uint32_t call : finished_) {
    const auto found = threads_.find(call);
    found->second.join();
    threads_.erase(found);
  }
  finished_.clear();
}

void Observation::Send(std::uint32_t call) {
  constexpr std::chrono::microseconds kConnecting = std::chrono::seconds(5);
  auto client = std::make_unique<httplib::Client>(server_);
  const auto patience = std::chrono::duration_cast<std::chrono::microseconds>(FromSeconds(arguments_.timeout));
  client->set_connection_timeout(std::min(patience, kConnecting));
  client->set_read_timeout(patience);
  client->set_tcp_nodelay(true);
  if (const char* key = std::getenv(arguments_.key_variable.c_str())) client->set_bearer_token_auth(key);
  httplib::Client* raw = client.get();
  in_flight_[call] = std::move(client);
  ++begun_;
  try {
    threads_[call] = std::thread([this, call, raw, body = BodyOf(call)] {
      ObservedRequest observed = Observe(*raw, arguments_.api == "chat" ? "/v1/chat/completions" : "/v1/completions",
                                         body, workload_.calls[call].output_tokens);
      const std::lock_guard lock(mutex_);
      Ended(call, std::move(observed));
      finished_.push_back(call);
    });
  } catch (const std::system_error& error) {
    const Clock::time_point now = Clock::now();
    Ended(call, {.sent = now, .end = now, .connected = true, .fault = fmt::format("no thread: {}", error.what())});
  }
}

void Observation::Ended(std::uint32_t call, ObservedRequest observed) {
  RequestRecord& record = records_[call];
  const auto chunks = std::ssize(observed.chunks);
  if (observed.prompt_tokens == 0) observed.prompt_tokens = workload_.calls[call].prompt_tokens;
  if (observed.output_tokens == 0) observed.output_tokens = chunks;
  record.arrival = TimePoint(observed.sent - start_);
  if (chunks > 0) record.first_step = record.first_token = TimePoint(observed.chunks.front() - start_);
  record.output_tokens = static_cast<std::int32_t>(observed.output_tokens);
  const bool complete = observed.fault.empty() && chunks > 0;
  if (observed.fault.empty() && !complete) observed.fault = "the answer has no tokens";
  const bool cut = !complete && stopping_;
  refused_in_a_row_ = observed.connected ? 0 : refused_in_a_row_ + 1;
  if (complete) ++ended_;
  else if (!cut) ++faults_[observed.fault];
  if (lines_) {
    JsonWriter json(0);
    json.BeginObject().Field("request", call).Field("arrival_s", At(observed.sent));
    json.Field("prompt_tokens", observed.prompt_tokens).Field("output_tokens", observed.output_tokens);
    json.Key("chunks_s").BeginArray();
    for (const Clock::time_point time : observed.chunks) json.Value(At(time));
    json.EndArray().Field("end_s", At(observed.end));
    json.Field("outcome", complete ? "completed" : cut ? "cut" : "failed");
    if (!complete) json.Field("fault", cut ? "interrupted" : observed.fault);
    lines_->Write(json.EndObject().Take() + "\n");
  }
  // A cut request stays pending.
  if (!cut) {
    const Duration end = (observed.chunks.empty() ? observed.end : observed.chunks.back()) - start_;
    progress_.End(call, complete ? Outcome::kCompleted : Outcome::kFailed, FailReason::kHost, TimePoint(end),
                  [&](std::uint32_t c) { due_.push({end + workload_.calls[c].delay, c}); });
  }
  observed_[call] = std::move(observed);
  in_flight_.erase(call);
  changed_.notify_all();
}

// Cuts a prefix that is longer than its prompt to whole blocks of the prompt. Returns false if it fits.
bool CutPrefix(Workload& workload, WorkloadCall& call) {
  const std::int32_t block = workload.prefix_block_tokens;
  std::int64_t blocks = call.hashes;
  for (const PrefixRun& run : workload.runs_of(call)) blocks += run.count;
  if (blocks == 0 || (blocks - 1) * block < call.prompt_tokens) return false;
  auto left = static_cast<std::uint32_t>(call.prompt_tokens / block);
  call.hashes = std::min(call.hashes, left);
  const std::uint32_t first = std::exchange(call.first_run, static_cast<std::uint32_t>(workload.prefix_runs.size()));
  const std::uint32_t end = first + std::exchange(call.runs, 0);
  for (std::uint32_t i = first; i < end && left > 0; ++i, ++call.runs) {
    PrefixRun run = workload.prefix_runs[i];
    run.count = std::min(run.count, left);
    left -= run.count;
    workload.prefix_runs.push_back(run);
  }
  return true;
}

Workload Observation::Seen(ReplayResult& result, std::int64_t& cut) const {
  Workload seen = workload_;
  seen.workflows.clear(), seen.calls.clear();
  // The server is one model.
  seen.models.clear(), seen.model_tokens.clear(), seen.feature_names.clear(), seen.features.clear();
  struct Begun {
    TimePoint arrival;
    std::uint32_t workflow;
  };
  std::vector<Begun> begun;
  for (std::uint32_t w = 0; w < workload_.workflows.size(); ++w) {
    const WorkloadWorkflow& workflow = workload_.workflows[w];
    TimePoint first = kNever;
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      if (observed_[c].sent != Clock::time_point{})
        first = std::min(first, records_[c].arrival - workload_.calls[c].delay);
    }
    if (first != kNever) begun.push_back({first, w});
  }
  std::ranges::stable_sort(begun, {}, &Begun::arrival);
  const Duration zero = begun.empty() ? Duration(0) : begun.front().arrival.time_since_epoch();
  for (const auto& [arrival, w] : begun) {
    WorkloadWorkflow workflow = workload_.workflows[w];
    const std::uint32_t first = std::exchange(workflow.first_call, static_cast<std::uint32_t>(seen.calls.size()));
    workflow.arrival = arrival - zero;
    workflow.solved_by = 0;
    for (std::uint32_t c = first; c < first + workflow.calls; ++c) {
      WorkloadCall call = workload_.calls[c];
      call.tools = 0;
      RequestRecord record = records_[c];
      if (observed_[c].sent != Clock::time_point{}) {
        // The answer of a failed or cut request had at least the tokens that came.
        const bool completed = record.outcome == Outcome::kCompleted;
        call.output_tokens = completed ? record.output_tokens : std::max(call.output_tokens, record.output_tokens);
        call.output_tokens = std::min(call.output_tokens, kMaxContextTokens - 1);
        call.prompt_tokens = static_cast<std::int32_t>(
            std::min<std::int64_t>(observed_[c].prompt_tokens, kMaxContextTokens - call.output_tokens));
        cut += CutPrefix(seen, call) ? 1 : 0;
      }
      record.workflow = static_cast<std::uint32_t>(seen.workflows.size());
      for (TimePoint* time : {&record.arrival, &record.first_step, &record.first_token, &record.end}) {
        if (*time != kNever) *time -= zero;
      }
      result.requests.push_back(record);
      seen.calls.push_back(call);
    }
    WorkflowRecord record = progress_.workflows()[w];
    record.arrival = workflow.arrival;
    if (record.end != kNever) record.end -= zero;
    result.workflows.push_back(record);
    seen.workflows.push_back(workflow);
  }
  return seen;
}

std::vector<ClientTimes> Observation::Times() const {
  std::vector<ClientTimes> times;
  for (const ObservedRequest& observed : observed_) {
    if (observed.chunks.empty()) continue;
    ClientTimes& request = times.emplace_back();
    request.sent = At(observed.sent);
    request.prompt_tokens = observed.prompt_tokens, request.output_tokens = observed.output_tokens;
    for (const Clock::time_point time : observed.chunks) request.chunks.push_back(At(time));
  }
  return times;
}

// Returns the URL without a trailing /v1; empty: it is invalid.
std::string ServerOf(std::string_view url) {
  for (const std::string_view end : {"/", "/v1"}) {
    if (url.ends_with(end)) url.remove_suffix(end.size());
  }
  const std::size_t scheme = url.starts_with("http://") ? 7 : url.starts_with("https://") ? 8 : url.size();
  const std::size_t colon = url.rfind(':');
  if (colon == url.npos || colon <= scheme) return "";
  std::string_view host = url.substr(scheme, colon - scheme);
  const std::string_view port = url.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  else if (host.find(':') != host.npos) return "";
  if (host.empty() || host.size() > 255 || host.find_first_of("/?#@[] ") != host.npos) return "";
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != port.npos) return "";
  const int number = std::atoi(std::string(port).c_str());
  return number >= 1 && number <= 65535 ? std::string(url) : "";
}

absl::Status CheckUsage(const ObserveArguments& arguments) {
  if (ServerOf(arguments.url).empty()) {
    return absl::InvalidArgumentError("URL: " + arguments.url + " is invalid; expected http://HOST:PORT");
  }
  if (arguments.last_token_id < arguments.first_token_id) {
    return absl::InvalidArgumentError("--last-token-id: is below --first-token-id");
  }
  std::vector<NamedPath> outputs = ReportPaths(arguments);
  outputs.push_back({"--trace", arguments.trace});
  outputs.push_back({"--requests", arguments.requests});
  outputs.push_back({"--steps", arguments.steps});
  const NamedPath input{"--workload", arguments.workload.file};
  return CheckPaths(std::span(&input, 1), outputs);
}

absl::StatusOr<std::optional<OutputFile>> OpenNamed(const std::string& path, OutputFile::Mode mode) {
  if (path.empty()) return std::nullopt;
  absl::StatusOr<OutputFile> file = OutputFile::Open(path, mode);
  if (!file.ok()) return file.status();
  return std::optional<OutputFile>(*std::move(file));
}

// Returns what is missing from the run; empty: nothing.
std::string Shortfall(const Observation& seen, std::size_t calls) {
  if (seen.ended() == static_cast<std::int64_t>(calls)) return "";
  std::string text = fmt::format("partial: {} of {} were sent, and {} were answered completely", seen.begun(),
                                 Counted(static_cast<long long>(calls), "request"), seen.ended());
  if (Interrupted()) text += "; interrupted";
  if (seen.gave_up()) text += "; the server refuses connections";
  return text;
}

int RunObserve(const ObserveArguments& arguments) {
  const auto fail = [](const absl::Status& status, int code) { return Complain("observe", status, code); };
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return fail(usage, kUsage);
  absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return fail(workload.status(), kFailed);
  for (WorkloadCall& call : workload->calls) call.tools = 0;
  absl::StatusOr<std::vector<OutputFile>> reports = OpenReports(arguments);
  if (!reports.ok()) return fail(reports.status(), kFailed);
  auto lines = OpenNamed(arguments.requests, OutputFile::Mode::kGrowing);
  auto steps = OpenNamed(arguments.steps, OutputFile::Mode::kWhole);
  for (const absl::Status& status : {lines.status(), steps.status()}) {
    if (!status.ok()) return fail(status, kFailed);
  }

  CatchInterrupts();
  ProgressBar bar(!arguments.quiet);
  Observation observation(arguments, ServerOf(arguments.url), *workload, *lines);
  const auto begin = Clock::now();
  observation.Run(bar);
  bar.Clear();

  const std::string shortfall = Shortfall(observation, workload->calls.size());
  Comparison comparison;
  ReplayResult result;
  std::int64_t cut = 0;
  comparison.workload = observation.Seen(result, cut);
  if (!shortfall.empty()) comparison.workload.name += " (" + shortfall + ")";
  absl::Status written;
  if (!arguments.trace.empty() && !comparison.workload.calls.empty()) {
    written.Update(SaveWorkload(comparison.workload, arguments.trace));
  }
  if (*steps) {
    (*steps)->Write(ObservedSteps(observation.Times(), arguments.token_budget));
    written.Update((*steps)->Close());
  }
  if (*lines) written.Update((*lines)->Close());
  comparison.setup = arguments;
  comparison.setup.rate_scale = 1;  // the trace has the times as sent
  comparison.source = arguments.trace.empty() ? arguments.workload.file : arguments.trace;
  comparison.profile.id = arguments.url;
  comparison.profile.kv_capacity_tokens = arguments.kv_tokens;
  comparison.interrupted = Interrupted();
  Run& run = comparison.runs.emplace_back();
  run.settings.policy = arguments.policy;
  result.stopped = comparison.interrupted;
  result.metrics = Summarize(result.requests, result.workflows, {},
                             {FromSeconds(arguments.slo_ttft), FromSeconds(arguments.slo_tpot)});
  Keep(comparison, std::move(result), true, run);
  run.metrics.kv_mean = run.metrics.kv_peak = std::numeric_limits<double>::quiet_NaN();  // a client cannot see it
  comparison.wall_s = run.wall_s = std::chrono::duration<double>(Clock::now() - begin).count();
  written.Update(WriteReports(comparison, arguments, *reports));
  Note(fmt::format("takt observe: the latest request was sent {:.1f} ms late", observation.latest() * 1e3));
  for (const auto& [fault, count] : observation.faults()) {
    Note(fmt::format("takt observe: {}: {}", Counted(static_cast<long long>(count), "request"), fault));
  }
  if (cut > 0) {
    Note(fmt::format("takt observe: {}: a prefix longer than the server's prompt, cut in the trace",
                     Counted(static_cast<long long>(cut), "request")));
  }
  if (!shortfall.empty()) Note("takt observe: " + shortfall);
  if (!written.ok()) return fail(written, kFailed);
  return Interrupted() ? kInterrupted : shortfall.empty() ? kDone : kFailed;
}

}  // namespace

void AddObserve(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(tool, chosen, "observe",
                                    "send a workload to an OpenAI-compatible server and record what its clients see",
                                    RunObserve, kObserveExamples);
  Group server(app, "Server");
  server.Add("url", to.url, "URL", "send requests to this server: http://HOST:PORT").Required();
  server.Add("--model", to.model, "NAME", "ask for this model [the server's own]");
  server.Add("--api", to.api, "NAME", "use completions, with exact prompts, or chat", OneOf({"completions", "chat"}));
  server.Add("--key-variable", to.key_variable, "NAME", "take the API key from this environment variable");
  server.Add("--timeout", to.timeout, "S", "give up a request after S seconds without data", Positive());
  server.Add("--connections", to.connections, "N", "keep at most N requests in flight", Whole(1, 1 << 14));
  server.Add("--first-token-id", to.first_token_id, "N", "draw the prompts' tokens from N ...", Whole(0, 1 << 20));
  server.Add("--last-token-id", to.last_token_id, "N", "... to N", Whole(0, 1 << 20));
  server.Add("--policy", to.policy, "NAME", "name the server's order, for reports");
  server.Add("--token-budget", to.token_budget, "N", "assume a step of the server has at most N tokens", Whole(1));
  Group workload(app, "Workload");
  workload.Add("--workload", to.workload.file, "FILE", "send a trace, 'bundled', or a generator");
  AddWorkloadSource(workload, to.workload);
  workload.Add("--rate-scale", to.rate_scale, "X", "multiply the rate of arrivals by X", Positive());
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--trace", to.trace, "FILE", "write a workload of what was sent and answered, for takt replay");
  output.Add("--requests", to.requests, "FILE", "write a line per ended request with the times of its chunks");
  output.Add("--steps", to.steps, "FILE", "write the server's steps as its clients saw them, for takt calibrate");
  AddReports(output, to, to);
}

}  // namespace takt::tool
