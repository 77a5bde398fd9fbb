// Encodes values of a log as bytes; see docs/howto/record.md.
#ifndef TAKT_SRC_RECORD_CODEC_H_
#define TAKT_SRC_RECORD_CODEC_H_

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "record/fields.h"
#include "takt/base/random.h"

namespace takt::internal {

constexpr std::uint64_t ZigZag(std::uint64_t x) { return (x << 1) ^ (x >> 63 ? ~std::uint64_t{0} : 0); }
constexpr std::uint64_t UnZigZag(std::uint64_t x) { return (x >> 1) ^ (x & 1 ? ~std::uint64_t{0} : 0); }

// Converts every numeric type to 64 bits and back. `fits` becomes false if the bits are no value of T.
template <class T>
  requires std::integral<T> || std::is_enum_v<T>
constexpr std::uint64_t ToBits(T x) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::uint64_t>(x);
  } else {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(x));
  }
}
template <class Tag>
constexpr std::uint64_t ToBits(Id<Tag> id) {
  return id.value;
}
template <class Tag>
constexpr std::uint64_t ToBits(Count<Tag> count) {
  return ToBits(count.value);
}
constexpr std::uint64_t ToBits(Duration d) { return ToBits(d.count()); }
constexpr std::uint64_t ToBits(TimePoint t) { return ToBits(t.time_since_epoch()); }

template <class T>
  requires std::integral<T> || std::is_enum_v<T>
constexpr void FromBits(std::uint64_t bits, T& x, bool& fits) {
  if constexpr (std::is_enum_v<T>) {
    fits &= bits < NamesOf(T{}).size();
  } else {
    fits &= ToBits(static_cast<T>(bits)) == bits;
  }
  if (fits) x = static_cast<T>(bits);
}
template <class Tag>
constexpr void FromBits(std::uint64_t bits, Id<Tag>& id, bool&) {
  id.value = bits;
}
template <class Tag>
constexpr void FromBits(std::uint64_t bits, Count<Tag>& count, bool& fits) {
  FromBits(bits, count.value, fits);
}
constexpr void FromBits(std::uint64_t bits, Duration& d, bool&) { d = Duration(static_cast<std::int64_t>(bits)); }
constexpr void FromBits(std::uint64_t bits, TimePoint& t, bool&) {
  t = TimePoint(Duration(static_cast<std::int64_t>(bits)));
}

template <class T>
concept Scalar = requires(const T& x) { ToBits(x); };

// Compares bit for bit: NaN equals itself, and -0 differs from 0.
template <Scalar T>
constexpr bool Same(const T& a, const T& b) {
  return a == b;
}
inline bool Same(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }
inline bool Same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }
inline bool Same(const std::string& a, const std::string& b) { return a == b; }
inline bool Same(const Estimate& a, const Estimate& b) {
  bool same = Same(a.mean, b.mean);
  for (std::size_t i = 0; i < a.quantiles.size(); ++i) same = same && Same(a.quantiles[i], b.quantiles[i]);
  return same;
}
template <class T>
bool Same(const std::optional<T>& a, const std::optional<T>& b);
template <class T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.empty() && b.empty();  // only their emptiness is compared, with the default
}
inline bool Same(const ClassLimitsList& a, const ClassLimitsList& b) { return a.empty() && b.empty(); }
template <class T>
bool Same(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b;
}
template <class T>
bool Same(std::span<const T> a, std::span<const T> b) {
  return a.empty() && b.empty();
}
// Only the router reads scores, so a scheduler's log omits them.
inline bool Same(std::span<const ModelScore>, std::span<const ModelScore>) { return true; }
template <HasFields T>
bool Same(const T& a, const T& b) {
  return std::apply(
      [&](const auto&... x) { return std::apply([&](const auto&... y) { return (Same(x, y) && ...); }, Fields(b)); },
      Fields(a));
}
template <class T>
bool Same(const std::optional<T>& a, const std::optional<T>& b) {
  return a.has_value() == b.has_value() && (!a || Same(*a, *b));
}

