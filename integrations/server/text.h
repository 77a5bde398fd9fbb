// Text as tokens, and back.
#ifndef TAKT_INTEGRATIONS_SERVER_TEXT_H_
#define TAKT_INTEGRATIONS_SERVER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace serving {

struct Message {
  std::string_view role, content;  // system, user or assistant
};

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::size_t size() const = 0;  // tokens that may stand in a prompt are below
  // Appends.
  virtual void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;
  // A conversation up to where the assistant speaks. False: the model has no form for it.
  virtual bool EncodeChat(std::span<const Message> messages, std::vector<std::int32_t>& tokens) const = 0;
  virtual void Decode(std::int32_t token, std::string& bytes) const = 0;
  virtual std::int32_t end_of_text() const = 0;  // -1: none
  virtual std::int32_t end_of_turn() const = 0;
};

// One token a byte, and a few marks: a tokenizer that any tool can follow.
const Vocabulary& ByteVocabulary();

enum Mark : std::int32_t { kEndOfText = 256, kEndOfTurn, kSystem, kUser, kAssistant, kFirstUnused };

// A vocabulary that speaks text has this many tokens at least; those above the marks stand for nothing.
inline constexpr std::size_t kTextVocab = kFirstUnused;

// Tokens back into text, piece by piece: bytes of a character that is not whole yet are held back, so that the pieces
// together are what all tokens give at once. Bytes that are no UTF-8 stay as they are. Marks give nothing.
class Decoder {
 public:
  explicit Decoder(const Vocabulary& vocabulary = ByteVocabulary()) : vocabulary_(&vocabulary) {}
  std::string Add(std::span<const std::int32_t> tokens);
  std::string Finish();  // what was held back

 private:
  const Vocabulary* vocabulary_;
  std::string held_;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_TEXT_H_
