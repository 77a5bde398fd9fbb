// Ids for hosts whose requests have names.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "c/handle.h"
#include "c/memory.h"
#include "takt/base/random.h"

namespace takt::c {
namespace {

// Keyed hash, because untrusted clients may choose the names.
struct NameHash {
  using is_transparent = void;

  std::size_t operator()(std::string_view name) const {
    std::uint64_t hash = Mix64(seed ^ name.size());
    for (std::size_t i = 0; i < name.size(); i += sizeof hash) {
      std::uint64_t word = 0;
      std::memcpy(&word, name.data() + i, std::min(sizeof word, name.size() - i));
      hash = Mix64(hash ^ word);
    }
    return hash;
  }

  std::uint64_t seed = 0;
};

// Numbers names upwards. A released id never refers to another name, so late reports have an unknown id.
class Names {
 public:
  Names(std::size_t reserve, std::uint64_t hash_seed) : ids_(reserve, NameHash{Mix64(hash_seed)}) {
    names_.reserve(reserve);
  }

  std::uint64_t Find(std::string_view name) const {
    const auto at = ids_.find(name);
    return at == ids_.end() ? 0 : at->second;
  }
  std::uint64_t IdOf(std::string_view name) {
    if (const std::uint64_t id = Find(name); id != 0) return id;
    names_.emplace(last_ + 1, &ids_.emplace(name, last_ + 1).first->first);
    return ++last_;
  }
  const std::string* NameOf(std::uint64_t id) const {
    const auto at = names_.find(id);
    return at == names_.end() ? nullptr : at->second;
  }
  bool Release(std::uint64_t id) {
    const auto at = names_.find(id);
    if (at == names_.end()) return false;
    ids_.erase(ids_.find(*at->second));
    names_.erase(at);
    return true;
  }
  std::size_t size() const { return ids_.size(); }

 private:
  std::unordered_map<std::string, std::uint64_t, NameHash, std::equal_to<>>
      ids_;  // the map's keys have stable addresses
  std::unordered_map<std::uint64_t, const std::string*> names_;
  std::uint64_t last_ = 0;
};

}  // namespace
}  // namespace takt::c

struct takt_ids : takt::c::Handle {
  static constexpr takt::c::Kind kKind = takt::c::Kind::kIds;

  takt_ids(std::size_t reserve, std::uint64_t hash_seed) : Handle(kKind) { names.emplace(reserve, hash_seed); }
  void End() { names.reset(); }

  std::optional<takt::c::Names> names;
};

using namespace takt;
using namespace takt::c;

takt_status takt_ids_create(int64_t reserve, uint64_t hash_seed, takt_ids** ids, takt_error* error) noexcept {
  if (ids == nullptr) return Say(error, TAKT_E_NULL, "ids is NULL");
  *ids = nullptr;
  return UnlessMemoryEnds(error, [&]() -> takt_status {
    if (const takt_status status = SoundReserve("reserve", reserve, error); status != TAKT_OK) return status;
    *ids = std::make_unique<takt_ids>(static_cast<std::size_t>(reserve), hash_seed).release();
    return TAKT_OK;
  });
}

takt_status takt_ids_destroy(takt_ids* ids) noexcept { return Destroy(ids); }

takt_status takt_ids_of(takt_ids* ids, const char* name, size_t n, uint64_t* id) noexcept {
  if (const takt_status status = FirstOf(Valid(ids), Given(name, n), Given(id, 1)); status != TAKT_OK) return status;
  *id = ids->names->IdOf({name, n});
  return TAKT_OK;
}

takt_status takt_ids_find(const takt_ids* ids, const char* name, size_t n, uint64_t* id) noexcept {
  if (const takt_status status = FirstOf(Valid(ids), Given(name, n), Given(id, 1)); status != TAKT_OK) return status;
  *id = ids->names->Find({name, n});
  return TAKT_OK;
}

takt_status takt_ids_name(const takt_ids* ids, uint64_t id, const char** name, size_t* n) noexcept {
  if (const takt_status status = FirstOf(Valid(ids), Given(name, 1)); status != TAKT_OK) return status;
  const std::string* found = ids->names->NameOf(id);
  *name = found == nullptr ? nullptr : found->c_str();
  if (n != nullptr) *n = found == nullptr ? 0 : found->size();
  return TAKT_OK;
}

takt_status takt_ids_release(takt_ids* ids, uint64_t id) noexcept {
  if (const takt_status status = Valid(ids); status != TAKT_OK) return status;
  return Meant(ids->names->Release(id));
}

size_t takt_ids_size(const takt_ids* ids) noexcept { return Valid(ids) == TAKT_OK ? ids->names->size() : 0; }
