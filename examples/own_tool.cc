// A `takt` with a policy of its own. Try: own_tool replay --policy slack --policy fcfs; own_tool policies.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "takt/policy/rank_policy.h"
#include "takt/policy/registry.h"
#include "takt/tool.h"

// Least slack first: the time to the deadline less the expected time of the output. A key must not change with time, so
// `now` is left out of every key.
struct Slack {
  static constexpr std::string_view kName = "slack";
  double token_s = 0.03;

  takt::RankKey Key(const takt::RequestState& r) const {
    const double tokens = r.request.output_tokens.known() ? r.request.output_tokens.mean : 0;
    return {takt::ToSeconds(r.request.deadline) - token_s * tokens};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("token_s", self.token_s, takt::OptionText{"s", "that an output token takes", 1e-6});
  }
};

int main(int argc, char** argv) {
  if (const absl::Status status = takt::RegisterPolicy(Slack{}, "least slack first"); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  return takt::tool::Main(argc, argv);
}
