// Requests over HTTP, and the texts of refusals.
#include "protocol.h"

#include <string>
#include <variant>
#include <vector>

#include "catch.h"
#include "nlohmann/json.hpp"
#include "takt/base/random.h"
#include "text.h"

namespace serving {
namespace {

using Json = nlohmann::json;

const ApiLimits kLimits = {"tiny", 64, kTextVocab};

ApiRequest Asked(Api api, const std::string& body) {
  auto parsed = ParseRequest(api, body, kLimits);
  if (const ApiError* error = std::get_if<ApiError>(&parsed)) FAIL(error->message);
  return std::get<ApiRequest>(parsed);
}

ApiError Refused(Api api, const std::string& body) {
  auto parsed = ParseRequest(api, body, kLimits);
  INFO(body.substr(0, 80));
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed);
}

TEST_CASE("a completion is read") {
  const ApiRequest r = Asked(Api::kCompletion, R"({"model": "tiny", "prompt": "aé", "max_tokens": 7, "stream": true,
      "temperature": 0.0, "n": 1, "echo": false, "user": "somebody", "stop": null, "tools": []})");
  CHECK(r.prompt == std::vector<std::int32_t>{'a', 0xc3, 0xa9});
  CHECK(r.max_tokens == 7);
  CHECK(r.stream);
  CHECK(r.end_token == kEndOfText);
  const ApiRequest tokens = Asked(Api::kCompletion, R"({"prompt": [0, 260], "ignore_eos": true})");
  CHECK(tokens.prompt == std::vector<std::int32_t>{0, 260});
  CHECK(tokens.max_tokens == 16);
  CHECK(tokens.end_token == -1);
  CHECK_FALSE(tokens.stream);
}

TEST_CASE("a chat is read as one context") {
  const ApiRequest r = Asked(Api::kChat, R"({"messages": [{"role": "system", "content": "s"},
      {"role": "user", "content": ""}, {"role": "assistant", "content": "a"}], "max_completion_tokens": 2})");
  CHECK(r.prompt == std::vector<std::int32_t>{kSystem, 's', kEndOfTurn, kUser, kEndOfTurn, kAssistant, 'a', kEndOfTurn,
                                              kAssistant});
  CHECK(r.max_tokens == 2);
  CHECK(r.end_token == kEndOfTurn);
}

TEST_CASE("every refusal names its field") {
  struct Case {
    const char* body;
    const char* param;
    int status = 400;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {"{", ""},
           {"[1]", ""},
           {"\"text\"", ""},
           {"\xff\xfe", ""},
           {R"({"prompt": "\ud800"})", ""},
           {"{}", "prompt"},
           {R"({"prompt": ""})", "prompt"},
           {R"({"prompt": []})", "prompt"},
           {R"({"prompt": {}})", "prompt"},
           {R"({"prompt": [-1]})", "prompt"},
           {R"({"prompt": [99999999999999999999]})", "prompt"},
           {R"({"prompt": [1.5]})", "prompt"},
           {R"({"prompt": ["a", "b"]})", "prompt"},
           {R"({"prompt": "x", "model": "gpt-4"})", "model", 404},
           {R"({"prompt": "x", "model": 4})", "model"},
           {R"({"prompt": "x", "max_tokens": -5})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 0})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 1.5})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": "7"})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 64})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 18446744073709551615})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 1e30})", "max_tokens"},
           {R"({"prompt": "x", "stream": 1})", "stream"},
           {R"({"prompt": "x", "temperature": 0.7})", "temperature"},
           {R"({"prompt": "x", "n": 2})", "n"},
           {R"({"prompt": "x", "stop": [5]})", "stop"},
           {R"({"prompt": "x", "ignore_eos": "no"})", "ignore_eos"},
           {R"({"prompt": "x", "max_tokens": 1e400})", "max_tokens"},
           {R"({"prompt": "x", "temperature": -1e400})", "temperature"},
           {R"({"prompt": [1, 1e400]})", "prompt"},
           {R"({"prompt": "x", "whatever": {"a": [1e400]}})", "whatever"},
           {R"({"prompt": "x", "max_tokens": NaN})", ""},
           {R"({"prompt": "x", "max_tokens": -0})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": -9223372036854775808})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 18446744073709551616})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": [[[[5]]]]})", "max_tokens"},
           {R"({"prompt": "x", "max_tokens": 5, "max_tokens": -5})", "max_tokens"},
           {R"({"prompt": "x", "tools": {"a": {"b": {"c": {}}}}})", "tools"},
           {"{\"prompt\": \"\xc3\x28\"}", ""},
           {"1e400", ""},
       }) {
    INFO(c.body);
    const ApiError error = Refused(Api::kCompletion, c.body);
    CHECK(error.status == c.status);
    CHECK(error.param == c.param);
    const Json body = Json::parse(ErrorBody(error));
    CHECK(body["error"]["message"].get<std::string>().find(c.param) == 0);
    CHECK(body["error"]["type"] == "invalid_request_error");
  }
  CHECK(Refused(Api::kCompletion, R"({"prompt": ")" + std::string(64, 'x') + R"("})").param == "prompt");
  CHECK(Refused(Api::kChat, R"({"prompt": "x"})").param == "messages");
  CHECK(Refused(Api::kChat, R"({"messages": []})").param == "messages");
  CHECK(Refused(Api::kChat, R"({"messages": [3]})").param == "messages[0]");
  CHECK(Refused(Api::kChat, R"({"messages": [{"role": "judge", "content": ""}]})").param == "messages[0].role");
  CHECK(Refused(Api::kChat, R"({"messages": [{"role": "user", "content": []}]})").param == "messages[0].content");
}

