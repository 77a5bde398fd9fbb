#include "protocol.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tool/report/json_writer.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace serving {
namespace {

using Json = nlohmann::json;
using takt::tool::JsonWriter;

constexpr std::int32_t kDefaultTokens = 16;

// ---- in ------------------------------------------------------------------------------------------------------------

// Fields with a single supported value.
struct Fixed {
  const char* field;
  Json value;
  const char* why;
  bool filled;  // filler supports all values
};
const std::vector<Fixed>& FixedFields() {
  static const std::vector<Fixed> kFields = {
      {"echo", false, "echo is unsupported", false},
      {"logprobs", false, "logprobs are unsupported", false},
      {"temperature", 0, "sampling is unsupported", true},
      {"n", 1, "only one choice is supported", true},
      {"best_of", 1, "only one choice is supported", true},
      {"frequency_penalty", 0, "penalties are unsupported", true},
      {"presence_penalty", 0, "penalties are unsupported", true},
  };
  return kFields;
}
constexpr const char* kNotServed[] = {"suffix", "response_format", "logit_bias", "tools", "functions"};
constexpr std::size_t kNotFilled = 3;  // the first of these are not supported by filler either
constexpr const char* kServed[] = {"model",  "prompt",     "messages",         "max_tokens", "max_completion_tokens",
                                   "stream", "ignore_eos", "return_token_ids", "stop",       "stream_options"};
constexpr std::int64_t kMostChoices = 128;
constexpr std::size_t kMostStops = 4, kLongestStop = 1024;  // [bytes]

bool IsKnown(std::string_view field) {
  const auto is = [field](const char* name) { return field == name; };
  return std::ranges::any_of(kServed, is) || std::ranges::any_of(kNotServed, is) ||
         std::ranges::any_of(FixedFields(), [&](const Fixed& fixed) { return is(fixed.field); });
}

// Builds the values of known fields and skips all others. To bound memory, it builds nothing nested deeper than the
// parts of a message's content, and no field of more than `most` elements.
class Filter : public nlohmann::json_sax<Json> {
 public:
  Filter(Json& to, std::size_t most) : build_(to, false), most_(most) {}

  // Returns the error and its field, after parsing has stopped.
  ApiError Fault() const {
    const std::string field = field_.size() <= 64 ? field_ : "";
    const auto wrong = [&](const std::string& what, std::string code) {
      return ApiError{.message = (field.empty() ? "the body" : field) + what, .param = field, .code = std::move(code)};
    };
    if (too_many_) return wrong(fmt::format(" has more than {} elements", most_), "context_length_exceeded");
    if (too_large_) return wrong(" has a number that is too large", "invalid_json");
    return {.message = fmt::format("the body is invalid JSON at byte {}", at_), .code = "invalid_json"};
  }

