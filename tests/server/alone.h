// Serves a request alone, without a scheduler: its whole prompt in one step, then token by token.
#ifndef TAKT_TESTS_SERVER_ALONE_H_
#define TAKT_TESTS_SERVER_ALONE_H_

#include <vector>

#include "engine.h"
#include "model.h"

namespace tiny {

inline std::vector<Sample> Alone(const Model& model, const EngineRequest& request) {
  const KvLayout layout(model.config(), model.config().max_context);
  std::vector<float> kv(layout.block());
  Runner runner(model, layout, kv);
  const std::vector<std::int32_t> table = {0};
  std::vector<std::int32_t> context = request.prompt;
  std::vector<Sample> output;
  std::vector<Row> rows;
  std::size_t computed = 0, tool = 0;
  while (true) {
    rows.clear();
    for (; computed < context.size(); ++computed) {
      const bool last = computed + 1 == context.size();
      rows.push_back({context[computed], static_cast<std::int32_t>(computed), table, last});
    }
    output.push_back(runner.Step(rows).front());
    context.push_back(output.back().token);
    const auto generated = static_cast<std::int32_t>(output.size());
    if (output.back().token == request.end_token || generated == request.max_output_tokens) return output;
    if (tool < request.tools.size() && generated >= request.tools[tool].after_tokens) {
      const auto& answer = request.tools[tool++].answer;
      context.insert(context.end(), answer.begin(), answer.end());
    }
  }
}

}  // namespace tiny

#endif  // TAKT_TESTS_SERVER_ALONE_H_
