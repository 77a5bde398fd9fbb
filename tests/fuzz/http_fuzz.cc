// Any bytes as input of tiny_engine's clients and as a file of weights. The first byte chooses the target.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "connections.h"
#include "fmt/format.h"
#include "model.h"
#include "nlohmann/json.hpp"
#include "protocol.h"

namespace tiny {
namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void Body(Api api, std::string_view text) {
  const ApiLimits limits = {"tiny", 64, 272};
  const auto parsed = ParseRequest(api, text, limits);
  if (const auto* request = std::get_if<ApiRequest>(&parsed)) {
    Expect(!request->prompt.empty() && request->max_tokens > 0, "something to do");
    Expect(request->prompt.size() + static_cast<std::size_t>(request->max_tokens) <= 64, "the context");
    for (const std::int32_t token : request->prompt) Expect(token >= 0 && token < 272, "a token");
    return;
  }
  const ApiError& error = std::get<ApiError>(parsed);
  Expect(error.status == 400 || error.status == 404, "a status");
  const nlohmann::json body = nlohmann::json::parse(ErrorBody(error), nullptr, false);
  Expect(body.is_object() && !body["error"]["message"].get<std::string>().empty(), "an error is JSON with a message");
}

void ParseAsHead(std::string_view text) {
  const ConnectionLimits limits{.max_head = 1000, .max_body = 1000};
  const Head head = ParseHead(text, limits);
  Expect(head.bytes <= text.size() && head.bytes <= limits.max_head, "the head is in the text");
  Expect(head.refusal.status != 0 || head.body <= limits.max_body, "a body that is too long is refused");
  Expect(head.refusal.status != 0 || head.bytes > 0 || text.size() < limits.max_head, "an endless head is refused");
  Expect(!head.quick || !head.post, "one or the other");
  // Bytes after the head change nothing.
  if (head.bytes > 0) Expect(ParseHead(text.substr(0, head.bytes), limits).body == head.body, "the head has no body");
}

void Weights(std::string_view text) {
  const int file = memfd_create("fuzz", 0);
  Expect(file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "a file");
  const auto model = Model::Load(fmt::format("/proc/self/fd/{}", file));
  close(file);
  Expect(model.ok() || !model.status().message().empty(), "a reason");
}

}  // namespace
}  // namespace tiny

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'b': tiny::Body(tiny::Api::kCompletion, text); break;
    case 'c': tiny::Body(tiny::Api::kChat, text); break;
    case 'h': tiny::ParseAsHead(text); break;
    case 'w': tiny::Weights(text); break;
    default: break;
  }
  return 0;
}
