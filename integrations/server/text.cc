#include "text.h"

#include <algorithm>
#include <utility>

namespace serving {
namespace {

// Returns the number of bytes at the end that may begin an incomplete character.
std::size_t Incomplete(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;  // not the first byte
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > n ? n : 0;
  }
  return 0;
}

class Bytes final : public Vocabulary {
 public:
  std::size_t size() const override { return kTextVocab; }
  void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const override {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  }
  // Each message: a mark for the role, the text, a mark for the end. Then the assistant's mark.
  bool EncodeChat(std::span<const Message> messages, std::vector<std::int32_t>& tokens) const override {
    for (const Message& message : messages) {
      tokens.push_back(message.role == "system" ? kSystem : message.role == "user" ? kUser : kAssistant);
      Encode(message.content, tokens);
      tokens.push_back(kEndOfTurn);
    }
    tokens.push_back(kAssistant);
    return true;
  }
  void Decode(std::int32_t token, std::string& bytes) const override {
    if (token < 256) bytes += static_cast<char>(token);
  }
  std::int32_t end_of_text() const override { return kEndOfText; }
  std::int32_t end_of_turn() const override { return kEndOfTurn; }
};

}  // namespace

const Vocabulary& ByteVocabulary() {
  static const Bytes kBytes;
  return kBytes;
}

std::string Decoder::Add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) vocabulary_->Decode(token, held_);
  const std::size_t whole = held_.size() - Incomplete(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string Decoder::Finish() { return std::exchange(held_, {}); }

std::string StopFinder::Add(std::string_view text) {
  if (stops_.empty()) return std::string(text);
  held_ += text;
  std::size_t cut = std::string::npos, open = held_.size();
  for (const std::string& stop : stops_) {
    cut = std::min(cut, held_.find(stop));
    for (std::size_t at = held_.size() - std::min(held_.size(), stop.size() - 1); at < open; ++at) {
      if (std::string_view(stop).starts_with(std::string_view(held_).substr(at))) open = at;
    }
  }
  found_ = cut != std::string::npos;
  std::string passed = held_.substr(0, found_ ? cut : open);
  held_.erase(0, found_ ? std::string::npos : open);
  return passed;
}

}  // namespace serving
