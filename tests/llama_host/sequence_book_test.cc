// The book of sequences: who holds which cells, what is copied from whom, and that it agrees with what the cache is
// told.
#include "sequence_book.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace llama_host {
namespace {

using takt::Blocks;
using takt::KvAction;
using takt::KvReservation;
using takt::RequestId;

using Tokens = std::vector<std::int32_t>;

// What libllama would hold: the tokens of each sequence, as far as they were computed or copied.
class Cache final : public Sequences {
 public:
  void Copy(std::int32_t from, std::int32_t to, std::int32_t tokens) override {
    REQUIRE(held[to].empty());
    REQUIRE(held[from].size() >= static_cast<std::size_t>(tokens));
    held[to].assign(held[from].begin(), held[from].begin() + tokens);
    ++copies;
  }
  void Remove(std::int32_t sequence, std::int32_t from) override {
    REQUIRE(held[sequence].size() >= static_cast<std::size_t>(from));
    held[sequence].resize(static_cast<std::size_t>(from));
  }

  std::map<std::int32_t, Tokens> held;
  int copies = 0;
};

struct Host {
  Host(std::int32_t cells, std::int32_t sequences, bool prefixes = true, std::int32_t idle_cells = 1 << 20)
      : book(cache, cells, sequences, prefixes, idle_cells) {}

  // A request comes in, and is let in if it can be: the tokens that it found, or -1.
  std::int32_t Admit(std::uint64_t id, const Tokens& prompt) {
    book.Arrive({id}, prompt);
    const takt::Request about{.id = {id}, .prompt_tokens = {static_cast<std::int32_t>(prompt.size())}};
    takt::KvHit hit{.request = &about};
    book.CachedTokens({&hit, 1});
    return Wish(id, static_cast<std::int32_t>(prompt.size())) ? hit.tokens.value : -1;
  }
  bool Wish(std::uint64_t id, std::int32_t want) {
    KvReservation wish{{id}, {0}, {want}, true, false};
    book.Reserve({1}, {&wish, 1});
    return wish.granted;
  }
  // Computes up to there.
  void Compute(std::uint64_t id, const Tokens& context, std::size_t to) {
    Tokens& held = cache.held[book.sequence({id})];
    for (std::size_t i = held.size(); i < to; ++i) held.push_back(context[i]);
    book.Publish({id}, context, to);
  }
  std::int32_t free() const { return book.Snapshot().free.value; }

