#include "takt/rivals/rivals.h"

#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/rivals/gates/concur.h"
#include "takt/rivals/gates/working_set.h"
#include "takt/rivals/pause/infercept.h"
#include "takt/rivals/placement/autellix.h"
#include "takt/rivals/placement/best_fit.h"
#include "takt/rivals/placement/code_ratio.h"
#include "takt/rivals/placement/dynamo.h"
#include "takt/rivals/placement/llmd.h"
#include "takt/rivals/placement/lmetric.h"
#include "takt/rivals/placement/mooncake.h"
#include "takt/rivals/placement/preble.h"
#include "takt/rivals/placement/sglang.h"
#include "takt/rivals/policy/autellix.h"
#include "takt/rivals/policy/justitia.h"
#include "takt/rivals/policy/lpm.h"
#include "takt/rivals/policy/ltr.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/rivals/policy/prefix_then_workflow.h"
#include "takt/rivals/policy/sagesched.h"
#include "takt/rivals/policy/slo_groups.h"
#include "takt/rivals/policy/stage_depth.h"
#include "takt/rivals/policy/uniboost.h"
#include "takt/rivals/retention/belady.h"
#include "takt/rivals/retention/belady_cost.h"
#include "takt/rivals/retention/continuum.h"
#include "takt/rivals/retention/slru.h"
#include "takt/rivals/retention/tlru.h"
#include "takt/rivals/retention/wa.h"
#include "takt/turns/gates/registry.h"
#include "takt/turns/retention/registry.h"

namespace takt {

absl::Status RegisterRivals() {
  static const absl::Status registered = [] {
    absl::Status status;
    status.Update(
        RegisterPolicy(Ltr{}, "fewest predicted output tokens first, in buckets, by a score fixed at arrival (LTR)"));
    status.Update(RegisterPolicy(UniBoost{}, "order of arrival with a boost for short calls (UniBoost)"));
    status.Update(
        RegisterPolicy(SageSched{}, "least expected compute and memory of the call, by a Gittins index (SageSched)"));
    status.Update(RegisterPolicy(
        Justitia{}, "earliest virtual finish first under fair sharing, by a workflow's memory cost (Justitia)"));
    status.Update(
        RegisterPolicy(SloGroups{}, "groups of similar deadlines by arrival; by deadline if one would be late (QLM)"));
    status.Update(RegisterPolicy(Mlfq{}, "least served request first, by levels with growing quanta (FastServe)"));
    status.Update(
        RegisterPolicy(Autellix{}, "calls of the least served workflow first, by levels with quanta (Autellix)"));
    status.Update(RegisterPolicy(Lpm{}, "longest cached prefix first (SGLang)"));
    status.Update(
        RegisterPolicy(PrefixThenWorkflow{},
                       "requests with cached KV of their workflow first, then by the workflow's arrival (Continuum)"));
    status.Update(RegisterPolicy(StageDepth{}, "fewest remaining stages of the workflow first (Ayo)"));
    status.Update(RegisterPlacement(
        AutellixPlacement{}, "short prompts on any instance, long ones on their workflow's instance (Autellix)"));
    status.Update(RegisterPlacement(DynamoPlacement{}, "the fewest uncached tokens of prefill and decode (Dynamo)"));
    status.Update(
        RegisterPlacement(LlmdPlacement{}, "best weighted sum of cached share, queue length and free cache (llm-d)"));
    status.Update(RegisterPlacement(LmetricPlacement{},
                                    "the smallest product of prefill tokens and requests on the instance (LMetric)"));
    status.Update(RegisterPlacement(
        MooncakePlacement{}, "the earliest first token by queue and uncached prefill (Mooncake, without transfers)"));
    status.Update(RegisterPlacement(
        PreblePlacement{}, "the longest cached prefix if it is most of the prompt, else the least work (Preble)"));
    status.Update(
        RegisterPlacement(SglangPlacement{}, "the longest cached prefix, unless loads are unbalanced (SGLang)"));
    status.Update(RegisterPlacement(BestFit{}, "the least free KV memory that fits the request (Parrot)"));
    status.Update(RegisterPlacement(CodeRatio{},
                                    "a fast engine with little work received so far (code by HexGen-Flow's authors)"));
    status.Update(RegisterPause(
        InferCept{}, "keeps or drops with the least waste; swaps instead of dropping if the link is free (InferCept)"));
    status.Update(RegisterRetention(Slru{}, "evicts KV of workflows with one turn first (SGLang)"));
    status.Update(RegisterRetention(
        Continuum{}, "keeps KV as long as this is expected to save time, then evicts by age (Continuum)"));
    status.Update(
        RegisterRetention(Wa{}, "evicts KV first that is least likely to be reused within its lifetime (Bailian)"));
    status.Update(RegisterRetention(Tlru{}, "evicts KV that the next turn does not need, then by age (T-LRU)"));
    status.Update(RegisterRetention(Belady{}, "evicts the KV with the latest next use first; only for simulators"));
    status.Update(RegisterRetention(
        BeladyCost{}, "evicts the KV that saves the least work per second until its next use; only for simulators"));
    status.Update(
        RegisterGate(WorkingSet{}, "admits requests while the KV of running and recent workflows fits (ThunderAgent)"));
    status.Update(
        RegisterGate(Concur{}, "limits active workflows by congestion control on cache use and hits (CONCUR)"));
    return status;
  }();
  return registered;
}

}  // namespace takt
