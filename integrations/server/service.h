// Runs the engine on its own thread. Other threads pass it requests through an inbox, and wait for replies.
#ifndef TAKT_INTEGRATIONS_SERVER_SERVICE_H_
#define TAKT_INTEGRATIONS_SERVER_SERVICE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine.h"
#include "remembered.h"
#include "simulated_time.h"
#include "takt/inbox.h"
#include "takt/metrics/metrics_text.h"
#include "takt/metrics/request_metrics.h"

namespace serving {

// Results of one request, from the engine's thread to the waiting thread.
class Reply {
 public:
  struct News {
    std::vector<std::int32_t> tokens;  // since the last call
    End end = End::kNotYet;            // nothing follows an end
    takt::FailReason reason = {};      // for kFailed
    std::uint32_t retry_after_ms = 0;  // for kFailed: see takt::Failure
  };

  // Waits until there are results, or for at most this long.
  News Wait(std::chrono::milliseconds most);

  void Hear(const Output& output);  // called by the engine's thread

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  News news_;
};

// Learns the mean work that follows a request in its workflow, by agent and position, from workflows whose last request
// is marked.
class Followers {
 public:
  // Records the begin of a request. Sets its workflow's arrival and, if known, the work that follows.
  void Begin(takt::Request& request, bool last);
  // Records the end of a request with this output.
  void End(const takt::Request& request, std::int32_t output_tokens, bool last);

 private:
  static constexpr double kEnough = 4;  // workflows needed for an estimate
  static constexpr std::size_t kLongest = 64;  // distinguished calls of a workflow

  struct Call {
    std::uint64_t agent = 0;
    std::size_t place = 0;
    double prompt = 0, output = 0;
  };
  struct Workflow {
    takt::TimePoint arrival = {};
    std::size_t begun = 0;
    std::vector<Call> ended = {};
  };
  struct Class {
    double weight = 0;
    takt::WorkAfter sum = {.calls = 0, .prompt_tokens = 0, .output_tokens = 0, .kv_steps = 0, .path_tokens = 0};
  };
  static constexpr std::size_t kAnyPlace = kLongest + 1;

  Remembered<Workflow> workflows_;
  Remembered<Class> classes_;  // by agent and position
};

// Figures of the engine between two steps.
struct ServiceReport {
  takt::SchedulerFigures scheduler;
  takt::RequestFigures requests;
  EngineCounters counters;
};

class Service {
 public:
  // Sets the options' clock, output and observer. The model must outlive the service.
  static absl::StatusOr<std::unique_ptr<Service>> Start(const ServedModel& model, EngineOptions options);
  ~Service();  // cuts off the rest

  // ---- from any thread ----
  struct Ticket {
    takt::RequestId id;
    std::shared_ptr<Reply> reply;
  };
  // Sets the request's id and arrival. Every reply ends.
  Ticket Submit(EngineRequest request);
  void Cancel(takt::RequestId id);
  // Returns nothing if the engine is gone or does not answer in time.
  std::optional<ServiceReport> Report(std::chrono::milliseconds most);

  // Fails new requests from now on, and waits until all others have ended. After `patience` cancels the rest. Returns
  // their number. Ends the engine's thread.
  std::int64_t Drain(std::chrono::nanoseconds patience);

 private:
  struct Arrival {
    EngineRequest request;
    std::shared_ptr<Reply> reply;
  };
  struct Cancelling {
    takt::RequestId request;
  };
  struct Draining {
    takt::TimePoint until;
  };
  using Ask = std::shared_ptr<std::promise<ServiceReport>>;
  using Command = std::variant<Arrival, Cancelling, Ask, Draining>;

  struct Living {
    std::shared_ptr<Reply> reply;
    takt::Request about;
    bool last = false;
    std::int32_t output_tokens = 0;
    takt::TimePoint first_token = takt::kNever;
  };

  takt::TimePoint Now() const { return takt::TimePoint(std::chrono::steady_clock::now() - start_); }
  takt::TimePoint EngineTime() const { return time_ != nullptr ? time_->now() : Now(); }
  bool Push(Command command);  // false: the loop has ended

  // ---- the engine's thread ----
  void Run();
  void SleepUntil(takt::TimePoint wake);
  void Take(Command& command);
  void DoDue();
  void Do(Arrival& arrival);
  void Do(const Cancelling& cancelling) { engine_->Cancel(cancelling.request); }
  void Do(const Ask& ask);
  void Do(const Draining& draining);
  void Describe(EngineRequest& request);
  void Hear(const Output& output);
  void CutAll();

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> last_id_ = 0;
  takt::BasicInbox<Command> inbox_;
  std::mutex mutex_;  // guards the next three fields
  std::condition_variable changed_;
  bool pushed_ = false;  // since the loop went to sleep
  bool closed_ = false;  // the loop has ended

  // The engine's thread's own:
  std::unique_ptr<takt::RequestMetrics> metrics_;
  std::unique_ptr<Engine> engine_;
  std::unordered_map<takt::RequestId, Living> living_;
  struct Mean {
    double sum = 0, count = 0;
  };
  Remembered<Mean> outputs_;  // output lengths by agent
  Followers followers_;
  SimulatedTime* time_ = nullptr;  // the model's; null: none
  std::multimap<takt::TimePoint, Arrival> later_;  // with simulated time: what has come, by when the engine has it
  std::optional<takt::TimePoint> drain_until_;
  std::int64_t cut_ = 0;

  std::thread thread_;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SERVICE_H_
