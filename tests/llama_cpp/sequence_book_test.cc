// The book of sequences: which sequence holds which cells, and which are copied. The book must agree with the commands
// to the cache.
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

// Contents of libllama's cache: the computed or copied tokens of each sequence.
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

  bool Save(std::int32_t sequence, std::uint64_t as) override {
    if (Fails()) return false;
    saved[as] = held[sequence];
    return true;
  }
  bool Load(std::uint64_t number, std::int32_t sequence) override {
    REQUIRE((held[sequence].empty() && saved.contains(number)));
    if (Fails()) return false;
    held[sequence] = saved[number];
    ++loads;
    return true;
  }
  void Drop(std::uint64_t number) override { REQUIRE(saved.erase(number) == 1); }
  bool Fails() { return failing > 0 && random.Below(failing) == 0; }

  std::map<std::int32_t, Tokens> held;
  std::map<std::uint64_t, Tokens> saved;
  int copies = 0, loads = 0;
  std::uint64_t failing = 0;  // one in this many fails
  takt::Random random{7};
};

struct Host {
  Host(std::int32_t cells, std::int32_t sequences, bool prefixes = true, std::int32_t lanes = 100,
       std::int32_t saved = 0)
      : book(cache, {.cells = cells,
                     .sequences = sequences,
                     .lanes = lanes,
                     .prefix_cache = prefixes,
                     .saved_tokens = saved,
                     .head_tokens = 1}) {}

  // A request arrives and is admitted if possible. Returns the tokens found, or -1.
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
  // Computes up to this token.
  void Compute(std::uint64_t id, const Tokens& context, std::size_t to) {
    Tokens& held = cache.held[book.sequence({id})];
    for (std::size_t i = held.size(); i < to; ++i) held.push_back(context[i]);
    book.Publish({id}, context, to);
  }
  std::int32_t free() const { return book.Snapshot().free.value; }

  Cache cache;
  SequenceBook book;
};

