// The time of one iteration of an engine, from about twelve calibrated coefficients.
//
//   SP(x, n)  = x0 + (x1^x3 + (x2 n)^x3)^(1/x3)      smooth maximum of reading the weights and computing
//   layer     = SP(gemm, n) + [Q > 0] (p0 + p1 Q + p2 W) + [B > 0] (d0 + d1 B + d2 S) + [tp > 1] 2 AR(2 n hidden)
//   step      = layers/pp layer + SP(head, samples) + o0 + o1 samples + [pp > 1] SR(2 n hidden)
//
// In a mixture of experts, x1 is x1 + e0 (1 - (1 - e1)^n). A step of n tokens reads the share in parentheses of the
// routed experts, and e0 is the time to read all of them. If tokens prefer some experts, e1 is smaller than the share
// that a token uses.
//
// All times are in milliseconds, and n = Q + B. AR is the time of an all-reduce. SR is the time of a transfer between
// pipeline stages. Both are linear between measured points in bytes (bf16 activations). In a mixed step, prefill
// attention and decode attention add up, as in Vidur (Agrawal et al., MLSys 2024). The model does not cover speculative
// heads, LoRA and uneven routing to experts. A fit to served runs has another form:
//
//     step = a0 + aB B + aS S + aQ Q + o0 + o1 samples
#ifndef TAKT_MODEL_COST_MODEL_H_
#define TAKT_MODEL_COST_MODEL_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/time.h"

namespace takt {

// The work of one iteration. All sums are exact, so the order of additions does not matter.
struct StepLoad {
  std::int64_t prefill_tokens = 0;  // Q
  double prefill_work = 0;  // W: sum over prefill chunks of q (context before the chunk + q/2) [tokens^2]
  std::int64_t decodes = 0;  // B: sequences that decode one token each
  std::int64_t decode_context = 0;  // S: sum of the contexts of those sequences [tokens]
  std::int64_t samples = 0;  // sequences that sample a token: each decode and each finished prefill

  constexpr std::int64_t tokens() const { return prefill_tokens + decodes; }

  // Adds a prefill chunk of q tokens that follows `context` computed tokens. A decode that verifies k draft tokens is a
  // chunk of k + 1 tokens.
  constexpr void AddPrefill(std::int64_t q, std::int64_t context, bool finishes) {
    prefill_tokens += q;
    prefill_work +=
        Rounded(static_cast<double>(q) * (static_cast<double>(context) + Rounded(static_cast<double>(q) / 2)));
    samples += finishes ? 1 : 0;
  }

  constexpr void AddDecode(std::int64_t context) {
    ++decodes;
    decode_context += context;
    ++samples;
  }

  friend constexpr bool operator==(const StepLoad&, const StepLoad&) = default;
};

// The function SP above: about `floor_ms` for small n and `slope_ms` * n for large n. `sharpness` sets the bend between
// them: 1 gives the sum of both, infinity their maximum.
struct SoftFloor {
  double offset_ms = 0;
  double floor_ms = 0;
  double slope_ms = 0;  // per unit of n
  double sharpness = 1;

  double At(double n) const {
    const double line = slope_ms * n;
    const double large = floor_ms > line ? floor_ms : line;
    if (!(large > 0)) return offset_ms;
    const double small = floor_ms > line ? line : floor_ms;
    return offset_ms + Rounded(large * exact::Pow(1 + exact::Pow(small / large, sharpness), 1 / sharpness));
  }
};

// Transfer time, linear between points in ascending order of bytes. Before the first point the time is constant. After
// the last point the last segment continues.
struct TransferCurve {
  struct Point {
    double bytes = 0;
    double ms = 0;
    friend constexpr bool operator==(const Point&, const Point&) = default;
  };
  std::vector<Point> points;

  double At(double bytes) const {
    if (points.empty()) return 0;
    if (points.size() == 1 || !(bytes > points.front().bytes)) return points.front().ms;
    std::size_t i = 1;
    while (i + 1 < points.size() && bytes >= points[i].bytes) ++i;
    const Point& a = points[i - 1];
    const Point& b = points[i];
    return a.ms + Rounded(b.ms - a.ms) * (bytes - a.bytes) / (b.bytes - a.bytes);
  }

  friend bool operator==(const TransferCurve&, const TransferCurve&) = default;
};

struct CostModel {
  // Attention time of one layer: constant + per_token (Q or B) + per_context (W or S).
  struct Attention {
    double constant_ms = 0;
    double per_token_ms = 0;
    double per_context_ms = 0;
  };
  // Routed experts of a layer of a mixture of experts.
  struct Experts {
    double read_ms = 0;  // e0: time to read the weights of all routed experts of a layer
    double share = 0;  // e1: share of the experts that one more token reads, 0 to 1
  };
  // A linear fit to served runs, which includes the overhead of the serving framework.
  struct Served {
    double constant_ms = 0;  // a0
    double per_decode_ms = 0;  // aB, per decoding sequence
    double per_context_ms = 0;  // aS, per token of decode context
    double per_prefill_ms = 0;  // aQ, per prefill token
  };

