// One streamed request to an OpenAI-compatible server.
#ifndef TAKT_SRC_TOOL_OBSERVE_OPENAI_STREAM_H_
#define TAKT_SRC_TOOL_OBSERVE_OPENAI_STREAM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace httplib {
class Client;
}  // namespace httplib

namespace takt::tool {

// Events of a streamed answer, which comes in pieces of any size.
class StreamReader {
 public:
  explicit StreamReader(std::int64_t most_events) : most_events_(most_events) {}

  // Reads a piece. Calls token() for each event with a token. Returns false after the end mark or damage.
  bool Read(std::string_view piece, const std::function<void()>& token);

  bool done() const { return done_; }  // the end mark has come
  const std::string& fault() const { return fault_; }  // damage, or the server's error; empty: none
  std::int64_t prompt_tokens() const { return prompt_tokens_; }  // of the usage; 0: none
  std::int64_t output_tokens() const { return output_tokens_; }

 private:
  void ReadEvent(std::string_view data, const std::function<void()>& token);

  std::int64_t most_events_;  // more are damage
  std::int64_t events_ = 0;
  std::string held_;  // an incomplete line
  std::size_t skipped_ = 0;  // bytes since the last event, such as comments
  bool done_ = false;
  std::string fault_;
  std::int64_t prompt_tokens_ = 0, output_tokens_ = 0;
  std::int64_t tokens_ = 0;  // events with a token
  bool end_without_text_ = false, told_role_ = false;
};

struct ObservedRequest {
  using Time = std::chrono::steady_clock::time_point;

  Time sent = {}, end = {};
  std::vector<Time> chunks = {};  // arrival of each event with a token
  std::int64_t prompt_tokens = 0, output_tokens = 0;  // of the usage; 0: none
  bool connected = false;  // the server has not refused the connection
  std::string fault = {};  // empty: the answer is complete
};

// Sends the body to the path, and reads the answer until its end. An answer has at most two events per token of
// max_tokens, and a few others.
ObservedRequest Observe(httplib::Client& client, const std::string& path, const std::string& body,
                        std::int32_t max_tokens);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_OBSERVE_OPENAI_STREAM_H_