TEST_CASE("a prompt that begins as an ended one shares its cells") {
  Host host(20, 4);
  const Tokens first = {1, 2, 3, 4, 5, 6, 7, 8}, second = {1, 2, 3, 4, 5, 9, 9, 9};
  CHECK(host.Admit(1, first) == 0);
  CHECK(host.free() == 12);
  host.Compute(1, first, 8);
  CHECK(host.book.Release({1}, KvAction::kDrop) == Blocks{8});
  CHECK((host.free() == 20 && host.book.idle_sequences() == 1));
  CHECK(host.Admit(2, second) == 5);
  CHECK((host.cache.copies == 1 && host.book.reused_tokens() == 5));
  CHECK(host.free() == 12);  // five shared, three of its own; three of the idle sequence can be evicted
  // The same prompt once more: all but its last token is found.
  CHECK(host.Admit(3, first) == 7);
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("a prompt shares cells with a running one, counted once") {
  Host host(12, 4);
  const Tokens prompt = {1, 2, 3, 4, 5, 6};
  CHECK(host.Admit(1, prompt) == 0);
  host.Compute(1, prompt, 3);  // one chunk
  CHECK(host.Admit(2, prompt) == 3);
  CHECK(host.free() == 12 - 6 - 3);
  CHECK(host.book.Release({1}, KvAction::kDrop) == Blocks{3});  // three stay with the other
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("idle sequences are evicted from their ends, least recently used first") {
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

TEST_CASE("idle sequences use free lanes, are saved, and load again") {
  Host host(40, 6, true, 2, 12);
  const Tokens a = {1, 1, 1, 1}, b = {2, 2, 2, 2, 2}, c = {3, 3, 3};
  const auto serve = [&host](std::uint64_t id, const Tokens& prompt) {
    const std::int32_t found = host.Admit(id, prompt);
    host.Compute(id, prompt, prompt.size()), host.book.Forget({id});
    CHECK(host.book.Inconsistency() == nullptr);
    return found;
  };
  CHECK((serve(1, a) == 0 && serve(2, b) == 0));
  CHECK((host.book.idle_sequences() == 2 && host.cache.saved.empty()));
  CHECK(serve(3, c) == 0);  // three sequences: the first is saved
  CHECK((host.book.idle_sequences() == 2 && host.cache.saved == std::map<std::uint64_t, Tokens>{{1, a}}));
  CHECK(serve(4, {1, 1, 1, 1, 7}) == 4);  // returns whole; its new contents are kept, and b is saved
  CHECK((host.cache.loads == 1 && host.book.saved_tokens() == 9));
  CHECK(serve(5, {2, 2, 6}) == 2);  // returns and is cut; c is saved next to the others
  CHECK((host.cache.loads == 2 && host.book.saved_tokens() == 12));
  CHECK(serve(6, {4, 4}) == 0);  // {1, 1, 1, 1, 7} gets its own beginning replaced, and c, the oldest, is evicted
  CHECK((host.book.saved_tokens() == 10 && host.cache.saved.size() == 2));
  CHECK(serve(7, c) == 0);
  // A failed copy is removed. The book tries the next best copy; in the end the prompt is computed.
  host.cache.failing = 1;
  const auto begins = std::ranges::count_if(host.cache.saved, [](const auto& each) { return each.second[0] == 2; });
  CHECK(begins > 0);
  for (auto i = begins; i > 0; --i) CHECK(host.Admit(8, {2, 2, 2, 2, 2, 2}) == -1);
  CHECK(host.Admit(8, {2, 2, 2, 2, 2, 2}) == 0);
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("a saved sequence waits for room for all of it") {
  Host host(10, 6, true, 1, 20);
  const Tokens a = {1, 1, 1, 1, 1, 1, 1, 1}, b = {2, 2, 2};
  host.Admit(1, a), host.Compute(1, a, 8), host.book.Forget({1});
  CHECK(host.Admit(2, b) == 0);  // the only lane
  CHECK(host.cache.saved.size() == 1);
  CHECK(host.Admit(3, {1, 1, 5}) == -1);  // three cells would suffice, and eight are loaded
  host.book.Forget({2});
  CHECK(host.Admit(3, {1, 1, 5}) == 2);
  CHECK((host.free() == 7 && host.book.Inconsistency() == nullptr));
}

TEST_CASE("without a free sequence an idle one is evicted, the source last") {
  Host host(20, 2);
  const Tokens a = {1, 2, 3, 4}, b = {1, 2, 3, 5}, c = {7, 7};
  host.Admit(1, a), host.Compute(1, a, 4), host.book.Forget({1});
  CHECK(host.Admit(2, c) == 0);
  CHECK(host.Admit(3, b) == 3);  // takes over the sequence
  CHECK(host.cache.copies == 0);
  CHECK((host.book.sequence({3}) == 0 && host.cache.held[0] == Tokens{1, 2, 3}));
  CHECK(host.Admit(4, c) == -1);
  CHECK(host.book.sequence({4}) == -1);
  CHECK(host.book.Inconsistency() == nullptr);
}

TEST_CASE("a request does not evict cells promised to another in the plan") {
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
  struct Case {
    bool prefixes;
    std::int32_t lanes, saved;
    std::uint64_t failing;
  };
  for (const auto& [prefixes, lanes, saved, failing] :
       {Case{true, 6, 0, 0}, Case{true, 2, 0, 0}, Case{true, 3, 100, 0}, Case{true, 2, 40, 3}, Case{false, 6, 0, 0}}) {
    takt::Random random(prefixes ? 1 : 2);
    Host host(60, 6, prefixes, lanes, saved);
    host.cache.failing = failing;
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
    CHECK((host.cache.loads > 100) == (saved > 0));
    for (const auto& [id, context] : contexts) host.book.Forget({id});
    host.book.DropIdle();
    CHECK((host.free() == 60 && host.book.idle_sequences() == 0 && host.book.Inconsistency() == nullptr));
  }
}

}  // namespace
}  // namespace llama_host
