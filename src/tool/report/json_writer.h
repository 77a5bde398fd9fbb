// Writes JSON text from front to back. Numbers are the shortest that read back as the same double.
#ifndef TAKT_SRC_TOOL_REPORT_JSON_WRITER_H_
#define TAKT_SRC_TOOL_REPORT_JSON_WRITER_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace takt::tool {

// Returns the string as JSON with quotes. Invalid UTF-8 becomes U+FFFD.
std::string JsonString(std::string_view text);

class JsonWriter {
 public:
  // Indent of 0: all on one line.
  explicit JsonWriter(int indent = 2) : indent_(indent) {}

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text) { return Raw(JsonString(text)); }
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(bool yes) { return Raw(yes ? "true" : "false"); }
  JsonWriter& Value(double number);  // null if it is not finite
  JsonWriter& Null() { return Raw("null"); }
  template <std::integral I>
  JsonWriter& Value(I number) {
    return Raw(std::to_string(number));
  }

  template <class T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }

  // Returns the text written so far and clears it.
  std::string Take() { return std::exchange(text_, {}); }
  std::size_t size() const { return text_.size(); }

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  JsonWriter& Raw(std::string_view text);
  void Separate();
  void NewLine();

  std::string text_;
  int indent_;
  int depth_ = 0;
  bool first_ = true;  // the innermost bracket is still empty
  bool after_key_ = false;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_JSON_WRITER_H_
