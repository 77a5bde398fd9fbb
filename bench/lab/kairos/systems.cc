#include "lab/kairos/systems.h"

namespace takt::tool::kairos {

KairosSystem Parrot() { return {"Parrot", "fcfs", "round_robin"}; }
KairosSystem Ayo() { return {"Ayo", "stage_depth", "round_robin", Knows::kDepths}; }
KairosSystem Kairos() { return {"Kairos", "agent_priority", "time_slot_packer", Knows::kLearns}; }
KairosSystem NoPriority() { return {"Kairos without priority", "fcfs", "time_slot_packer", Knows::kLearns}; }
KairosSystem NoPacking() { return {"Kairos without packing", "agent_priority", "round_robin", Knows::kLearns}; }
KairosSystem Oracle() { return {"oracle", "stjf", "time_slot_packer", Knows::kTruth}; }
KairosSystem ByMean() {
  return {"Kairos by means", "agent_priority", "time_slot_packer", Knows::kLearns, AgentOrderBy::kMean};
}
KairosSystem ByMedian() {
  return {"Kairos by medians", "agent_priority", "time_slot_packer", Knows::kLearns, AgentOrderBy::kMedian};
}
KairosSystem AsPublished() {
  KairosSystem system = Kairos();
  system.label = "Kairos, published packing", system.counts_late = false;
  return system;
}
KairosSystem WithThresholds() {
  KairosSystem system = Kairos();
  system.label = "Kairos, thresholds of use", system.thresholds = true;
  return system;
}
KairosSystem ByModelRate() {
  KairosSystem system = Kairos();
  system.label = "Kairos, rate of the cost model", system.rate_of_model = true;
  return system;
}
KairosSystem Reserving() {
  return {"Kairos, reservation by tokens", "agent_priority", "token_reservation", Knows::kLearns};
}
KairosSystem BestFit() { return {"Parrot, best fit", "fcfs", "best_fit"}; }

std::vector<KairosSystem> OfMix() {
  return {Parrot(),      BestFit(),        Ayo(),         Kairos(),    NoPriority(), NoPacking(), ByMean(), ByMedian(),
          AsPublished(), WithThresholds(), ByModelRate(), Reserving(), Oracle()};
}

std::vector<KairosSystem> OfParts() {
  return {Parrot(), Ayo(), Kairos(), NoPriority(), NoPacking(), WithThresholds(), ByModelRate(), Oracle()};
}

std::vector<KairosSystem> Of(std::size_t scenario) {
  if (scenario == kMix) return OfMix();
  if (scenario == kAlike) return OfParts();
  return {Parrot(), Ayo(), Kairos(), Oracle()};
}

}  // namespace takt::tool::kairos
