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
        RegisterPolicy(Ltr{}, "fewest predicted output tokens first, in buckets, by a score that is given once (LTR)"));
    status.Update(RegisterPolicy(UniBoost{}, "one call's boost between first come and shortest first (UniBoost)"));
    status.Update(RegisterPolicy(SageSched{},
                                 "one call's compute and memory by the Gittins index of its prediction (SageSched)"));
    status.Update(RegisterPolicy(Justitia{}, "fair virtual time by the memory that a whole workflow costs (Justitia)"));
    status.Update(
        RegisterPolicy(SloGroups{}, "groups of like deadlines as they came, by deadline once one would be late (QLM)"));
    status.Update(RegisterPolicy(
        Mlfq{}, "the request served longest comes last, by levels with growing quanta; no lengths needed (FastServe)"));
    status.Update(RegisterPolicy(
        Autellix{}, "calls of the workflow that was served least first, by queues with quanta (Autellix)"));
    status.Update(RegisterPolicy(Lpm{}, "longest cached prefix first (SGLang)"));
    status.Update(RegisterPolicy(PrefixThenWorkflow{},
                                 "what finds KV of its workflow first, then by the workflow's arrival (Continuum)"));
    status.Update(RegisterPolicy(StageDepth{}, "fewest stages left of the workflow first (Ayo)"));
    status.Update(
        RegisterPlacement(AutellixPlacement{}, "short prompts anywhere, long ones where their workflow is (Autellix)"));
    status.Update(RegisterPlacement(DynamoPlacement{},
                                    "the fewest tokens of prefill and decode, cached ones not counted (Dynamo)"));
    status.Update(
        RegisterPlacement(LlmdPlacement{}, "weighted sum of cached share, shorter queue and emptier cache (llm-d)"));
    status.Update(RegisterPlacement(
        MooncakePlacement{}, "the soonest first token: queue and uncached prefill (Mooncake, without transfers)"));
    status.Update(RegisterPlacement(PreblePlacement{},
                                    "the longest match if it is most of the prompt, else the least work (Preble)"));
    status.Update(RegisterPlacement(SglangPlacement{}, "the longest match, unless loads are apart (SGLang)"));
    status.Update(RegisterPlacement(BestFit{}, "the least KV memory to spare that is enough (Parrot)"));
    status.Update(
        RegisterPlacement(CodeRatio{}, "speed against all work ever sent, as in the code of HexGen-Flow's authors"));
    status.Update(RegisterPause(
        InferCept{},
        "keeps or drops by least waste, and swaps what it would drop while the link has room (InferCept)"));
    status.Update(RegisterRetention(Slru{}, "what has had one turn goes before what has had several (SGLang)"));
    status.Update(RegisterRetention(
        Continuum{}, "held while waiting for the return is expected to save time; then by age (Continuum)"));
    status.Update(RegisterRetention(Wa{}, "what is least likely to be used within its lifetime goes first (Bailian)"));
    status.Update(RegisterRetention(Tlru{}, "what the next turn can do without goes first, then by age (T-LRU)"));
    status.Update(RegisterRetention(Belady{}, "what is used again last goes first; simulators alone know it"));
    status.Update(RegisterRetention(
        BeladyCost{}, "what saves the least work per second until its next use; simulators alone know it"));
    status.Update(RegisterGate(WorkingSet{}, "lets in while what runs and what was here of late fits (ThunderAgent)"));
    status.Update(
        RegisterGate(Concur{}, "bounds how many are active by congestion control on cache use and hits (CONCUR)"));
    return status;
  }();
  return registered;
}

}  // namespace takt
