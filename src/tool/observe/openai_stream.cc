#include "tool/observe/openai_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "takt/workload/workload.h"

namespace takt::tool {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestEvent = 1 << 22;  // [bytes]
constexpr std::size_t kShownBytes = 200;  // of a server's message
constexpr int kDeepestEvent = 64;  // brackets in brackets
constexpr std::int64_t kMoreEvents = 64;  // events without a token, such as the usage
constexpr std::int64_t kMostTokens = kMaxContextTokens / 4;  // believed of a usage, so that files stay valid

std::string Shown(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  std::ranges::replace_if(shown, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, ' ');
  return shown;
}

const Json* Member(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return !json.is_object() || found == json.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t Count(const Json& usage, const char* key) {
  const Json* number = Member(usage, key);
  if (number == nullptr || !number->is_number_integer()) return 0;
  return std::clamp<std::int64_t>(number->get<std::int64_t>(), 0, kMostTokens);
}

// Returns true if the brackets of a JSON text nest deeper than kDeepestEvent.
bool TooDeep(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size() && depth <= kDeepestEvent; ++i) {
    if (json[i] == '"') quoted = !quoted;
    else if (quoted) i += json[i] == '\\' ? 1u : 0u;
    else if (json[i] == '{' || json[i] == '[') ++depth;
    else if (json[i] == '}' || json[i] == ']') --depth;
  }
  return depth > kDeepestEvent;
}

bool HasText(const Json* value) {
  return value != nullptr && value->is_string() && !value->get_ref<const std::string&>().empty();
}

enum class Told : std::uint8_t { kNothing, kToken, kEnd };

// Reads a choice of an event. A server holds back the text of a token that ends inside a character. So an event without
// text is a token, too, unless it only names the role or the end.
Told ToldBy(const Json& choice, bool& told_role) {
  const Json* delta = Member(choice, "delta");
  bool text = HasText(Member(choice, "text")), empty = Member(choice, "text") != nullptr;
  if (delta != nullptr) {
    for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"})
      text |= HasText(Member(*delta, key));
    const Json* calls = Member(*delta, "tool_calls");
    text |= calls != nullptr && !calls->empty();
    // Some servers name the role in each event.
    const bool role = Member(*delta, "role") != nullptr && !std::exchange(told_role, true);
    empty |= Member(*delta, "content") != nullptr && !role;
  }
  if (text) return Told::kToken;
  if (HasText(Member(choice, "finish_reason"))) return Told::kEnd;
  return empty ? Told::kToken : Told::kNothing;
}

}  // namespace

bool StreamReader::Read(std::string_view piece, const std::function<void()>& token) {
  held_ += piece;
  std::size_t at = 0;
  for (std::size_t end; fault_.empty() && !done_ && (end = held_.find('\n', at)) != std::string::npos; at = end + 1) {
    std::string_view line = std::string_view(held_).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      ReadEvent(line.substr(line.starts_with("data: ") ? 6 : 5), token);
      skipped_ = 0;
    } else if ((skipped_ += line.size() + 1) > kLongestEvent) {
      fault_ = fmt::format("damaged stream: {} bytes without an event", kLongestEvent);
    }
  }
  held_.erase(0, at);
  if (held_.size() > kLongestEvent)
    fault_ = fmt::format("damaged stream: an event of more than {} bytes", kLongestEvent);
  return fault_.empty() && !done_;
}

void StreamReader::ReadEvent(std::string_view data, const std::function<void()>& token) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  if (events_++ == most_events_) {
    fault_ = fmt::format("damaged stream: more than {} events", most_events_);
    return;
  }
  if (TooDeep(data)) {
    fault_ = fmt::format("damaged stream: an event of more than {} levels", kDeepestEvent);
    return;
  }
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object()) {
    fault_ = fmt::format("damaged stream: an event is no JSON object: {}", Shown(data));
    return;
  }
  if (const Json* error = Member(event, "error")) {
    const Json* message = error->is_string() ? error : Member(*error, "message");
    const bool text = message != nullptr && message->is_string();
    fault_ = "the server's error: " + (text ? Shown(message->get_ref<const std::string&>()) : "(no message)");
    return;
  }
  if (const Json* usage = Member(event, "usage")) {
    for (const auto& [count, key] :
         {std::pair(&prompt_tokens_, "prompt_tokens"), {&output_tokens_, "completion_tokens"}}) {
      if (const std::int64_t told = Count(*usage, key); told > 0) *count = told;
    }
  }
  const Json* choices = Member(event, "choices");
  if (choices != nullptr && choices->is_array()) {
    bool came = false;
    for (const Json& choice : *choices) {
      const Told told = ToldBy(choice, told_role_);
      came |= told == Told::kToken;
      end_without_text_ |= told == Told::kEnd;
    }
    if (came) ++tokens_, token();
  }
  // Some servers send the only token with the end, and its text may have been held back.
  if (end_without_text_ && tokens_ == 0 && output_tokens_ > 0) ++tokens_, token();
}

ObservedRequest Observe(httplib::Client& client, const std::string& path, const std::string& body,
                        std::int32_t max_tokens) {
  using Steady = std::chrono::steady_clock;
  ObservedRequest observed;
  StreamReader reader(2 * std::int64_t{max_tokens} + kMoreEvents);
  int status = 0;
  std::string refusal;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    const std::string_view piece(data, size);
    if (status == 200) return reader.Read(piece, [&] { observed.chunks.push_back(Steady::now()); });
    refusal += piece.substr(0, kShownBytes);
    return refusal.size() < kShownBytes;
  };
  observed.sent = Steady::now();
  const httplib::Result result = client.send(request);
  observed.end = Steady::now();
  observed.connected = status != 0 || (result.error() != httplib::Error::Connection &&
                                       result.error() != httplib::Error::ConnectionTimeout);
  observed.prompt_tokens = reader.prompt_tokens(), observed.output_tokens = reader.output_tokens();
  if (!reader.fault().empty()) {
    observed.fault = reader.fault();
  } else if (status != 0 && status != 200) {
    observed.fault = fmt::format("status {}: {}", status, Shown(refusal));
  } else if (!result && !reader.done()) {
    observed.fault =
        fmt::format("{}: {}", status == 0 ? "no answer" : "the stream ended early", httplib::to_string(result.error()));
  } else if (!reader.done()) {
    observed.fault = "the stream ended early, without [DONE]";
  }
  return observed;
}

}  // namespace takt::tool
