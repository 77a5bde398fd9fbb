// The policy that a host names, or whose keys the host computes.
#ifndef TAKT_SRC_C_POLICY_H_
#define TAKT_SRC_C_POLICY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "takt/c/takt.h"
#include "takt/policy/any_policy.h"

namespace takt::c {

// Calls the host for a key when a request arrives, and keeps the key. Steps make no calls.
class HostKey {
 public:
  explicit HostKey(const takt_key& key);

  const std::string& spec() const { return spec_; }  // "custom(NAME)"
  const std::string& name() const { return spec_; }

  void Reserve(std::size_t slots) { keys_.resize(std::max(keys_.size(), slots)); }
  void Enters(const RequestState& r, TimePoint now);
  // An explained request need not have arrived, for example one in a tool call under a new policy.
  RankKey Key(const RequestState& r) const {
    return {r.slot < keys_.size() && keys_[r.slot].of == r.request.id ? keys_[r.slot].key : Ask(r)};
  }

 private:
  struct Kept {
    RequestId of = {};
    double key = 0;
  };

  double Ask(const RequestState& r) const;

  std::string spec_;
  void* context_;
  double (*ask_)(void*, const takt_request_state*);
  std::vector<Kept> keys_;  // by slot
};

// Makes a policy: the default if both are null, or the host's key alone without a text. Writes the error.
takt_status MakePolicy(const char* text, const takt_key* key, AnyPolicy& policy, takt_error* error);

// Returns the number of learnt numbers, of which the first n are written; 0 if memory runs out.
std::size_t ReadLearnt(const AnyPolicy& policy, std::uint64_t* numbers, std::size_t n);
takt_status LoadLearnt(const std::uint64_t* numbers, std::size_t n, AnyPolicy& policy, takt_error* error);

}  // namespace takt::c

#endif  // TAKT_SRC_C_POLICY_H_