  std::int32_t layers = 1;
  std::int32_t hidden = 0;  // hidden size of the model
  std::int32_t tp = 1;  // tensor parallelism: GPUs per stage
  std::int32_t pp = 1;  // pipeline parallelism: number of stages

  SoftFloor gemm = {};  // time of a layer's projections, MLP and norms, as a function of n
  Experts experts = {};  // added to the floor of gemm; default: a dense model
  Attention prefill = {};
  Attention decode = {};
  SoftFloor head = {};  // time per iteration of the LM head, as a function of the samples
  TransferCurve all_reduce = {};
  TransferCurve send_recv = {};

  double overhead_ms = 0;  // o0: time of scheduling and kernel launch per iteration
  double overhead_per_sample_ms = 0;  // o1: additional time per sequence that samples a token

  std::optional<Served> served = {};  // if set, replaces all fields above except the two overheads

  double kv_bytes_per_token = 0;  // KV bytes of one token, over all GPUs of the replica
  double host_link_gb_s = 25;  // bandwidth to host memory per GPU and direction [1e9 bytes/s]; default: PCIe 4.0 x16

  std::int32_t gpus() const { return tp * pp; }

  // Returns the time of one iteration, or zero for an empty load. With pp > 1 this is the time of the slowest (last)
  // stage, which sets the pace of a full pipeline.
  Duration StepTime(const StepLoad& load) const {
    if (load.tokens() <= 0) return Duration::zero();
    return Total(load, TokenMs(load.tokens()), SampleMs(load.samples));
  }

  // Returns the time from the start of a step until its tokens are available, over all pp stages. A full pipeline has
  // pp steps in flight.
  Duration StepLatency(const StepLoad& load) const { return Times(StepTime(load), pp); }

  // Returns T_fwd of InferCept and LAMPS: the time of a step with a single chunk of `query_tokens` after `context`.
  Duration ForwardTime(std::int64_t query_tokens, std::int64_t context = 0) const {
    StepLoad load;
    load.AddPrefill(query_tokens, context, true);
    return StepTime(load);
  }

  // Returns T_swap of InferCept and LAMPS: the time of one direction over the host links of all GPUs.
  Duration SwapTime(std::int64_t tokens) const {
    const double bytes = static_cast<double>(tokens) * kv_bytes_per_token;
    return FromSeconds(bytes / (host_link_gb_s * 1e9 * gpus()));
  }

  // Returns the number of tokens above which an iteration is limited by compute; 0 if the slope is 0.
  double SaturationTokens() const {
    const double floor = served ? served->constant_ms : gemm.floor_ms + experts.read_ms;
    const double slope = served ? served->per_prefill_ms : gemm.slope_ms;
    return slope > 0 ? floor / slope : 0;
  }

  // Lists each invalid field with its value; empty if all fields are valid.
  std::string Faults() const;

 private:
  friend class PreparedCostModel;

  // Returns the part of a step's time that depends only on n. PreparedCostModel tabulates this function and the next.
  double TokenMs(std::int64_t n) const {
    if (served) return served->constant_ms;
    const double tokens = static_cast<double>(n);
    const double bytes = Rounded(tokens * hidden * 2);
    SoftFloor floor = gemm;
    if (experts.read_ms > 0) {
      floor.floor_ms += Rounded(experts.read_ms * (1 - exact::Pow(1 - experts.share, tokens)));
    }
    const double layer = floor.At(tokens) + (tp > 1 ? Rounded(2 * all_reduce.At(bytes)) : 0);
    return Rounded(stage_layers() * layer) + (pp > 1 ? send_recv.At(bytes) : 0);
  }
  double SampleMs(std::int64_t samples) const {
    const double seqs = static_cast<double>(samples);
    return overhead_ms + Rounded(overhead_per_sample_ms * seqs) + (served ? 0 : head.At(seqs));
  }
  double ContextMs(const StepLoad& load) const {
    const double q = static_cast<double>(load.prefill_tokens);
    const double b = static_cast<double>(load.decodes);
    const double s = static_cast<double>(load.decode_context);
    if (served) {
      return Rounded(served->per_decode_ms * b) + Rounded(served->per_context_ms * s) +
             Rounded(served->per_prefill_ms * q);
    }
    double layer = 0;
    if (load.prefill_tokens > 0) {
      layer +=
          prefill.constant_ms + Rounded(prefill.per_token_ms * q) + Rounded(prefill.per_context_ms * load.prefill_work);
    }
    if (load.decodes > 0) {
      layer += decode.constant_ms + Rounded(decode.per_token_ms * b) + Rounded(decode.per_context_ms * s);
    }
    return Rounded(stage_layers() * layer);
  }
  Duration Total(const StepLoad& load, double token_ms, double sample_ms) const {
    return FromSeconds((token_ms + ContextMs(load) + sample_ms) * 1e-3);
  }
  double stage_layers() const { return static_cast<double>(layers) / pp; }
};

// A CostModel with tables of its powers and curves. The time of a step takes about ten floating-point operations.
// Results are bit-identical to those of CostModel. Loads beyond the tables are computed directly.
class PreparedCostModel {
 public:
  explicit PreparedCostModel(CostModel model, std::int64_t max_tokens = 8192, std::int64_t max_samples = 1024)
      : model_(std::move(model)) {
    for (std::int64_t n = 0; n <= max_tokens; ++n) token_ms_.push_back(model_.TokenMs(n));
    for (std::int64_t n = 0; n <= max_samples; ++n) sample_ms_.push_back(model_.SampleMs(n));
  }

