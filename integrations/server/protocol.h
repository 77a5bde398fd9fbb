// The supported subset of OpenAI's completion API: parses and writes bodies, without sockets or engine.
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
  bool usage = false;      // a stream's usage comes in an event of its own
  bool token_ids = false;  // the answer contains token ids as well as text
  std::int32_t choices = 1;
  std::vector<std::string> stop = {};  // texts that end the answer, and are not part of it
};

// A refusal: HTTP status, and the fields of OpenAI's error object.
struct ApiError {
  int status = 400;
  std::string message;
  std::string param = "";  // the invalid field
  std::string code = "";
  std::uint32_t retry_after_s = 1;  // for status 429 and 503: value of the header Retry-After
};

struct ApiLimits {
  std::string model;  // name of the model
  std::size_t max_context = 0;  // maximum of prompt and output [tokens]
  std::size_t vocab = 0;
  const Vocabulary* text = &ByteVocabulary();  // must outlive what is limited
  // Answers are filler: several choices, sampling and tools are accepted, and have no effect on the text.
  bool filler = false;
};

// Parses the `body` of /v1/completions or /v1/chat/completions. Every error names its field. Unsupported fields that
// would change the answer (sampling, several choices ...) are refused; unknown fields are ignored.
std::variant<ApiRequest, ApiError> ParseRequest(Api api, std::string_view body, const ApiLimits& limits);

std::string ErrorBody(const ApiError& error);

// Returns the error for a client if the engine gave up on its request.
ApiError ErrorOf(takt::FailReason reason, std::uint32_t retry_after_ms = 0);

// A partial answer.
struct ApiAnswer {
  Api api = Api::kCompletion;
  std::uint64_t id = 0;
  std::int64_t created = 0;  // [s] since 1970
  std::string model;
  std::size_t prompt_tokens = 0, output_tokens = 0;
  bool usage = false, token_ids = false;  // as requested
};

// A piece of a choice, or all of it.
struct ApiPiece {
  std::string_view text = {};
  std::span<const std::int32_t> tokens = {};
  End end = End::kNotYet;  // kNotYet: more follows
  std::size_t choice = 0;
};

// "length" or "stop".
std::string_view FinishReason(End end);

std::string AnswerBody(const ApiAnswer& answer, std::span<const ApiPiece> choices);

// Returns a piece of a streamed answer: `data: {...}` and an empty line. The last one of a choice has a
// finish reason; the first one of a chat (`opens`) names the role. The last event (`last`) has the usage, unless it
// comes in an event of its own.
std::string StreamEvent(const ApiAnswer& answer, const ApiPiece& piece, bool opens, bool last);
std::string StreamUsage(const ApiAnswer& answer);
std::string StreamError(const ApiError& error);
inline constexpr std::string_view kStreamDone = "data: [DONE]\n\n";

std::string ModelsBody(const ApiLimits& limits);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PROTOCOL_H_
