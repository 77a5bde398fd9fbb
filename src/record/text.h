// Prints the content of a log as text.
#ifndef TAKT_SRC_RECORD_TEXT_H_
#define TAKT_SRC_RECORD_TEXT_H_

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "record/codec.h"
#include "record/fields.h"

namespace takt::internal {

// Text(x) is short, and differs for different values.
class Printer {
 public:
  explicit Printer(std::string& out) : out_(out) {}

  template <class T>
    requires std::integral<T>
  void Text(T x) {
    if constexpr (std::same_as<T, bool>) {
      out_ += x ? "true" : "false";
    } else {
      Add(x);
    }
  }
  // Returns the shortest text that reads back as x, with an exponent instead of many zeros.
  template <std::floating_point T>
  void Text(T x) {
    const T size = std::fabs(x);
    const bool fixed = size == 0 || (size >= static_cast<T>(1e-4) && size < static_cast<T>(1e16));
    Add(x, fixed ? std::chars_format::fixed : std::chars_format::general);
  }
  template <class E>
    requires std::is_enum_v<E>
  void Text(E x) {
    if constexpr (requires { Name(x); }) {
      out_ += Name(x);
    } else {
      Text(static_cast<int>(x));
    }
  }
  template <class Tag>
  void Text(Id<Tag> x) {
    Text(x.value);
  }
  template <class Tag>
  void Text(Count<Tag> x) {
    Text(x.value);
  }
  void Text(Duration x) {
    Add(ToSeconds(x), std::chars_format::fixed, 9);
    out_ += 's';
  }
  void Text(TimePoint x) {
    if (x == kNever || x == kUnset) {
      out_ += x == kNever ? "never" : "unset";
    } else {
      Text(x.time_since_epoch());
    }
  }
  void Text(std::string_view x) { out_ += x; }
  void Text(const Estimate& x) {
    Text(x.mean);
    if (Same(x, Estimate::Exact(x.mean))) return;
    Text(std::vector(x.quantiles.begin(), x.quantiles.end()));
  }
  template <class T>
  void Text(const std::optional<T>& x) {
    if (x) Text(*x);
  }
  template <class T>
  void Text(const std::vector<T>& x) {
    List(x);
  }
  void Text(const ClassLimitsList& x) { List(std::span<const ClassLimits>(x)); }
  template <class T>
  void Text(std::span<const T> x) {
    List(x);
  }
  void Text(const std::shared_ptr<const AgentRanks>& x) { Text(x ? *x : AgentRanks{}); }
  void Text(std::span<const ModelScore>) {}

  template <HasFields T>
  void Text(const T& x) {
    out_ += '{';
    Pairs(x, "");
    out_ += '}';
  }

  // Prints name=value of the fields that differ from `base`.
  template <HasFields T>
  void Pairs(const T& x, std::string_view between, const T& base = {}) {
    const auto all = FieldNames(static_cast<const T*>(nullptr));
    std::string_view names = all;
    std::string_view gap = between;
    const auto pair = [&](const auto& field, const auto& other) {
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(names.size(), name.size() + 2));
      if (Same(field, other)) return;
      out_ += gap;
      out_ += name;
      out_ += '=';
      Text(field);
      gap = " ";
    };
    std::apply([&](const auto&... a) { std::apply([&](const auto&... b) { (pair(a, b), ...); }, Fields(base)); },
               Fields(x));
  }

 private:
  template <class Range>
  void List(const Range& x) {
    out_ += '[';
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i > 0) out_ += ' ';
      Text(static_cast<const typename Range::value_type&>(x[i]));
    }
    out_ += ']';
  }

  template <class... Form>
  void Add(Form... form) {
    char text[64];
    out_.append(text, std::to_chars(text, text + sizeof text, form...).ptr);
  }

  std::string& out_;
};

template <class... T>
std::string TextOf(const T&... parts) {
  std::string text;
  (Printer(text).Text(parts), ...);
  return text;
}

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_TEXT_H_