  bool null() override {
    return Value([&] { return build_.null(); });
  }
  bool boolean(bool value) override {
    return Value([&] { return build_.boolean(value); });
  }
  bool number_integer(Json::number_integer_t value) override {
    return Value([&] { return build_.number_integer(value); });
  }
  bool number_unsigned(Json::number_unsigned_t value) override {
    return Value([&] { return build_.number_unsigned(value); });
  }
  bool number_float(Json::number_float_t value, const std::string& text) override {
    return Value([&] { return build_.number_float(value, text); });
  }
  bool string(std::string& value) override {
    return Value([&] { return build_.string(value); });
  }
  bool binary(Json::binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(std::size_t size) override { return Open(&Build::start_object, size); }
  bool start_array(std::size_t size) override { return Open(&Build::start_array, size); }
  bool end_object() override { return Close(&Build::end_object); }
  bool end_array() override { return Close(&Build::end_array); }
  bool key(std::string& name) override {
    if (skipped_ > 0) return true;
    if (depth_ == 1) {
      field_ = name;
      skip_next_ = !IsKnown(name);
    }
    if (depth_ == kMessage) skip_next_ = name != "role" && name != "content";
    if (depth_ == kDeepest) skip_next_ = name != "type" && name != "text";
    return skip_next_ || build_.key(name);
  }
  bool parse_error(std::size_t at, const std::string&, const Json::exception& error) override {
    at_ = at;
    too_large_ = error.id == 406;  // out_of_range
    return false;
  }

 private:
  using Build = nlohmann::detail::json_sax_dom_parser<Json>;
  // Depths: the body, its list of messages, a message, its list of parts, a part.
  static constexpr int kMessage = 3, kDeepest = 5;

  // Returns false if the field has too many elements.
  bool Count() {
    too_many_ = depth_ >= 2 && ++elements_ > most_;
    return !too_many_;
  }

  template <class F>
  bool Value(F&& build) {
    if (skipped_ > 0 || std::exchange(skip_next_, false)) return true;
    return Count() && build();
  }
  bool Open(bool (Build::*start)(std::size_t), std::size_t size) {
    if (skipped_ == 0 && !std::exchange(skip_next_, false)) {
      if (!Count()) return false;
      const bool body = depth_ > 0 || start == &Build::start_object;
      if (body && depth_ < kDeepest) {
        if (++depth_ == 2) elements_ = 0;
        return (build_.*start)(size);
      }
      build_.null();  // as a placeholder
    }
    ++skipped_;
    return true;
  }
  bool Close(bool (Build::*end)()) {
    if (skipped_ > 0) {
      --skipped_;
      return true;
    }
    --depth_;
    return (build_.*end)();
  }

  Build build_;
  const std::size_t most_;
  std::string field_;            // field of the body that began last
  std::size_t elements_ = 0;     // its elements at any depth
  int depth_ = 0;                // of the built values
  std::size_t skipped_ = 0;      // open structures that are not built
  bool skip_next_ = false;       // the next value belongs to an unknown field
  bool too_many_ = false, too_large_ = false;
  std::size_t at_ = 0;
};

class Parser {
 public:
  Parser(Api api, const ApiLimits& limits) : api_(api), limits_(limits) { request_.api = api; }

  std::variant<ApiRequest, ApiError> Parse(std::string_view text) {
    Filter filter(body_, 2 * (limits_.max_context + 1));  // a message is three elements, and at least two tokens
    if (!Json::sax_parse(text, &filter)) return filter.Fault();
    if (!body_.is_object()) return ApiError{.message = "the body is not a JSON object", .code = "invalid_json"};
    const bool fine = CheckModel() && CheckFixed() && ReadStream() && ReadStop() && ReadChoices() && ReadPrompt() &&
                      ReadMaxTokens() && ReadEnd();
    if (!fine) return std::move(error_);
    return std::move(request_);
  }

 private:
  // Null if the field is absent or null.
  const Json* Find(const char* field) const {
    const auto found = body_.find(field);
    return found == body_.end() || found->is_null() ? nullptr : &*found;
  }
  bool Wrong(std::string field, const std::string& what) {
    error_.message = field + " " + what;
    error_.param = std::move(field);
    return false;
  }

  bool CheckModel() {
    const Json* model = Find("model");
    if (model == nullptr) return true;  // there is only one
    if (!model->is_string()) return Wrong("model", "is not a string");
    if (*model == limits_.model) return true;
    error_.status = 404;
    error_.code = "model_not_found";
    return Wrong("model", fmt::format("is unknown; expected {}", limits_.model));
  }

  bool CheckFixed() {
    for (const Fixed& fixed : FixedFields()) {
      const Json* value = limits_.filler && fixed.filled ? nullptr : Find(fixed.field);
      if (value != nullptr && *value != fixed.value) {
        return Wrong(fixed.field, fmt::format("must be {} or absent: {}", fixed.value.dump(), fixed.why));
      }
    }
    for (const char* field : std::span(kNotServed).first(limits_.filler ? kNotFilled : std::size(kNotServed))) {
      if (const Json* value = Find(field); value != nullptr && !value->empty()) return Wrong(field, "is unsupported");
    }
    return true;
  }

