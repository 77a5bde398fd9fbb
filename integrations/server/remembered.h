// A bounded table of values by names that clients choose.
#ifndef TAKT_INTEGRATIONS_SERVER_REMEMBERED_H_
#define TAKT_INTEGRATIONS_SERVER_REMEMBERED_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

#include "takt/base/random.h"

namespace serving {

// Ids of names that clients choose. The secret key keeps clients from constructing two names with one id.
class ClientIds {
 public:
  explicit ClientIds(std::uint64_t key) : key_(key) {}

  // Returns the id of a tenant's name; 0: no name. The same name of two tenants has two ids.
  std::uint64_t Of(std::string_view name, std::uint64_t tenant = 0) const {
    if (name.empty()) return 0;
    std::uint64_t id = takt::Mix64(takt::Mix64(key_) ^ tenant);
    for (const char c : name) id = takt::Mix64(id ^ static_cast<unsigned char>(c));
    return id == 0 ? 1 : id;
  }

 private:
  std::uint64_t key_;
};

struct ClientName {
  std::uint64_t tenant = 0, name = 0, place = 0;  // ids; 0: none

  friend auto operator<=>(const ClientName&, const ClientName&) = default;
};

// A table of at most kMost names. A new name evicts the least recently used name of the tenant with the most names. So
// a client that invents names evicts its own. An eviction costs O(kMost).
template <class T>
class Remembered {
 public:
  static constexpr std::size_t kMost = 1000;

  // Returns null if the name is unknown; otherwise it counts as used.
  const T* Find(const ClientName& name) {
    const auto found = kept_.find(name);
    return found == kept_.end() ? nullptr : &Use(found->second);
  }
  // Returns the value of a name, or `fresh` if it is new. Valid until the next call.
  T& Get(const ClientName& name, T fresh = {}) {
    const auto found = kept_.find(name);
    if (found != kept_.end()) return Use(found->second);
    if (kept_.size() == kMost) Evict();
    return Use(kept_.emplace(name, Kept{fresh}).first->second);
  }
  std::size_t size() const { return kept_.size(); }

 private:
  struct Kept {
    T value;
    std::uint64_t used = 0;
  };
  using Names = std::map<ClientName, Kept>;

  T& Use(Kept& kept) {
    kept.used = ++uses_;
    return kept.value;
  }
  void Evict() {
    typename Names::iterator victim = kept_.begin();
    std::size_t most = 0;
    for (auto begin = kept_.begin(); begin != kept_.end();) {
      auto end = begin, oldest = begin;
      std::size_t names = 0;
      for (; end != kept_.end() && end->first.tenant == begin->first.tenant; ++end, ++names) {
        if (end->second.used < oldest->second.used) oldest = end;
      }
      if (names > most || (names == most && oldest->second.used < victim->second.used)) victim = oldest, most = names;
      begin = end;
    }
    kept_.erase(victim);
  }

  Names kept_;
  std::uint64_t uses_ = 0;
};

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_REMEMBERED_H_
