// Text as tokens: one a byte, and a few marks. A tokenizer that any tool can follow.
#ifndef TAKT_EXAMPLES_TINY_ENGINE_TEXT_H_
#define TAKT_EXAMPLES_TINY_ENGINE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tiny {

enum Mark : std::int32_t { kEndOfText = 256, kEndOfTurn, kSystem, kUser, kAssistant, kFirstUnused };

// A vocabulary that speaks text has this many tokens at least; those above the marks stand for nothing.
inline constexpr std::size_t kTextVocab = kFirstUnused;

void Encode(std::string_view text, std::vector<std::int32_t>& tokens);

// Tokens back into text, piece by piece: bytes of a character that is not whole yet are held back, so that the pieces
// together are what all tokens give at once. Bytes that are no UTF-8 stay as they are. Marks give nothing.
class Decoder {
 public:
  std::string Add(std::span<const std::int32_t> tokens);
  std::string Finish();  // what was held back

 private:
  std::string held_;
};

}  // namespace tiny

#endif  // TAKT_EXAMPLES_TINY_ENGINE_TEXT_H_
