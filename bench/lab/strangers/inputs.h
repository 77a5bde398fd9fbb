// Workloads for which the default order was not made, each drawn from a seed.
#ifndef TAKT_BENCH_LAB_STRANGERS_INPUTS_H_
#define TAKT_BENCH_LAB_STRANGERS_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/workload/workload.h"

namespace takt::tool {

struct Stranger {
  std::string_view name;
  bool found = false;  // used to choose constants; the other workloads judge them
  std::string_view data = {};  // relative to the data folder; empty: no file needed
  std::string_view profile = "aic/llama-3.1-8b/h100/bf16/tp1";
  std::int32_t instances = 1;
  std::int32_t step_tokens = 512;
  bool prefix_cache = false;
  std::int64_t in_flight = 0;  // > 0: a closed loop of this many workflows, whatever the load
  double calls = 3000;  // approximate, in a run of ordinary length
};

// Loads refer to the mean rate; bursts exceed it.
inline constexpr Stranger kStrangers[] = {
    {.name = "conversations", .found = true, .data = "traces/azure_llm_2023_conv.csv.gz"},
    {.name = "code", .found = true, .data = "traces/azure_llm_2023_code.csv.gz"},
    {.name = "sharegpt", .found = true, .data = "traces/sharegpt_10k_lengths.csv.gz"},
    {.name = "prompts, sigma 1.5", .found = true},
    {.name = "bursts of conversations", .found = true, .data = "traces/azure_llm_2023_conv.csv.gz"},
    {.name = "long chats", .data = "traces/mooncake_fast25_conversation.jsonl.gz", .calls = 1200},
    {.name = "long chats, prefix cache",
     .data = "traces/mooncake_fast25_conversation.jsonl.gz",
     .prefix_cache = true,
     .calls = 2000},
    {.name = "prompts, sigma 1"},
    {.name = "prompts, sigma 2"},
    {.name = "bursts of sharegpt", .data = "traces/sharegpt_10k_lengths.csv.gz"},
    {.name = "many clients", .data = "traces/servegen_deepseek-r1_windows.csv.gz"},
    {.name = "text2sql", .data = "text2sql/trace1.jsonl", .calls = 1500},
    {.name = "tools", .data = "tools/infercept_multi_api.jsonl"},
    {.name = "agents"},
    {.name = "steps of 2,048", .data = "traces/azure_llm_2023_conv.csv.gz", .step_tokens = 2048},
    {.name = "70B, scarce KV",
     .data = "traces/azure_llm_2023_conv.csv.gz",
     .profile = "aic/llama-3.1-70b/h100/bf16/tp2"},
    {.name = "70B, fp8", .data = "traces/sharegpt_10k_lengths.csv.gz", .profile = "aic/llama-3.1-70b/h100/fp8/tp2"},
    {.name = "4 instances", .data = "traces/azure_llm_2023_conv.csv.gz", .instances = 4, .calls = 8000},
    {.name = "16 instances", .data = "traces/azure_llm_2023_code.csv.gz", .instances = 16, .calls = 8000},
    {.name = "long summaries", .calls = 1200},
    {.name = "bursts of long chats, prefix cache",
     .data = "traces/mooncake_fast25_conversation.jsonl.gz",
     .prefix_cache = true,
     .calls = 2000},
    {.name = "closed loop", .data = "traces/sharegpt_10k_lengths.csv.gz", .instances = 2, .in_flight = 900},
};

// How one of ten tenants cheats to be served sooner than the others. The last value: no cheating.
enum class Lie : std::uint8_t { kSplit, kPad, kEarly, kPredictTenth, kNone };
inline constexpr std::string_view kLieNames[] = {"splits each job in four", "pads prompts by half",
                                                 "opens workflows ten minutes early", "predicts a tenth", "honest"};
inline constexpr std::uint32_t kLiar = 1;
inline constexpr std::uint32_t kTenants = 10;

class StrangerInputs {
 public:
  // `data`: a folder with traces/, text2sql/ and tools/; empty: the default folder of FindData.
  explicit StrangerInputs(const std::string& data) : data_(data) {}

  // Reads the required files; false if one does not exist.
  bool Has(const Stranger& stranger);
  absl::StatusOr<Workload> Make(const Stranger& stranger, double share, std::uint64_t seed) const;
  // Conversations of ten tenants; tenant kLiar cheats as given.
  absl::StatusOr<Workload> MakeLie(Lie lie, double share, std::uint64_t seed) const;

 private:
  struct Client {
    double rate = 0, cv = 1, prompt = 0, output = 0;
  };
  absl::Status ReadClients();
  absl::StatusOr<Workload> Clients(std::size_t calls, std::uint64_t seed) const;

  std::string data_;
  std::map<std::string_view, Workload> files_;  // by path
  std::map<std::int64_t, std::vector<std::pair<std::uint32_t, Client>>> windows_;  // by time: client and its behaviour
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_STRANGERS_INPUTS_H_
