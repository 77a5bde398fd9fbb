#include "takt/policy/registry.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/aged.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/sjf.h"
#include "takt/policy/stjf.h"
#include "takt/rivals/rivals.h"

namespace takt {
namespace {

std::string Fault(std::string_view spec, const std::vector<std::string>& options = {}) {
  const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec, options);
  return policy.ok() ? "" : std::string(policy.status().message());
}

bool Names(const std::string& fault, std::initializer_list<std::string_view> parts) {
  return std::ranges::all_of(parts, [&](std::string_view part) { return fault.find(part) != std::string::npos; });
}

TEST_CASE("every policy is made from its name, and its spec remakes it") {
  for (const PolicyInfo& info : PolicyInfos()) {
    const bool outer = info.name == "aged" || info.name == "metered";
    const std::string spec = outer ? info.name + "(fcfs)" : info.name;
    const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec);
    REQUIRE(policy.ok());
    CHECK(policy->name() == spec);
    CHECK(policy->spec() == spec);
    CHECK_FALSE(info.summary.empty());
    for (const PolicyInfo::Option& option : info.options) {
      const std::string given = option.name + "=" + option.default_value;
      if (outer) CHECK(MakePolicy(info.name + "(fcfs," + given + ")")->spec() == spec);
      if (info.name != "metered") CHECK(MakePolicy(spec, std::vector{given})->spec() == spec);
    }
  }
}

TEST_CASE("a host's own policy reports itself as custom") {
  struct Own {
    std::string_view spec() const { return "custom(own)"; }
    RankKey Key(const RequestState&) const { return {7}; }
  };
  const AnyPolicy own{Own{}};
  const auto make = [&own](std::string_view spec) { return MakePolicy(spec, {}, nullptr, &own); };
  CHECK(make("custom")->Key({}).key == 7);
  CHECK(make("custom(own)")->spec() == "custom(own)");
  CHECK(make("aged( custom , threshold=3)")->spec() == "aged(custom(own),threshold=3)");
  CHECK(make("aged(custom(own),threshold=3)")->aging()->threshold == 3);
  CHECK(make("fcfs")->spec() == "fcfs");
  CHECK(Names(std::string(make("custom(another)").status().message()), {"'custom(another)'", "is unknown"}));
  CHECK(Names(Fault("aged(custom(own))"), {"'custom(own)' is unknown"}));
  for (const char* spec : {"custom", "custom(own,more)", "custom(x=1)"}) CHECK(Names(Fault(spec), {"custom"}));
  CHECK(!MakePolicy("custom", std::vector<std::string>{"threshold=3"}, nullptr, &own).ok());
}

TEST_CASE("options come from the spec or from the argument") {
  RequestState r;
  r.request.workflow_tokens_left = {.mean = 100, .quantiles = {10, 20, 30, 40, 50}};
  r.request.prompt_tokens = {8};
  CHECK(MakePolicy("stjf")->Key(r).key == 30);
  CHECK(MakePolicy("stjf(input=0.5)")->Key(r).key == 34);
  CHECK(MakePolicy("stjf(quantile=0.9)")->Key(r).key == 50);
  CHECK(MakePolicy(" stjf ( quantile = -1 ) ")->Key(r).key == 100);
  CHECK(MakePolicy("stjf", std::vector<std::string>{"quantile=0.25"})->Key(r).key == 20);

  const auto aged = MakePolicy("aged(stjf(quantile=0.9), threshold=50, quantum=forever)",
                               std::vector<std::string>{"unknown=7", "at_tool_call=reset_count"});
  REQUIRE(aged.ok());
  CHECK(aged->Key(r).key == 50);
  CHECK(aged->Key({}).key == 7);
  REQUIRE(aged->aging() != nullptr);
  CHECK(*aged->aging() ==
        AgingOptions{.threshold = 50, .quantum = kForever, .at_tool_call = AgingOptions::AtToolCall::kResetCount});
  CHECK(aged->name() == "aged(stjf)");
  CHECK(aged->spec() == "aged(stjf(quantile=0.9,unknown=7),threshold=50,quantum=forever,at_tool_call=reset_count)");
  CHECK(*MakePolicy(aged->spec())->aging() == *aged->aging());
  CHECK(MakePolicy("aged(sjf,count_from=first_run)")->aging()->count_from == AgingOptions::CountFrom::kFirstRun);
  CHECK(MakePolicy("sjf")->aging() == nullptr);
}

