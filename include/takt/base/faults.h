// Collects all errors of an input, to report them together.
#ifndef TAKT_BASE_FAULTS_H_
#define TAKT_BASE_FAULTS_H_

#include <algorithm>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "absl/status/status.h"
#include "takt/base/spec.h"

namespace takt {

// Errors of options or of a problem, one per line. After kMostShown errors, further ones are only counted.
class Faults {
 public:
  static constexpr int kMostShown = 20;

  // Adds "field is value: wish" unless `fine`. `value` is a number or text.
  template <class Value>
  void Expect(bool fine, std::string_view field, const Value& value, std::string_view wish) {
    if (!fine) Add(std::string(field) + " is " + Text(value) + ": " + std::string(wish));
  }
  void Expect(bool fine, std::string_view fault) {
    if (!fine) Add(fault);
  }
  void Add(std::string_view fault) {
    if (++count_ > kMostShown) return;
    if (count_ > 1) text_ += '\n';
    text_ += fault;
  }

  // Adds "option is value: must be ..." if the option does not allow the value.
  template <class Value>
  void ExpectOption(std::string_view option, const Value& value, const OptionText& text) {
    if (Within(value, text)) return;
    const std::string meaning = text.meaning.empty() ? "" : " (" + std::string(text.meaning) + ")";
    Expect(false, option, OptionToText(value), WishOf(value, text) + meaning);
  }
  // Checks all options of a struct; `where` is the prefix of their names.
  template <ListsOptions T>
  void ExpectOptions(const T& options, const std::string& where = "") {
    VisitOptions(options, [&](std::string_view name, const auto& value, const OptionText& text) {
      ExpectOption(where + std::string(name), value, text);
    });
  }

  // Adds "option is value: cannot change from value" for each option that differs and is not in T::kMayChange.
  template <ListsOptions T>
  void ExpectChange(const T& from, const T& to) {
    VisitOptions(to, [&](std::string_view name, const auto& value, const OptionText&) {
      VisitOptions(from, [&](std::string_view other, const auto& now, const OptionText&) {
        if constexpr (std::same_as<decltype(now), decltype(value)>) {
          if (name != other || value == now || std::ranges::find(T::kMayChange, name) != T::kMayChange.end()) return;
          Add(std::string(name) + " is " + OptionToText(value) + ": cannot change from " + OptionToText(now));
        }
      });
    });
  }

  bool empty() const { return count_ == 0; }

  // Returns InvalidArgument with the text, or Ok if there are no errors.
  absl::Status ToStatus() const {
    if (empty()) return absl::OkStatus();
    const int more = count_ - kMostShown;
    return absl::InvalidArgumentError(more > 0 ? text_ + "\nand " + std::to_string(more) + " more" : text_);
  }

 private:
  template <class Value>
  static std::string Text(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value>) {
      char digits[32];  // the longest double has 24 characters
      return {digits, std::to_chars(digits, digits + sizeof digits, value).ptr};
    } else {
      return std::string(std::string_view(value));
    }
  }

  std::string text_;
  int count_ = 0;
};

}  // namespace takt

#endif  // TAKT_BASE_FAULTS_H_