  Cache cache;
  SequenceBook book;
};

TEST_CASE("a prompt that begins as an ended one did shares its cells") {
  Host host(20, 4);
  const Tokens first = {1, 2, 3, 4, 5, 6, 7, 8}, second = {1, 2, 3, 4, 5, 9, 9, 9};
  CHECK(host.Admit(1, first) == 0);
  CHECK(host.free() == 12);
  host.Compute(1, first, 8);
  CHECK(host.book.Release({1}, KvAction::kDrop) == Blocks{8});
  CHECK((host.free() == 20 && host.book.idle_sequences() == 1));
  CHECK(host.Admit(2, second) == 5);
  CHECK((host.cache.copies == 1 && host.book.reused_tokens() == 5));
  CHECK(host.free() == 12);  // five shared, three of its own; three of the idle one's could go
  // The same prompt once more: all but its last token.
  CHECK(host.Admit(3, first) == 7);
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("a prompt shares with one that still runs, and what is shared counts once") {
  Host host(12, 4);
  const Tokens prompt = {1, 2, 3, 4, 5, 6};
  CHECK(host.Admit(1, prompt) == 0);
  host.Compute(1, prompt, 3);  // a chunk
  CHECK(host.Admit(2, prompt) == 3);
  CHECK(host.free() == 12 - 6 - 3);
  CHECK(host.book.Release({1}, KvAction::kDrop) == Blocks{3});  // three go on with the other
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("idle sequences give way from their ends, the least recently used first") {
  Host host(10, 4);
  const Tokens a = {1, 1, 1, 1}, b = {2, 2, 2, 2}, c = {3, 3, 3, 3, 3};
  host.Admit(1, a), host.Compute(1, a, 4), host.book.Forget({1});
  host.Admit(2, b), host.Compute(2, b, 4), host.book.Forget({2});
  CHECK((host.book.idle_sequences() == 2 && host.free() == 10));
  CHECK(host.Admit(3, c) == 0);
  CHECK(host.book.evicted_tokens() == 3);
  CHECK(host.cache.held[0] == Tokens{1});
  CHECK(host.cache.held[1] == b);
  CHECK(host.Admit(4, {9, 9, 9, 9, 9, 9}) == -1);  // more than is left: five of ten
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("idle sequences keep no more cells than they may") {
  Host host(20, 4, true, 6);
  const Tokens a = {1, 1, 1, 1}, b = {1, 1, 2, 2, 2, 2};
  host.Admit(1, a), host.Compute(1, a, 4), host.book.Forget({1});
  CHECK(host.book.evicted_tokens() == 0);
  CHECK(host.Admit(2, b) == 2);
  host.Compute(2, b, 6),
      host.book.Forget({2});  // eight cells in all, since they share two: the older one loses its own
  CHECK(host.book.evicted_tokens() == 2);
  CHECK(host.cache.held[0] == Tokens{1, 1});
  CHECK(host.cache.held[1] == b);
  CHECK(host.book.Inconsistency() == nullptr);
  Host none(20, 4, true, 0);
  none.Admit(1, a), none.Compute(1, a, 4), none.book.Forget({1});
  CHECK((none.book.idle_sequences() == 0 && none.free() == 20));
}

TEST_CASE("where no sequence is left an idle one goes, at last the one that is copied from") {
  Host host(20, 2);
  const Tokens a = {1, 2, 3, 4}, b = {1, 2, 3, 5}, c = {7, 7};
  host.Admit(1, a), host.Compute(1, a, 4), host.book.Forget({1});
  CHECK(host.Admit(2, c) == 0);
  CHECK(host.Admit(3, b) == 3);  // takes the sequence over
  CHECK(host.cache.copies == 0);
  CHECK((host.book.sequence({3}) == 0 && host.cache.held[0] == Tokens{1, 2, 3}));
  CHECK(host.Admit(4, c) == -1);
  CHECK(host.book.sequence({4}) == -1);
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("a wish does not evict what another one of the plan was promised") {
  Host host(8, 3);
  const Tokens a = {1, 2, 3, 4};
  host.Admit(1, a), host.Compute(1, a, 4), host.book.Forget({1});
  const Tokens big = {9, 9, 9, 9, 9}, next = {1, 2, 3, 4, 5};
  host.book.Arrive({2}, big), host.book.Arrive({3}, next);
  const takt::Request two{.id = {2}, .prompt_tokens = {5}}, three{.id = {3}, .prompt_tokens = {5}};
  takt::KvHit hits[] = {{.request = &two}, {.request = &three}};
  host.book.CachedTokens(hits);
  CHECK((hits[0].tokens.value == 0 && hits[1].tokens.value == 4));
  KvReservation wishes[] = {{{2}, {0}, {5}, true, false}, {{3}, {0}, {5}, true, false}};
  host.book.Reserve({1}, wishes);
  CHECK((!wishes[0].granted && wishes[1].granted));
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("the book agrees with the cache after any history") {
  for (const auto& [prefixes, idle_cells] : {std::pair(true, 60), std::pair(true, 10), std::pair(false, 60)}) {
    takt::Random random(prefixes ? 1 : 2);
    Host host(60, 6, prefixes, idle_cells);
    std::map<std::uint64_t, Tokens> contexts;
    std::int64_t found = 0;
    std::uint64_t last = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (random.Below(3) == 0) {
        Tokens prompt(1 + random.Below(25));
        const auto kind = static_cast<std::int32_t>(random.Below(3));
        for (std::int32_t& token : prompt)
          token = random.Below(12) == 0 ? static_cast<std::int32_t>(random.Below(5)) : kind;
        const std::int32_t hits = host.Admit(++last, prompt);
        if (hits < 0) {
          host.book.Forget({last});
        } else {
          found += hits;
          const auto& held = host.cache.held[host.book.sequence({last})];
          REQUIRE(std::ranges::equal(held, Tokens(prompt.begin(), prompt.begin() + hits)));
          contexts[last] = prompt;
        }
      }
      if (!contexts.empty()) {
        auto at = contexts.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.Below(contexts.size())));
        auto& [id, context] = *at;
        const std::size_t have = host.book.tokens({id}).size();
        switch (random.Below(6)) {
          case 0:
            host.book.Release({id}, random.Below(2) == 0 ? KvAction::kDrop : KvAction::kOut);
            host.book.Forget({id});
            contexts.erase(at);
            break;
          case 1:
            context.push_back(static_cast<std::int32_t>(random.Below(4)));
            if (!host.Wish(id, static_cast<std::int32_t>(context.size()))) context.pop_back();
            break;
          default: host.Compute(id, context, have + random.Below(context.size() - have + 1));
        }
      }
      REQUIRE(host.book.Inconsistency() == nullptr);
      for (const auto& [id, context] : contexts) {
        REQUIRE(std::ranges::equal(host.book.tokens({id}), host.cache.held[host.book.sequence({id})]));
      }
    }
    CHECK((found > 1000) == prefixes);
    for (const auto& [id, context] : contexts) host.book.Forget({id});
    host.book.DropIdle();
    CHECK((host.free() == 60 && host.book.idle_sequences() == 0 && host.book.Inconsistency() == nullptr));
  }
}

}  // namespace
}  // namespace llama_host