// Compares the rows of a commit with those of the previous commit: some have left, some are new.
class RowCursor {
 public:
  static constexpr std::size_t kNone = SIZE_MAX;

  explicit RowCursor(std::span<const RowResult> last) : last_(last) {}

  std::span<const RowResult> left() const { return last_; }
  void Skip(std::size_t n) { last_ = last_.subspan(n); }

  // Returns the number of rows to skip until an equal row; kNone if none is near.
  std::size_t Find(const RowResult& row) const {
    constexpr std::size_t kNear = 8;
    for (std::size_t i = 0; i < std::min(kNear, last_.size()); ++i) {
      if (Same(last_[i], row)) return i;
    }
    return kNone;
  }

  // A row that is written in full replaces its request's row of the previous commit.
  void PassNew(const RowResult& row) {
    if (!last_.empty() && last_[0].request == row.request) Skip(1);
  }

 private:
  std::span<const RowResult> last_;
};

// Writes numbers as differences from a base, and times as differences from the record's time. A struct is a mask of
// changed fields, followed by these fields.
class Writer {
 public:
  Writer(std::string& out, TimePoint now) : out_(out), now_(now) {}

  void Varint(std::uint64_t x) {
    for (; x >= 0x80; x >>= 7) out_.push_back(static_cast<char>(x | 0x80));
    out_.push_back(static_cast<char>(x));
  }

  void Fixed(std::uint64_t x, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(x >> (8 * i)));
  }

  template <Scalar T>
  void Put(const T& x, const T& base) {
    Varint(ZigZag(ToBits(x) - ToBits(base)));
  }
  void Put(TimePoint x, TimePoint) { Varint(ZigZag(ToBits(x) - ToBits(now_))); }
  void Put(double x, double) { Fixed(std::bit_cast<std::uint64_t>(x), 8); }

  void Put(const std::string& x, const std::string&) {
    Varint(x.size());
    out_ += x;
  }

  // Most estimates are one number: tag 1, or 2 if the number is whole.
  void Put(const Estimate& x, const Estimate&) {
    if (!Same(x, Estimate::Exact(x.mean))) {
      Varint(0);
      Fixed(std::bit_cast<std::uint64_t>(x.mean), 8);
      for (float q : x.quantiles) Fixed(std::bit_cast<std::uint32_t>(q), 4);
    } else if (x.mean >= 0 && x.mean < 0x1p53 &&
               Same(static_cast<double>(static_cast<std::uint64_t>(x.mean)), x.mean)) {
      Varint(2);
      Varint(static_cast<std::uint64_t>(x.mean));
    } else {
      Varint(1);
      Fixed(std::bit_cast<std::uint64_t>(x.mean), 8);
    }
  }

  template <class T>
  void Put(const std::optional<T>& x, const std::optional<T>&) {
    Varint(x ? 1 : 0);
    if (x) Put(*x, T{});
  }

  template <class T>
  void Put(const std::vector<T>& x, const std::vector<T>&) {
    Put(std::span<const T>(x), {});
  }
  void Put(const ClassLimitsList& x, const ClassLimitsList&) { Put(std::span<const ClassLimits>(x), {}); }
  template <class T>
  void Put(std::span<const T> x, std::span<const T>) {
    Varint(x.size());
    PutAll(x);
  }
  void Put(const std::vector<bool>& x, const std::vector<bool>&) {
    Varint(x.size());
    for (std::size_t i = 0; i < x.size(); i += 8) {
      std::uint64_t byte = 0;
      for (std::size_t j = i; j < x.size() && j < i + 8; ++j) byte |= std::uint64_t{x[j]} << (j - i);
      Fixed(byte, 1);
    }
  }

  // Writes each element as its difference from the previous element.
  template <class T>
  void PutAll(std::span<const T> x) {
    const T zero{};
    const T* base = &zero;
    for (const T& element : x) Put(element, *base), base = &element;
  }

  // Writes runs of rows equal to `last`, the rows of the previous commit, and the new rows between them. There is
  // usually one run.
  void PutRows(std::span<const RowResult> rows, std::span<const RowResult> last) {
    Varint(rows.size());
    RowCursor cursor(last);
    for (std::size_t i = 0; i < rows.size();) {
      const std::size_t skip = cursor.Find(rows[i]);
      const std::size_t first = i;
      if (skip != RowCursor::kNone) cursor.Skip(skip);
      while (i < rows.size() && cursor.Find(rows[i]) == 0) cursor.Skip(1), ++i;
      const std::size_t copies = i - first;
      while (i < rows.size() && cursor.Find(rows[i]) == RowCursor::kNone) cursor.PassNew(rows[i++]);
      const auto fresh = rows.subspan(first + copies, i - first - copies);
      Varint(skip != RowCursor::kNone ? skip : 0);
      Varint(copies);
      Varint(fresh.size());
      PutAll(fresh);
    }
  }

  void Put(const std::shared_ptr<const AgentRanks>& x, const std::shared_ptr<const AgentRanks>&) {
    Put(x ? *x : AgentRanks{}, AgentRanks{});
  }
  void Put(std::span<const ModelScore>, std::span<const ModelScore>) {}

  template <HasFields T>
  void Put(const T& x, const T& base) {
    std::apply(
        [&](const auto&... a) { std::apply([&](const auto&... b) { PutFields(std::tie(a, b)...); }, Fields(base)); },
        Fields(x));
  }

 private:
  template <class... Pairs>
  void PutFields(Pairs... pairs) {
    std::uint64_t mask = 0, bit = 1;
    ((mask |= Same(std::get<0>(pairs), std::get<1>(pairs)) ? 0 : bit, bit <<= 1), ...);
    Varint(mask);
    bit = 1;
    (((mask & bit) != 0 ? Put(std::get<0>(pairs), std::get<1>(pairs)) : void(), bit <<= 1), ...);
  }

  std::string& out_;
  TimePoint now_;
};