TEST_CASE("unknown fields are skipped with any values") {
  const ApiRequest r = Asked(Api::kCompletion, R"({"x": {"prompt": "no", "max_tokens": [{"stream": 1}, []]}, "y": [[]],
      "prompt": "x", "z": {}, "max_tokens": 3, "prompt ": 1})");
  CHECK(r.prompt == std::vector<std::int32_t>{'x'});
  CHECK(r.max_tokens == 3);
}

TEST_CASE("a list ends with the context") {
  std::string tokens = "1", messages = R"({"role": "user", "content": ""})";
  for (int i = 0; i < 140; ++i) tokens += ",1", messages += ",{}";
  for (const ApiError& error : {Refused(Api::kCompletion, R"({"prompt": [)" + tokens + "]}"),
                                Refused(Api::kChat, R"({"messages": [)" + messages + "]}")}) {
    CHECK(error.code == "context_length_exceeded");
    CHECK(error.message.find("has more than 130 elements") != std::string::npos);
  }
  CHECK(Refused(Api::kCompletion, R"({"prompt": "x", "x": [)" + tokens + R"(], "max_tokens": 0})").param ==
        "max_tokens");
  CHECK(Refused(Api::kCompletion, "{\"" + std::string(100'000, 'x') + "\": 1e400}").message.size() < 100);
}

TEST_CASE("no bytes crash the parser") {
  std::string nested = R"({"messages": [{"role": "user", "content": )";
  for (int i = 0; i < 400'000; ++i) nested += '[';
  for (int i = 0; i < 400'000; ++i) nested += ']';
  CHECK(Refused(Api::kChat, nested + "}]}").param == "messages[0].content");
  CHECK(Refused(Api::kChat, std::string(1 << 20, '[')).param.empty());
  std::string deep = R"({"prompt": )";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  for (int i = 0; i < 100'000; ++i) deep += ']';
  CHECK(Refused(Api::kCompletion, deep + "}").param == "prompt");
  takt::Random random(1);
  const std::string whole = R"({"messages": [{"role": "user", "content": "hé"}], "max_tokens": 3, "stream": true})";
  for (int i = 0; i < 20'000; ++i) {
    std::string body = whole;
    for (std::uint64_t flips = 1 + random.Below(4); flips > 0; --flips) {
      body[random.Below(body.size())] = static_cast<char>(random.Below(256));
    }
    (void)ParseRequest(Api::kChat, body, kLimits);
  }
}

TEST_CASE("answers have OpenAI's fields") {
  ApiAnswer a{Api::kCompletion, 7, 1234, "tiny", 3, 5};
  Json j = Json::parse(AnswerBody(a, std::vector<ApiPiece>{{.text = "text \"\n\xff", .end = End::kLength}}));
  CHECK(j["id"] == "cmpl-7");
  CHECK(j["object"] == "text_completion");
  CHECK(j["choices"][0]["text"] == "text \"\n\xef\xbf\xbd");
  CHECK(j["choices"][0]["finish_reason"] == "length");
  CHECK(j["usage"] == Json({{"prompt_tokens", 3}, {"completion_tokens", 5}, {"total_tokens", 8}}));
  const std::string event = StreamEvent(a, {"x"}, true, false);
  CHECK(event.starts_with("data: {"));
  CHECK(event.ends_with("}\n\n"));
  j = Json::parse(event.substr(6));
  CHECK(j["choices"][0]["finish_reason"].is_null());
  CHECK_FALSE(j.contains("usage"));
  a.api = Api::kChat;
  j = Json::parse(AnswerBody(a, std::vector<ApiPiece>{{.text = "hi", .end = End::kEndToken}}));
  CHECK(j["choices"][0]["message"] == Json({{"role", "assistant"}, {"content", "hi"}}));
  CHECK(j["choices"][0]["finish_reason"] == "stop");
  j = Json::parse(StreamEvent(a, {"hi"}, true, false).substr(6));
  CHECK(j["choices"][0]["delta"] == Json({{"role", "assistant"}, {"content", "hi"}}));
  j = Json::parse(StreamEvent(a, {.text = "", .end = End::kLength}, false, true).substr(6));
  CHECK(j["choices"][0]["delta"].empty());
  for (int reason = 0; reason < static_cast<int>(NamesOf(takt::FailReason{}).size()); ++reason) {
    CHECK(Json::parse(ErrorBody(ErrorOf(static_cast<takt::FailReason>(reason))))["error"].is_object());
  }
}

TEST_CASE("text in pieces equals the whole text") {
  takt::Random random(3);
  const std::string alphabet[] = {"a", "\n", "é", "€", "𝄞", "\xff", "\xc3", "\xe2\x82", "\xf0\x9d"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint64_t n = random.Below(12); n > 0; --n) text += alphabet[random.Below(std::size(alphabet))];
    std::vector<std::int32_t> tokens;
    ByteVocabulary().Encode(text, tokens);
    Decoder decoder;
    std::string pieces;
    for (std::size_t at = 0; at < tokens.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random.Below(3), tokens.size() - at);
      pieces += decoder.Add(std::span(tokens).subspan(at, n));
      at += n;
    }
    pieces += decoder.Finish();
    CHECK(pieces == text);
  }
  // A character is never split.
  Decoder decoder;
  CHECK(decoder.Add(std::vector<std::int32_t>{0xf0, 0x9d, 0x84}).empty());
  CHECK(decoder.Add(std::vector<std::int32_t>{0x9e, 'x', kEndOfText, 0xc3}) == "\xf0\x9d\x84\x9ex");
  CHECK(decoder.Finish() == "\xc3");
}

}  // namespace
}  // namespace serving
