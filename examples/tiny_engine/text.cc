#include "text.h"

#include <algorithm>
#include <utility>

namespace tiny {
namespace {

// How many bytes at the end may be the beginning of a character.
std::size_t Incomplete(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if ((byte & 0xc0) == 0x80) continue;  // inside of one
    const std::size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > n ? n : 0;
  }
  return 0;
}

}  // namespace

void Encode(std::string_view text, std::vector<std::int32_t>& tokens) {
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
}

std::string Decoder::Add(std::span<const std::int32_t> tokens) {
  for (const std::int32_t token : tokens) {
    if (token < 256) held_ += static_cast<char>(token);
  }
  const std::size_t whole = held_.size() - Incomplete(held_);
  std::string text = held_.substr(0, whole);
  held_.erase(0, whole);
  return text;
}

std::string Decoder::Finish() { return std::exchange(held_, {}); }

}  // namespace tiny