  bool ReadBool(const char* field, bool& to) {
    const Json* value = Find(field);
    if (value == nullptr) return true;
    if (!value->is_boolean()) return Wrong(field, "is neither true nor false");
    to = value->get<bool>();
    return true;
  }
  bool ReadStream() {
    if (!ReadBool("stream", request_.stream) || !ReadBool("return_token_ids", request_.token_ids)) return false;
    const Json* options = Find("stream_options");
    if (options == nullptr) return true;
    if (!options->is_object()) return Wrong("stream_options", "is not an object");
    const auto usage = options->find("include_usage");
    if (usage == options->end() || usage->is_null()) return true;
    if (!usage->is_boolean()) return Wrong("stream_options.include_usage", "is neither true nor false");
    request_.usage = usage->get<bool>();
    return true;
  }

  bool ReadStop() {
    const Json* stop = Find("stop");
    if (stop == nullptr) return true;
    const auto add = [this](const Json& text) {
      if (!text.is_string()) return false;
      request_.stop.push_back(text.get<std::string>());
      return !request_.stop.back().empty() && request_.stop.back().size() <= kLongestStop;
    };
    const bool fine = stop->is_array() ? stop->size() <= kMostStops && std::ranges::all_of(*stop, add) : add(*stop);
    return fine || Wrong("stop", fmt::format("is invalid; expected at most {} texts of 1 to {} bytes", kMostStops,
                                             kLongestStop));
  }

  bool ReadChoices() {
    const Json* n = limits_.filler ? Find("n") : nullptr;
    if (n == nullptr) return true;
    if (!n->is_number_integer() || *n < 1 || *n > kMostChoices) {
      return Wrong("n", fmt::format("is invalid; expected a whole number from 1 to {}", kMostChoices));
    }
    request_.choices = n->get<std::int32_t>();
    return true;
  }

  bool ReadPrompt() {
    if (api_ == Api::kChat) return ReadMessages();
    const Json* prompt = Find("prompt");
    if (prompt == nullptr) return Wrong("prompt", "is missing");
    if (prompt->is_string()) {
      limits_.text->Encode(prompt->get_ref<const std::string&>(), request_.prompt);
    } else if (!prompt->is_array()) {
      return Wrong("prompt", "is invalid; expected a string or a list of tokens");
    } else {
      for (const Json& token : *prompt) {
        const bool known = token.is_number_unsigned() && token.get<std::uint64_t>() < limits_.vocab;
        if (!known) return Wrong("prompt", fmt::format("is invalid; expected tokens below {}", limits_.vocab));
        request_.prompt.push_back(token.get<std::int32_t>());
      }
    }
    return !request_.prompt.empty() || Wrong("prompt", "is empty");
  }

  bool ReadMessages() {
    const Json* messages = Find("messages");
    if (messages == nullptr) return Wrong("messages", "is missing");
    if (!messages->is_array() || messages->empty()) return Wrong("messages", "is invalid; expected a list of messages");
    std::vector<Message> read;
    std::deque<std::string> joined;  // contents of several parts
    for (std::size_t i = 0; i < messages->size(); ++i) {
      const Json& message = (*messages)[i];
      const std::string name = fmt::format("messages[{}]", i);
      if (!message.is_object()) return Wrong(name, "is not an object");
      const auto role = message.find("role"), content = message.find("content");
      const bool known = role != message.end() && (*role == "system" || *role == "user" || *role == "assistant" ||
                                                   (limits_.filler && role->is_string()));
      if (!known) return Wrong(name + ".role", "is invalid; expected system, user or assistant");
      std::string& text = joined.emplace_back();
      if (content == message.end() ? !limits_.filler : !JoinContent(*content, text)) {
        return Wrong(name + ".content", "is invalid; expected a string or a list of parts of text");
      }
      read.push_back({role->get_ref<const std::string&>(), text});
    }
    if (!limits_.text->EncodeChat(read, request_.prompt)) {
      return Wrong("messages", "are unsupported: the model has no chat template");
    }
    return !request_.prompt.empty() || Wrong("messages", "are empty");
  }

