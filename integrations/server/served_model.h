// An engine's interface to a model: memory for keys and values, and the computation of a step. tiny_engine and
// llama_host implement it.
#ifndef TAKT_INTEGRATIONS_SERVER_SERVED_MODEL_H_
#define TAKT_INTEGRATIONS_SERVER_SERVED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "takt/kv/kv_oracle.h"
#include "text.h"

namespace serving {

struct EngineOptions;
class SimulatedTime;

// The most likely next token (among equals the first), and its logit.
struct Sample {
  std::int32_t token = 0;
  float logit = 0;

  friend bool operator==(const Sample&, const Sample&) = default;
};

enum class Computed : std::uint8_t {
  kDone,
  kNothing,  // no row was computed and nothing changed; a retry may succeed
  kBroken,  // no row was computed, and a retry would fail, too
};

// The memory and the computation of one engine. Only the engine's thread calls it. Run may be called on another thread,
// concurrently with all functions except Begin, Add and samples.
class ComputedKv {
 public:
  virtual ~ComputedKv() = default;

  virtual takt::KvOracle* oracle() = 0;  // null: only KvMode::kLedger is supported

  // Called before a request is passed to the scheduler; may set its prefix hashes, which stay valid until the next such
  // call.
  virtual void Arrive(takt::Request& about, std::span<const std::int32_t> prompt) = 0;
  // The leading `computed` tokens of this context have their keys and values.
  virtual void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed) = 0;
  // Moves of a plan: the first `count` blocks to host memory, and all of them back. Returns false if the copy is lost.
  virtual bool CopyOut(takt::RequestId request, takt::Blocks count) = 0;
  virtual bool CopyIn(takt::RequestId request) = 0;
  // Forgets a request.
  virtual void Forget(takt::RequestId request) = 0;

  // Calls for KvMode::kLedger. Room: reserve blocks for `tokens`, of which the first `cached` are in the prefix cache.
  // Free: the request was preempted. Drop: the scheduler reuses a cached block for other content.
  virtual void Room(takt::RequestId, std::span<const std::int32_t> /*prompt*/, std::int32_t /*cached*/,
                    std::int32_t /*tokens*/) {}
  virtual void Free(takt::RequestId) {}
  virtual void Drop(std::uint64_t /*hash*/) {}

  // A step: Begin, Add for each entry, then Run. Afterwards there is a sample for each entry that samples, in order,
  // until the next Begin.
  virtual void Begin(const takt::StepPlan& plan) = 0;
  virtual void Add(const takt::PlanEntry& entry, std::span<const std::int32_t> context) = 0;
  virtual Computed Run() = 0;
  virtual std::span<const Sample> samples() const = 0;
};

class ServedModel {
 public:
  ServedModel() = default;
  ServedModel(const ServedModel&) = default;
  ServedModel& operator=(const ServedModel&) = default;
  virtual ~ServedModel() = default;

  virtual std::string name() const = 0;
  virtual double parameters() const = 0;  // 0: unknown
  virtual std::size_t vocab() const = 0;
  virtual std::size_t max_context() const = 0;  // maximum of prompt and output of a request [tokens]
  virtual const Vocabulary* text() const = 0;  // null: no text
  virtual bool filler() const { return false; }  // see ApiLimits

  // Sets the options that this model prescribes, before they are checked.
  virtual void Prescribe(EngineOptions&) const {}
  // The time of an engine whose steps are simulated; null: steps compute, in real time.
  virtual SimulatedTime* time() const { return nullptr; }

  // Creates the memory for an engine with these valid options. InvalidArgument names an unsupported option. The model
  // must outlive it.
  virtual absl::StatusOr<std::unique_ptr<ComputedKv>> Open(const EngineOptions& options) const = 0;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SERVED_MODEL_H_
