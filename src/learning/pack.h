// Packs numbers into little-endian bytes, between a magic word and a checksum.
#ifndef TAKT_SRC_LEARNING_PACK_H_
#define TAKT_SRC_LEARNING_PACK_H_

#include <zlib.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace takt::internal {

inline std::uint32_t Crc32Of(std::string_view bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(crc32_z(0, nullptr, 0), reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

class Packer {
 public:
  Packer(std::string_view magic, std::uint32_t version) : bytes_(magic) { Put(version); }

  template <class T>
    requires std::integral<T> || std::floating_point<T>
  void Put(T x) {
    auto bits = std::bit_cast<BitsOf<T>>(x);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(bits) >> (8 * i)));
    }
  }
  template <class T>
  void Put(const std::vector<T>& all) {
    Put(static_cast<std::uint64_t>(all.size()));
    bytes_.reserve(bytes_.size() + all.size() * sizeof(T));
    for (const T& x : all) Put(x);
  }
  void Put(std::string_view text) {
    Put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }

  std::string Take() {
    Put(Crc32Of(bytes_));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// Reads packed values. After the first missing value ok() is false, and every read returns zero or empty.
class Unpacker {
 public:
  // Opens bytes of a Packer. `what` names the content in errors: "a forest".
  static absl::StatusOr<Unpacker> Open(std::string_view bytes, std::string_view magic, std::uint32_t version,
                                       const std::string& what) {
    if (!bytes.starts_with(magic)) {
      const bool cut = magic.starts_with(bytes);
      return cut ? absl::DataLossError(what + " is truncated") : absl::InvalidArgumentError("expected " + what);
    }
    Unpacker in(bytes.substr(magic.size()));
    const auto found = in.Get<std::uint32_t>();
    if (!in.ok() || in.left_.size() < 4) return absl::DataLossError(what + " is truncated");
    if (found != version) {
      return absl::InvalidArgumentError(what + " of version " + std::to_string(found) + "; expected version " +
                                        std::to_string(version));
    }
    Unpacker tail(in.left_.substr(in.left_.size() - 4));
    if (tail.Get<std::uint32_t>() != Crc32Of(bytes.substr(0, bytes.size() - 4))) {
      return absl::DataLossError(what + " is truncated or damaged: checksum mismatch");
    }
    in.left_.remove_suffix(4);
    return in;
  }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && left_.empty(); }

  template <class T>
    requires std::integral<T> || std::floating_point<T>
  T Get() {
    if (left_.size() < sizeof(T)) return Fail(), T{};
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bits |= static_cast<std::uint64_t>(static_cast<unsigned char>(left_[i])) << (8 * i);
    }
    left_.remove_prefix(sizeof(T));
    return std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
  }
  template <class T>
  void Get(std::vector<T>& all) {
    const auto n = Get<std::uint64_t>();
    all.clear();
    if (n > left_.size() / sizeof(T)) return Fail();
    all.reserve(n);
    for (std::uint64_t i = 0; i < n; ++i) all.push_back(Get<T>());
  }
  std::string_view Text() {
    const auto n = Get<std::uint64_t>();
    if (n > left_.size()) return Fail(), std::string_view();
    const std::string_view text = left_.substr(0, n);
    left_.remove_prefix(n);
    return text;
  }

 private:
  explicit Unpacker(std::string_view left) : left_(left) {}

  void Fail() {
    ok_ = false;
    left_ = {};
  }

  std::string_view left_;
  bool ok_ = true;
};

}  // namespace takt::internal

#endif  // TAKT_SRC_LEARNING_PACK_H_