  bool JoinContent(const Json& content, std::string& text) const {
    if (content.is_null()) return limits_.filler;  // a call of a tool
    if (content.is_string()) return text = content.get<std::string>(), true;
    return content.is_array() && !content.empty() && std::ranges::all_of(content, [&text](const Json& part) {
             if (!part.is_object() || part.value("type", Json()) != "text") return false;
             const auto found = part.find("text");
             if (found == part.end() || !found->is_string()) return false;
             return text += found->get_ref<const std::string&>(), true;
           });
  }

  bool ReadMaxTokens() {
    const char* field = Find("max_completion_tokens") != nullptr ? "max_completion_tokens" : "max_tokens";
    std::int64_t tokens = kDefaultTokens;
    if (const Json* value = Find(field); value != nullptr) {
      if (!value->is_number_integer()) return Wrong(field, "is not a whole number");
      const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > INT32_MAX;
      tokens = huge ? INT32_MAX : value->get<std::int64_t>();
      if (tokens < 1) return Wrong(field, fmt::format("is {}: must be at least 1", tokens));
    }
    const std::size_t prompt = request_.prompt.size();
    if (prompt + static_cast<std::size_t>(tokens) > limits_.max_context) {
      const char* at_fault = prompt < limits_.max_context ? field : api_ == Api::kChat ? "messages" : "prompt";
      error_.code = "context_length_exceeded";
      return Wrong(at_fault, fmt::format("is too large: {} prompt tokens and {} output tokens exceed the context of {}",
                                         prompt, tokens, limits_.max_context));
    }
    request_.max_tokens = static_cast<std::int32_t>(tokens);
    return true;
  }

  bool ReadEnd() {
    bool ignore_eos = false;
    if (!ReadBool("ignore_eos", ignore_eos)) return false;
    if (!ignore_eos)
      request_.end_token = api_ == Api::kChat ? limits_.text->end_of_turn() : limits_.text->end_of_text();
    return true;
  }