// Reads what Writer wrote. For any bytes it ends, reads nothing beyond them, and takes memory in proportion to them.
// ok() returns whether they were valid.
class Reader {
 public:
  Reader(std::string_view in, TimePoint now) : in_(in), now_(now) {}

  bool ok() const { return ok_; }
  bool done() const { return in_.empty(); }
  void Fail() { ok_ = false; }
  void set_now(TimePoint now) { now_ = now; }

  std::uint64_t Varint() {
    std::uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = Fixed(1);
      x |= (byte & 0x7f) << shift;
      if (byte < 0x80) return x;
    }
    ok_ = false;
    return x;
  }

  std::uint64_t Fixed(std::size_t bytes) {
    if (in_.size() < bytes) {
      ok_ = false;
      return 0;
    }
    std::uint64_t x = 0;
    for (std::size_t i = 0; i < bytes; ++i) x |= std::uint64_t{static_cast<unsigned char>(in_[i])} << (8 * i);
    in_.remove_prefix(bytes);
    return x;
  }

  // `x` holds the base on entry.
  template <Scalar T>
  void Get(T& x) {
    FromBits(UnZigZag(Varint()) + ToBits(x), x, ok_);
  }
  void Get(TimePoint& x) { FromBits(UnZigZag(Varint()) + ToBits(now_), x, ok_); }
  void Get(double& x) { x = std::bit_cast<double>(Fixed(8)); }

  void Get(std::string& x) {
    const std::size_t n = Size(1);
    x.assign(in_.substr(0, n));
    in_.remove_prefix(n);
  }

  void Get(Estimate& x) {
    switch (Varint()) {
      case 0:
        Get(x.mean);
        for (float& q : x.quantiles) q = std::bit_cast<float>(static_cast<std::uint32_t>(Fixed(4)));
        return;
      case 1:
        Get(x.mean);
        x = Estimate::Exact(x.mean);
        return;
      case 2: x = Estimate::Exact(static_cast<double>(Varint())); return;
      default: ok_ = false;
    }
  }

  template <class T>
  void Get(std::optional<T>& x) {
    const std::uint64_t tag = Varint();
    ok_ &= tag <= 1;
    x.reset();
    if (tag == 1) Get(x.emplace());
  }

  template <class T>
  void Get(std::vector<T>& x) {
    x.clear();
    GetMore(x, Size(1));
  }

  void Get(ClassLimitsList& x) {
    x.clear();
    GetMore(x, Size(1));
  }

  // Appends n elements, each stored as its difference from the previous element. The first is stored as its difference
  // from zero.
  template <class List>
  void GetMore(List& x, std::size_t n) {
    typename List::value_type element{};
    for (; n > 0 && ok_; --n) {
      Get(element);
      x.push_back(element);
    }
  }

  void GetRows(std::vector<RowResult>& rows, std::span<const RowResult> last) {
    const std::uint64_t n = Varint();
    RowCursor cursor(last);
    while (ok_ && rows.size() < n) {
      const std::uint64_t skip = Varint(), copies = Varint(), fresh = Size(1);
      const std::size_t left = cursor.left().size();
      ok_ &= skip <= left && copies <= left - skip && copies + fresh > 0 && copies + fresh <= n - rows.size();
      if (!ok_) return;
      cursor.Skip(skip);
      const auto copied = cursor.left().first(copies);
      rows.insert(rows.end(), copied.begin(), copied.end());
      cursor.Skip(copies);
      GetMore(rows, fresh);
      for (const RowResult& row : std::span(rows).last(ok_ ? fresh : 0)) cursor.PassNew(row);
    }
  }
  void Get(std::vector<bool>& x) {
    const std::uint64_t n = Varint();
    ok_ &= n <= 8 * in_.size();
    x.assign(ok_ ? n : 0, false);
    std::uint64_t byte = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 8 == 0) byte = Fixed(1);
      x[i] = (byte >> (i % 8) & 1) != 0;
    }
  }

  // Reads hashes of a prefix. This reader owns them until the record is replaced.
  void Get(std::span<const std::uint64_t>& x) {
    Get(hashes_);
    x = hashes_;
  }
  std::vector<std::uint64_t>& hashes() { return hashes_; }
  void Get(std::shared_ptr<const AgentRanks>& x) {
    AgentRanks ranks;
    Get(ranks);
    x = std::make_shared<const AgentRanks>(std::move(ranks));
  }
  void Get(std::span<const ModelScore>&) {}

  template <HasFields T>
  void Get(T& x) {
    std::apply([this](auto&... fields) { this->GetFields(fields...); }, Fields(x));
  }

 private:
  template <class... F>
  void GetFields(F&... fields) {
    std::uint64_t mask = Varint();
    ok_ &= mask >> sizeof...(F) == 0;
    ((ok_ && (mask & 1) != 0 ? Get(fields) : void(), mask >>= 1), ...);
  }

  // Reads a count of items that take at least `least` bytes each.
  std::size_t Size(std::size_t least) {
    const std::uint64_t n = Varint();
    ok_ &= n <= in_.size() / least;
    return ok_ ? n : 0;
  }

  std::string_view in_;
  std::vector<std::uint64_t> hashes_;
  TimePoint now_;
  bool ok_ = true;
};

template <Scalar T>
constexpr std::uint64_t HashOn(std::uint64_t h, const T& x) {
  return (std::rotl(h, 29) ^ ToBits(x)) * 0x9e3779b97f4a7c15u;
}
template <HasFields T>
std::uint64_t HashOn(std::uint64_t h, const T& x) {
  std::apply([&h](const auto&... fields) { ((h = HashOn(h, fields)), ...); }, Fields(x));
  return h;
}
// A failure without a code has the same hash as in logs without codes.
inline std::uint64_t HashOn(std::uint64_t h, const Failure& failure) {
  h = HashOn(HashOn(h, failure.request), failure.reason);
  return failure.code == 0 ? h : HashOn(h, failure.code);
}
// Returns 0 for an empty list; a list with entries practically never has hash 0.
template <class T>
std::uint64_t Hash(std::span<const T> all) {
  std::uint64_t h = all.size();
  for (const T& x : all) h = HashOn(h, x);
  return all.empty() ? 0 : Mix64(h);
}

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_CODEC_H_
