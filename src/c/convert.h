// Converts fields between C and C++. fields.h lists the pairs of fields.
#ifndef TAKT_SRC_C_CONVERT_H_
#define TAKT_SRC_C_CONVERT_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "c/fields.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt::c {

inline TimePoint At(std::int64_t ns) { return TimePoint(Duration(ns)); }
inline std::int64_t Ns(TimePoint t) { return t.time_since_epoch().count(); }

// Views an array as one of a type with the same bits.
template <class C, class Cxx>
const C* AsC(const Cxx* array) {
  static_assert(sizeof(C) == sizeof(Cxx) && alignof(C) == alignof(Cxx));
  return reinterpret_cast<const C*>(array);
}
template <class Cxx, class C>
const Cxx* FromC(const C* array) {
  static_assert(sizeof(C) == sizeof(Cxx) && alignof(C) == alignof(Cxx));
  return reinterpret_cast<const Cxx*>(array);
}

// Copies by field rather than by bits, so that padding is zero.
inline takt_estimate Of(const Estimate& estimate) {
  takt_estimate to{};
  to.mean = estimate.mean;
  std::ranges::copy(estimate.quantiles, to.quantiles);
  return to;
}

// Converts C structs that were checked to be Sound.
struct IntoCxx {
  template <class Tag>
  void operator()(std::uint64_t c, Id<Tag>& t) const {
    t = {c};
  }
  template <class Tag>
  void operator()(std::int32_t c, Count<Tag>& t) const {
    t = {c};
  }
  void operator()(std::int64_t c, Duration& t) const { t = Duration(c); }
  void operator()(std::int64_t c, TimePoint& t) const { t = At(c); }
  void operator()(std::uint32_t c, bool& t) const { t = c != 0; }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T c, T& t) const {
    t = c;
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::uint32_t c, T& t) const {
    t = static_cast<T>(c);
  }
  template <class C, class T>
    requires std::is_class_v<C>
  void operator()(const C& c, T& t) const {
    t = std::bit_cast<T>(c);
  }

  void Flag(std::uint32_t c, std::uint32_t bit, bool& t) const { t = (c & bit) == 0; }
  void Dated(std::uint32_t dated, std::int64_t c, TimePoint& t) const { t = dated != 0 ? At(c) : kUnset; }
  void Prefix(const takt_request& c, PrefixBlocks& t) const {
    t = {};
    if (c.n_prefix_hashes > 0) t = {{c.prefix_block_tokens}, {c.prefix_hashes, c.n_prefix_hashes}};
  }
  template <class C, class T>
  void Array(const C* first, std::size_t n, std::span<const T>& t) const {
    t = {FromC<T>(first), n};
  }
  template <class C, class T>
  void Array(const C* first, std::size_t n, std::vector<T>& t) const {
    t.resize(n);
    for (std::size_t i = 0; i < n; ++i) Struct(first + i, t[i]);
  }
  void Array(const std::uint32_t* first, std::size_t n, std::vector<std::uint32_t>& t) const {
    t.assign(first, first + n);
  }
  template <class T, class F>
  void Optional(std::uint32_t c, std::optional<T>& t, F&& fields) const {
    if (c != 0) fields(t.emplace());
  }
  template <class C, class T>
  void Struct(const C* c, T& t) const {
    if constexpr (requires { c->struct_size; }) {
      C local;
      Pair(*this, Whole(c, local), t);
    } else {
      Pair(*this, *c, t);
    }
  }
  void Revision(const takt_request* c, std::uint32_t fields, Revised& t) const;
};

struct RevisionIntoCxx : IntoCxx {
  explicit RevisionIntoCxx(std::uint32_t fields) : fields_(fields) {}

  template <class C, class T>
  void IfRevised(std::uint32_t bit, const C& c, std::optional<T>& t) const {
    if ((fields_ & bit) != 0) (*this)(c, t.emplace());
  }

 private:
  std::uint32_t fields_;
};

inline void IntoCxx::Revision(const takt_request* c, std::uint32_t fields, Revised& t) const {
  takt_request local;
  Pair(RevisionIntoCxx(fields), Whole(c, local), t);
}

// Converts into C. Pointers of the result point into the source.
struct IntoC {
  template <class Tag>
  void operator()(std::uint64_t& c, Id<Tag> t) const {
    c = t.value;
  }
  template <class Tag>
  void operator()(std::int32_t& c, Count<Tag> t) const {
    c = t.value;
  }
  void operator()(std::int64_t& c, Duration t) const { c = t.count(); }
  void operator()(std::int64_t& c, TimePoint t) const { c = Ns(t); }
  void operator()(std::uint32_t& c, bool t) const { c = t; }
  void operator()(takt_estimate& c, const Estimate& t) const { c = Of(t); }
  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(T& c, T t) const {
    c = t;
  }
  template <class T>
    requires std::is_enum_v<T>
  void operator()(std::uint32_t& c, T t) const {
    c = static_cast<std::uint32_t>(t);
  }
  template <class C, class T>
    requires std::is_class_v<C>
  void operator()(C& c, const T& t) const {
    c = std::bit_cast<C>(t);
  }

  void Flag(std::uint32_t& c, std::uint32_t bit, bool t) const {
    if (!t) c |= bit;
  }
  void Prefix(takt_request& c, const PrefixBlocks& t) const {
    c.prefix_hashes = t.hashes.data(), c.n_prefix_hashes = t.hashes.size();
    c.prefix_block_tokens = t.block_tokens.value;
  }
  template <class C, class T>
  void Array(const C*& first, std::size_t& n, std::span<const T> t) const {
    first = AsC<C>(t.data()), n = t.size();
  }
};

}  // namespace takt::c

#endif  // TAKT_SRC_C_CONVERT_H_