TEST_CASE("a fault names the mistake and the valid choices") {
  CHECK(Names(Fault("sjff"), {"'sjff'", "did you mean 'sjf'?", "fcfs", "metered(POLICY)", "aged(POLICY)"}));
  CHECK(Names(Fault("sjf(unknown=-4)"), {"unknown=-4: must be a number of at least 0"}));
  CHECK(Names(Fault("shortest"), {"unknown policy 'shortest'; there are: "}));
  CHECK(Names(Fault(""), {"unknown policy ''"}));
  CHECK(Names(Fault("aged(lifo)"), {"'lifo'"}));
  CHECK(Names(Fault("aged"), {"expected one policy"}));
  CHECK(Names(Fault("aged(sjf,stjf)"), {"expected one policy"}));
  CHECK(Names(Fault("aged(aged(sjf))"), {"aged inside aged is invalid"}));
  CHECK(Names(Fault("stjf(quantil=0.5)"), {"'quantil'", "quantile, input, unknown"}));
  CHECK(Names(Fault("fcfs(x=1)"), {"there are none"}));
  CHECK(Names(Fault("stjf(quantile=2)"), {"quantile=2", "must be a number from -1 to 1"}));
  CHECK(Names(Fault("stjf(quantile=0.5x)"), {"quantile=0.5x"}));
  CHECK(Names(Fault("stjf(quantile=nan)"), {"quantile=nan"}));
  CHECK(Names(Fault("aged(sjf,quantum=0)"), {"quantum=0", "whole number of at least 1"}));
  CHECK(Names(Fault("aged(sjf,threshold=99999999999999999999)"), {"threshold"}));
  CHECK(Names(Fault("sjf", {"threshold=3"}), {"'threshold'", "there are: unknown"}));
  CHECK(Names(Fault("aged(sjf)", {"frobnicate=3"}), {"'frobnicate'", "threshold"}));
  CHECK(Names(Fault("sjf", {"unknown"}), {"NAME=VALUE"}));
  CHECK(Names(Fault("sjf(fcfs)"), {"'fcfs' is invalid; expected an option NAME=VALUE"}));
  for (std::string_view broken : {"sjf(", "sjf)", "sjf(unknown=1", "aged(sjf))", "aged((sjf)", "sjf()x"}) {
    CHECK_FALSE(Fault(broken).empty());
  }
}

TEST_CASE("copies of an erased policy share nothing") {
  AnyPolicy a(FairShare{});
  AnyPolicy b = a;
  RequestState r;
  r.request.tenant = {3};
  a.Scheduled(r, {10}, {5});
  CHECK(a.GroupKey(3).key == 20);
  CHECK(b.GroupKey(3).key == 0);
  b = a;
  CHECK(b.GroupKey(3).key == 20);
}

TEST_CASE("registered rules of other systems are listed after the host's own") {
  CHECK(Names(Fault("mlfq"), {"unknown policy 'mlfq'"}));
  const OwnPolicyFactory make = [](auto, auto) { return absl::StatusOr<AnyPolicy>(AnyPolicy(Fcfs{})); };
  REQUIRE(RegisterPolicy("lpm", "the host's", make).ok());
  const absl::Status registered = RegisterRivals();
  CHECK(Names(std::string(registered.message()), {"'lpm'", "there is one of this name"}));
  CHECK(RegisterRivals() == registered);
  CHECK(MakePolicy("lpm")->Key({}).key == MakePolicy("fcfs")->Key({}).key);
  CHECK(MakePolicy("aged(mlfq(ratio=3))")->spec() == "aged(mlfq(ratio=3))");
  CHECK(Names(Fault("mlfq", {"rati=3"}), {"did you mean 'ratio'?"}));
  CHECK(Names(Fault("aged(mlfq)", {"rati=3"}), {"did you mean 'ratio'?", "threshold"}));
  CHECK(MakePlacement("preble").ok());
  CHECK(MakePause("infercept(elapsed=true)")->spec() == "infercept(elapsed=true)");
  const EnginePace pace{.memory = {.decode_s = 0.5}};
  CHECK(MakePolicy("justitia", {}, &pace)->spec() != "justitia");
}

// A type registered with other defaults than its own.
struct Scaled {
  static constexpr std::string_view kName = "scaled";
  double scale = 1;
  RankKey Key(const RequestState&) const { return {scale}; }
  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("scale", self.scale, OptionText{"", "of keys", 0.5, 9});
  }
};

TEST_CASE("the spec of a registered type is relative to its registered defaults") {
  REQUIRE(RegisterPolicy(Scaled{.scale = 4}, "scaled").ok());
  CHECK(MakePolicy("scaled")->spec() == "scaled");
  CHECK(MakePolicy("scaled")->Key({}).key == 4);
  CHECK(MakePolicy("scaled(scale=1)")->spec() == "scaled(scale=1)");
  CHECK(MakePolicy("scaled(scale=1)")->Key({}).key == 1);
  const std::vector<PolicyInfo> infos = PolicyInfos();
  REQUIRE(infos[infos.size() - 3].options.size() == 1);
  CHECK(infos[infos.size() - 3].options[0].default_value == "4");
}

// Chooses the instance in the highest slot.
struct Last {
  static constexpr std::string_view kName = "last";
  double Score(const RequestState&, const InstanceState& i, TimePoint) const { return i.slot; }
};