  Api api_;
  const ApiLimits& limits_;
  Json body_;
  ApiRequest request_;
  ApiError error_;
};

// ---- out -----------------------------------------------------------------------------------------------------------

void WriteNullable(JsonWriter& json, std::string_view key, std::string_view value) {
  json.Key(key);
  if (value.empty()) json.Null();
  else json.Value(value);
}

void WriteHead(JsonWriter& json, const ApiAnswer& answer, const char* object) {
  json.BeginObject();
  json.Field("id", fmt::format("{}-{}", answer.api == Api::kChat ? "chatcmpl" : "cmpl", answer.id));
  json.Field("object", object).Field("created", answer.created).Field("model", answer.model);
}

void WriteUsage(JsonWriter& json, const ApiAnswer& answer) {
  json.Key("usage").BeginObject();
  json.Field("prompt_tokens", answer.prompt_tokens).Field("completion_tokens", answer.output_tokens);
  json.Field("total_tokens", answer.prompt_tokens + answer.output_tokens).EndObject();
}

void WriteTokens(JsonWriter& json, const ApiAnswer& answer, std::span<const std::int32_t> tokens) {
  if (!answer.token_ids) return;
  json.Key("token_ids").BeginArray();
  for (const std::int32_t token : tokens) json.Value(token);
  json.EndArray();
}

const char* ChunkOf(Api api) { return api == Api::kChat ? "chat.completion.chunk" : "text_completion"; }

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

}  // namespace

std::variant<ApiRequest, ApiError> ParseRequest(Api api, std::string_view body, const ApiLimits& limits) {
  return Parser(api, limits).Parse(body);
}

std::string ErrorBody(const ApiError& error) {
  JsonWriter json(0);
  json.BeginObject().Key("error").BeginObject();
  json.Field("message", error.message);
  json.Field("type", error.status < 500 ? "invalid_request_error" : "server_error");
  WriteNullable(json, "param", error.param);
  WriteNullable(json, "code", error.code);
  json.EndObject().EndObject();
  return json.Take();
}

ApiError ErrorOf(takt::FailReason reason, std::uint32_t retry_after_ms) {
  const std::string name(takt::Name(reason));
  const int status = takt::HttpStatus(reason);
  const std::uint32_t seconds = std::max((retry_after_ms + 999) / 1000, 1u);
  switch (reason) {
    case takt::FailReason::kNeverFits:
      return {status, "the request needs more KV memory or tokens per step than the engine has", "prompt", name};
    case takt::FailReason::kKvExhausted:
      return {status, "the answer became too long for the KV memory", "max_tokens", name};
    case takt::FailReason::kShed: return {status, "too many requests are waiting", "", name, seconds};
    case takt::FailReason::kQuota: return {status, "too many requests of this tenant are waiting", "", name, seconds};
    case takt::FailReason::kExpired: return {status, "the request waited too long", "", name};
    case takt::FailReason::kDraining: return {status, "the server is shutting down", "", name};
    default: return {status, "the engine failed the request: " + name, "", name};
  }
}

std::string_view FinishReason(End end) { return end == End::kLength ? "length" : end == End::kEndToken ? "stop" : ""; }

std::string AnswerBody(const ApiAnswer& answer, std::span<const ApiPiece> choices) {
  const bool chat = answer.api == Api::kChat;
  JsonWriter json(0);
  WriteHead(json, answer, chat ? "chat.completion" : "text_completion");
  json.Key("choices").BeginArray();
  for (const ApiPiece& piece : choices) {
    json.BeginObject().Field("index", piece.choice);
    if (chat) {
      json.Key("message").BeginObject().Field("role", "assistant").Field("content", piece.text).EndObject();
    } else {
      json.Field("text", piece.text);
    }
    WriteTokens(json, answer, piece.tokens);
    json.Field("finish_reason", FinishReason(piece.end)).EndObject();
  }
  json.EndArray();
  WriteUsage(json, answer);
  json.EndObject();
  return json.Take();
}

std::string StreamEvent(const ApiAnswer& answer, const ApiPiece& piece, bool opens, bool last) {
  const bool chat = answer.api == Api::kChat;
  JsonWriter json(0);
  WriteHead(json, answer, ChunkOf(answer.api));
  json.Key("choices").BeginArray().BeginObject().Field("index", piece.choice);
  if (chat) {
    json.Key("delta").BeginObject();
    if (opens) json.Field("role", "assistant");
    if (!piece.text.empty()) json.Field("content", piece.text);
    json.EndObject();
  } else {
    json.Field("text", piece.text);
  }
  WriteTokens(json, answer, piece.tokens);
  WriteNullable(json, "finish_reason", FinishReason(piece.end));
  json.EndObject().EndArray();
  if (last && !answer.usage) WriteUsage(json, answer);
  json.EndObject();
  return Event(json.Take());
}

std::string StreamUsage(const ApiAnswer& answer) {
  JsonWriter json(0);
  WriteHead(json, answer, ChunkOf(answer.api));
  json.Key("choices").BeginArray().EndArray();
  WriteUsage(json, answer);
  json.EndObject();
  return Event(json.Take());
}

std::string StreamError(const ApiError& error) { return Event(ErrorBody(error)); }

std::string ModelsBody(const ApiLimits& limits) {
  JsonWriter json(0);
  json.BeginObject().Field("object", "list").Key("data").BeginArray().BeginObject();
  json.Field("id", limits.model).Field("object", "model").Field("owned_by", "takt");
  json.Field("max_model_len", limits.max_context).EndObject().EndArray().EndObject();
  return json.Take();
}

}  // namespace serving
