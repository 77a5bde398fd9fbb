// What an engine needs of a model: memory for keys and values, and the arithmetic of a step. tiny_engine has one of its
// own, llama_host has libllama's.
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

// The most likely next token, the first of equals, and its logit.
struct Sample {
  std::int32_t token = 0;
  float logit = 0;

  friend bool operator==(const Sample&, const Sample&) = default;
};

enum class Computed : std::uint8_t {
  kDone,
  kNothing,  // no row was computed, and each is as it was before the step: it can be tried again
  kBroken,  // likewise, and it makes no sense to try again
};

// The memory and the arithmetic of one engine. Its thread calls; Run may be called on another one, at the same time as
// all but Begin, Add and samples.
class ComputedKv {
 public:
  virtual ~ComputedKv() = default;

  virtual takt::KvOracle& oracle() = 0;

  // A request that the scheduler will be told of next: its prefix hashes may be set here, until the next such call.
  virtual void Arrive(takt::Request& about, std::span<const std::int32_t> prompt) = 0;
  // The leading `computed` tokens of this context have their keys and values.
  virtual void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed) = 0;
  // A plan's moves: the first `count` blocks to the host's memory, and all of them back. False: the copy is lost.
  virtual bool CopyOut(takt::RequestId request, takt::Blocks count) = 0;
  virtual bool CopyIn(takt::RequestId request) = 0;
  // The request is gone.
  virtual void Forget(takt::RequestId request) = 0;

  // Where the scheduler counts (kLedger): room for so many tokens, the first `cached` of which lie in the prefix cache;
  // its place is lost; a block of the cache is wanted for something else.
  virtual void Room(takt::RequestId, std::span<const std::int32_t> /*prompt*/, std::int32_t /*cached*/,
                    std::int32_t /*tokens*/) {}
  virtual void Free(takt::RequestId) {}
  virtual void Drop(std::uint64_t /*hash*/) {}

  // A step: what it computes, entry by entry, then all at once. There is a sample for each entry that samples, in
  // order, until the next Begin.
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
  virtual double parameters() const = 0;
  virtual std::size_t vocab() const = 0;
  virtual std::size_t max_context() const = 0;  // prompt and output of a request [tokens]
  virtual const Vocabulary* text() const = 0;  // null: it speaks none

  // For an engine with these options, which are valid. InvalidArgument names what it cannot do. The model must outlive
  // it.
  virtual absl::StatusOr<std::unique_ptr<ComputedKv>> Open(const EngineOptions& options) const = 0;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SERVED_MODEL_H_