TEST_CASE("a host's own placement has a name, once") {
  REQUIRE(RegisterPlacement("theirs", "the host's", [](std::span<const KeyValue>) {
            return absl::StatusOr<AnyPlacement>(AnyPlacement(Last{}));
          }).ok());
  CHECK(MakePlacement("theirs")->name() == "theirs");
  REQUIRE(RegisterPlacement(Last{}, "the last instance").ok());
  CHECK(MakePlacement("last").ok());
  CHECK(RegisterPlacement(Last{}, "").message().find("there is one of this name") != std::string::npos);
}

struct Backwards {
  static constexpr std::string_view kName = "backwards";
  double scale = 1;
  RankKey Key(const RequestState& r) const { return {-scale * static_cast<double>(r.request.id.value)}; }
  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("scale", self.scale, OptionText{"", "of ids", 0.5, 9});
  }
};

TEST_CASE("a host's own policy is made by name, aged or not") {
  REQUIRE(RegisterPolicy(Backwards{}, "newest ids first").ok());
  REQUIRE(RegisterPolicy("mute", "all alike", [](std::span<const KeyValue> options, const EnginePace*) {
            if (!options.empty()) return absl::StatusOr<AnyPolicy>(absl::InvalidArgumentError("mute has no options"));
            return absl::StatusOr<AnyPolicy>(AnyPolicy(Fcfs{}));
          }).ok());
  RequestState r;
  r.request.id = {3};
  CHECK(MakePolicy("backwards")->Key(r).key == -3);
  CHECK(MakePolicy("backwards(scale=2)")->Key(r).key == -6);
  CHECK(MakePolicy("backwards(scale=2)")->spec() == "backwards(scale=2)");
  CHECK(MakePolicy("backwards", std::vector<std::string>{"scale=4"})->spec() == "backwards(scale=4)");
  const AnyPolicy aged = *MakePolicy("aged(backwards,threshold=7)", std::vector<std::string>{"scale=4"});
  CHECK(aged.spec() == "aged(backwards(scale=4),threshold=7)");
  CHECK(MakePolicy(aged.spec())->Key(r).key == -12);
  CHECK(MakePolicy("mute")->spec() == "mute");
  CHECK((*MakePolicyFactory("mute"))({}).name() == "mute");
  CHECK(Names(Fault("backwards(scale=0)"), {"scale=0", "from 0.5 to 9"}));
  CHECK(Names(Fault("backwards(scal=1)"), {"did you mean 'scale'?"}));
  CHECK(Names(Fault("mute(x=1)"), {"mute has no options"}));
  CHECK(Names(Fault("backward"), {"did you mean 'backwards'?"}));
  CHECK(PolicyInfos().size() >= 4);
  CHECK(PolicyInfos()[PolicyInfos().size() - 3].summary == "all alike");
}

TEST_CASE("a taken or invalid name is not registered") {
  const OwnPolicyFactory make = [](auto, auto) { return absl::StatusOr<AnyPolicy>(AnyPolicy(Fcfs{})); };
  for (const char* name : {"sjf", "aged", "custom", "", "My policy", "a(b)"}) {
    CAPTURE(name);
    CHECK(RegisterPolicy(name, "", make).message().find(name) != std::string::npos);
  }
  CHECK(RegisterPolicy("twice", "", make).ok());
  CHECK(RegisterPolicy("twice", "", make).message().find("there is one of this name") != std::string::npos);
  CHECK_FALSE(RegisterPolicy("empty", "", OwnPolicyFactory()).ok());
}

struct Farthest {
  static constexpr std::string_view kName = "farthest";
  double sign = 1;
  double Score(const RequestState&, const InstanceState& instance, TimePoint) const {
    return sign * static_cast<double>(instance.instance.id.value);
  }
  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("sign", self.sign, OptionText{"", "of the instance's id", -1, 1});
  }
};

struct Hoard {
  static constexpr std::string_view kName = "hoard";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return {KvAction::kKeep}; }
};

TEST_CASE("a host's own placements and pause policies are made by name") {
  REQUIRE(RegisterPlacement(Farthest{}, "the last of all").ok());
  REQUIRE(RegisterPause(Hoard{}, "keeps").ok());
  InstanceState instance;
  instance.instance.id = {3};
  CHECK(MakePlacement("farthest")->Score({}, instance, {}) == 3);
  CHECK(MakePlacement("farthest(sign=-1)")->Score({}, instance, {}) == -3);
  CHECK(Names(std::string(MakePlacement("farthest(sign=2)").status().message()), {"sign=2", "from -1 to 1"}));
  CHECK(Names(std::string(MakePlacement("fartest").status().message()), {"did you mean 'farthest'?"}));
  CHECK(MakePause("hoard")->AtCall({}, {}, {}).action == KvAction::kKeep);
  CHECK_FALSE(RegisterPlacement(Farthest{}, "").ok());
  CHECK_FALSE(RegisterPause(Hoard{}, "").ok());
}

}  // namespace
}  // namespace takt
