// Converts text to tokens and back.
#ifndef TAKT_INTEGRATIONS_SERVER_TEXT_H_
#define TAKT_INTEGRATIONS_SERVER_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serving {

struct Message {
  std::string_view role, content;  // system, user or assistant
};

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  virtual std::size_t size() const = 0;  // tokens in a prompt must be below
  // Appends the tokens of a text.
  virtual void Encode(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;
  // Appends a conversation up to the assistant's turn. Returns false if the model has no chat template.
  virtual bool EncodeChat(std::span<const Message> messages, std::vector<std::int32_t>& tokens) const = 0;
  virtual void Decode(std::int32_t token, std::string& bytes) const = 0;
  virtual std::int32_t end_of_text() const = 0;  // -1: none
  virtual std::int32_t end_of_turn() const = 0;
};

// One token per byte, and a few marks: a simple, reproducible tokenizer.
const Vocabulary& ByteVocabulary();

enum Mark : std::int32_t { kEndOfText = 256, kEndOfTurn, kSystem, kUser, kAssistant, kFirstUnused };

// Least number of tokens in a text vocabulary; those above the marks are unused.
inline constexpr std::size_t kTextVocab = kFirstUnused;

// Converts tokens to text piece by piece. It holds back the bytes of incomplete characters, so that the pieces join to
// the whole text. Invalid UTF-8 passes unchanged. Marks have no text.
class Decoder {
 public:
  explicit Decoder(const Vocabulary& vocabulary = ByteVocabulary()) : vocabulary_(&vocabulary) {}
  std::string Add(std::span<const std::int32_t> tokens);
  std::string Finish();  // the bytes held back

 private:
  const Vocabulary* vocabulary_;
  std::string held_;
};

// Cuts a text that comes piece by piece at the first of some texts. It holds back what may be the start of one.
class StopFinder {
 public:
  explicit StopFinder(std::vector<std::string> stops = {}) : stops_(std::move(stops)) {}
  // Returns the text to pass on. Nothing follows after a stop was found.
  std::string Add(std::string_view text);
  std::string Finish() { return std::exchange(held_, {}); }  // the text held back
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_TEXT_H_
