#include "tool/observe/openai_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"
#include "httplib.h"
#include "nlohmann/json.hpp"

namespace takt::tool {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestEvent = 1 << 22;  // [bytes]
constexpr std::size_t kShownBytes = 200;  // of a server's message

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
  return std::clamp<std::int64_t>(number->get<std::int64_t>(), 0, INT32_MAX);
}

bool HasText(const Json& choice) {
  const Json* delta = Member(choice, "delta");
  for (const Json* text : {Member(choice, "text"), delta == nullptr ? nullptr : Member(*delta, "content"),
                           delta == nullptr ? nullptr : Member(*delta, "reasoning_content")}) {
    if (text != nullptr && text->is_string() && !text->get_ref<const std::string&>().empty()) return true;
  }
  return false;
}

}  // namespace

bool StreamReader::Read(std::string_view piece, const std::function<void()>& token) {
  held_ += piece;
  std::size_t at = 0;
  for (std::size_t end; fault_.empty() && (end = held_.find('\n', at)) != std::string::npos; at = end + 1) {
    std::string_view line = std::string_view(held_).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) ReadEvent(line.substr(line.starts_with("data: ") ? 6 : 5), token);
  }
  held_.erase(0, at);
  if (held_.size() > kLongestEvent)
    fault_ = fmt::format("damaged stream: an event of more than {} bytes", kLongestEvent);
  return fault_.empty();
}

void StreamReader::ReadEvent(std::string_view data, const std::function<void()>& token) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object()) {
    fault_ = fmt::format("damaged stream: an event is no JSON object: {}", Shown(data));
    return;
  }
  if (const Json* error = Member(event, "error")) {
    const Json* message = Member(*error, "message");
    fault_ = "the server's error: " +
             Shown(message != nullptr && message->is_string() ? message->get<std::string>() : error->dump());
    return;
  }
  if (const Json* usage = Member(event, "usage")) {
    prompt_tokens_ = Count(*usage, "prompt_tokens");
    output_tokens_ = Count(*usage, "completion_tokens");
  }
  const Json* choices = Member(event, "choices");
  if (choices != nullptr && choices->is_array() && std::ranges::any_of(*choices, HasText)) token();
}

ObservedRequest Observe(httplib::Client& client, const std::string& path, const std::string& body) {
  using Clock = std::chrono::steady_clock;
  ObservedRequest observed;
  StreamReader reader;
  int status = 0;
  std::string refusal;
  httplib::Request request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  request.set_header("Content-Type", "application/json");
  request.response_handler = [&](const httplib::Response& response) {
    observed.connected = true;
    status = response.status;
    return true;
  };
  request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    const std::string_view piece(data, size);
    if (status == 200) return reader.Read(piece, [&] { observed.chunks.push_back(Clock::now()); });
    if (refusal.size() < kShownBytes) refusal += piece.substr(0, kShownBytes);
    return true;
  };
  observed.sent = Clock::now();
  const httplib::Result result = client.send(request);
  observed.end = Clock::now();
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