  const CostModel& model() const { return model_; }

  Duration StepTime(const StepLoad& load) const {
    const std::int64_t n = load.tokens();
    if (n <= 0) return Duration::zero();
    const auto token = static_cast<std::size_t>(n);
    const auto sample = static_cast<std::size_t>(load.samples);
    return model_.Total(load, token < token_ms_.size() ? token_ms_[token] : model_.TokenMs(n),
                        sample < sample_ms_.size() ? sample_ms_[sample] : model_.SampleMs(load.samples));
  }

  Duration StepLatency(const StepLoad& load) const { return Times(StepTime(load), model_.pp); }

 private:
  CostModel model_;
  std::vector<double> token_ms_;  // indexed by n
  std::vector<double> sample_ms_;  // indexed by samples
};

namespace internal {

// Collects an error for each value that is not finite or is below its minimum.
class CostFaults {
 public:
  void AtLeast(std::string_view field, double value, double least) {
    if (value >= least && value < 1e300) return;
    if (!text_.empty()) text_ += "; ";
    text_.append(field).append(" is ").append(Text(value)).append(", must be finite and at least ").append(Text(least));
  }
  void Check(const std::string& name, const SoftFloor& f) {
    AtLeast(name + ".offset_ms", f.offset_ms, 0);
    AtLeast(name + ".floor_ms", f.floor_ms, 0);
    AtLeast(name + ".slope_ms", f.slope_ms, 0);
    AtLeast(name + ".sharpness", f.sharpness, 1);
  }
  void Check(const std::string& name, const CostModel::Attention& a) {
    AtLeast(name + ".constant_ms", a.constant_ms, 0);
    AtLeast(name + ".per_token_ms", a.per_token_ms, 0);
    AtLeast(name + ".per_context_ms", a.per_context_ms, 0);
  }
  void Check(const std::string& name, const TransferCurve& curve) {
    double least = 0;
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      const std::string point = name + ".points[" + std::to_string(i) + "]";
      AtLeast(point + ".bytes", curve.points[i].bytes, least);
      AtLeast(point + ".ms", curve.points[i].ms, 0);
      least = curve.points[i].bytes + 1;
    }
  }
  void NotEmpty(const std::string& name, const TransferCurve& curve) {
    AtLeast("size of " + name + ".points", static_cast<double>(curve.points.size()), 1);
  }
  std::string Take() { return std::move(text_); }

 private:
  static std::string Text(double value) {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
  }
  std::string text_;
};

}  // namespace internal

inline std::string CostModel::Faults() const {
  internal::CostFaults faults;
  faults.AtLeast("tp", tp, 1);
  faults.AtLeast("pp", pp, 1);
  faults.AtLeast("overhead_ms", overhead_ms, 0);
  faults.AtLeast("overhead_per_sample_ms", overhead_per_sample_ms, 0);
  faults.AtLeast("kv_bytes_per_token", kv_bytes_per_token, 0);
  faults.AtLeast("host_link_gb_s", host_link_gb_s, 1e-9);
  if (served) {
    faults.AtLeast("served.constant_ms", served->constant_ms, 0);
    faults.AtLeast("served.per_decode_ms", served->per_decode_ms, 0);
    faults.AtLeast("served.per_context_ms", served->per_context_ms, 0);
    faults.AtLeast("served.per_prefill_ms", served->per_prefill_ms, 0);
    return faults.Take();
  }
  faults.AtLeast("layers", layers, 1);
  faults.AtLeast("hidden", hidden, 1);
  faults.Check("gemm", gemm);
  faults.AtLeast("experts.read_ms", experts.read_ms, 0);
  faults.AtLeast("experts.share", experts.share, 0);
  faults.AtLeast("1 - experts.share", 1 - experts.share, 0);
  faults.Check("prefill", prefill);
  faults.Check("decode", decode);
  faults.Check("head", head);
  faults.Check("all_reduce", all_reduce);
  faults.Check("send_recv", send_recv);
  if (tp > 1) faults.NotEmpty("all_reduce", all_reduce);
  if (pp > 1) faults.NotEmpty("send_recv", send_recv);
  return faults.Take();
}

}  // namespace takt

#endif  // TAKT_MODEL_COST_MODEL_H_
