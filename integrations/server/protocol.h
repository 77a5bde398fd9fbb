// The subset of OpenAI's completion API that is spoken here: bodies in, bodies out. No sockets, no engine.
#ifndef TAKT_INTEGRATIONS_SERVER_PROTOCOL_H_
#define TAKT_INTEGRATIONS_SERVER_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine.h"
#include "text.h"

namespace serving {

enum class Api : std::uint8_t { kCompletion, kChat };

struct ApiRequest {
  Api api = Api::kCompletion;
  std::vector<std::int32_t> prompt = {};
  std::int32_t max_tokens = 16;
  std::int32_t end_token = -1;
  bool stream = false;
  bool token_ids = false;  // the answer has its tokens beside the text
};

// A refusal: HTTP status, and the fields of OpenAI's error object.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = "";  // the field at fault
  std::string code = "";
};

struct ApiLimits {
  std::string model;  // its name
  std::size_t max_context = 0;  // prompt and output [tokens]
  std::size_t vocab = 0;
  const Vocabulary* text = &ByteVocabulary();  // must outlive what is limited
};

// `body` as /v1/completions or /v1/chat/completions takes it. Every error names its field. What would change the answer
// and is not served (sampling, several choices, stop strings ...) is refused; unknown fields are ignored.
std::variant<ApiRequest, ApiError> ParseRequest(Api api, std::string_view body, const ApiLimits& limits);

std::string ErrorBody(const ApiError& error);

// What the client is told where the engine gave up on its request.
ApiError ErrorOf(takt::FailReason reason);

// An answer under way.
struct ApiAnswer {
  Api api = Api::kCompletion;
  std::uint64_t id = 0;
  std::int64_t created = 0;  // [s] since 1970
  std::string model;
  std::size_t prompt_tokens = 0, output_tokens = 0;
  bool token_ids = false;  // as asked
};

// A piece of an answer, or all of it.
struct ApiPiece {
  std::string_view text = {};
  std::span<const std::int32_t> tokens = {};
};

// "length" or "stop".
std::string_view FinishReason(End end);

std::string AnswerBody(const ApiAnswer& answer, const ApiPiece& piece, End end);

// A piece of a streamed answer: `data: {...}` and an empty line. The last has a finish reason (end != kNotYet); the
// first of a chat (`opens`) names the role.
std::string StreamEvent(const ApiAnswer& answer, const ApiPiece& piece, bool opens, End end);
std::string StreamError(const ApiError& error);
inline constexpr std::string_view kStreamDone = "data: [DONE]\n\n";

std::string ModelsBody(const ApiLimits& limits);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PROTOCOL_H_
