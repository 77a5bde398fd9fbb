// Hashes of the blocks of a prompt, for prefix caches.
#ifndef TAKT_INTEGRATIONS_SERVER_PREFIX_CHAIN_H_
#define TAKT_INTEGRATIONS_SERVER_PREFIX_CHAIN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/random.h"

namespace serving {

// Extends `chain` by hashes of the whole blocks of `tokens`; each covers its block and all before it. Different
// prefixes with equal 64-bit hashes would be confused. An engine with untrusted clients needs a keyed hash.
inline void ExtendChain(std::vector<std::uint64_t>& chain, std::span<const std::int32_t> tokens,
                        std::size_t block_tokens) {
  while ((chain.size() + 1) * block_tokens <= tokens.size()) {
    std::uint64_t hash = chain.empty() ? 0x7461'6b74u : chain.back();
    for (std::int32_t token : tokens.subspan(chain.size() * block_tokens, block_tokens)) {
      hash = takt::Mix64(hash ^ static_cast<std::uint32_t>(token));
    }
    chain.push_back(std::max<std::uint64_t>(hash, 1));
  }
}

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_PREFIX_CHAIN_H_
