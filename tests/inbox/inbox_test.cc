#include "takt/inbox.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"

namespace takt {
namespace {

RequestId IdOf(const Event& event) { return std::get<Cancelled>(event).request; }

TEST_CASE("events come out once, in the order of their pushes") {
  Inbox inbox;
  CHECK(inbox.Push(Cancelled{{1}}) == Pushed::kFirst);
  CHECK(inbox.Push(Event(Cancelled{{2}})) == Pushed::kQueued);
  std::vector<std::uint64_t> seen;
  const auto see = [&](const Event& event) { seen.push_back(IdOf(event).value); };
  CHECK(inbox.Drain(see) == 2);
  CHECK(inbox.Drain(see) == 0);
  CHECK(inbox.Push(Cancelled{{3}}) == Pushed::kFirst);
  CHECK(inbox.Drain(see) == 1);
  CHECK(seen == std::vector<std::uint64_t>{1, 2, 3});
}

TEST_CASE("a full inbox refuses, and the event stays with its owner") {
  Inbox inbox(1);
  CHECK(inbox.Push(Cancelled{{1}}) == Pushed::kFirst);
  CHECK(inbox.Push(Cancelled{{2}}) == Pushed::kFull);
  CHECK(inbox.Drain([](const Event& event) { CHECK(IdOf(event) == RequestId{1}); }) == 1);
  CHECK(inbox.Push(Cancelled{{2}}) == Pushed::kFirst);
}

TEST_CASE("memory that an event refers to is kept until it is drained") {
  Inbox inbox;
  const auto hashes = std::make_shared<const std::vector<std::uint64_t>>(std::vector<std::uint64_t>{7, 8});
  Arrived arrived;
  arrived.request.prefix = {{16}, *hashes};
  CHECK(inbox.Push(arrived, hashes) == Pushed::kFirst);
  CHECK(hashes.use_count() == 2);
  inbox.Drain([&](const Event& event) {
    CHECK(std::get<Arrived>(event).request.prefix.hashes.back() == 8);
    CHECK(hashes.use_count() == 2);
  });
  CHECK(hashes.use_count() == 1);
}

TEST_CASE("a push during a drain comes with the next drain") {
  Inbox inbox;
  CHECK(inbox.Push(Cancelled{{1}}) == Pushed::kFirst);
  CHECK(inbox.Drain([&](const Event&) { CHECK(inbox.Push(Drain{}) == Pushed::kFirst); }) == 1);
  CHECK(inbox.Drain([](const Event& event) { CHECK(std::holds_alternative<Drain>(event)); }) == 1);
}

// Each of 8 producers numbers its events. The loop must get every number once, in the order of its producer.
void Hammer(std::size_t capacity, std::uint64_t per_producer) {
  constexpr std::uint64_t kProducers = 8;
  Inbox inbox(capacity);
  std::vector<std::thread> producers;
  std::atomic<std::uint64_t> at_work = kProducers;
  for (std::uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&inbox, &at_work, p, per_producer] {
      for (std::uint64_t i = 0; i < per_producer; ++i) {
        while (inbox.Push(Cancelled{{p << 32 | i}}) == Pushed::kFull) std::this_thread::yield();
      }
      --at_work;
    });
  }
  std::vector<std::uint64_t> next(kProducers, 0);
  std::uint64_t total = 0;
  bool in_order = true;
  std::size_t largest = 0;
  for (bool over = false; !over;) {
    over = at_work == 0;  // then drains the rest
    const std::size_t n = inbox.Drain([&](const Event& event) {
      const std::uint64_t id = IdOf(event).value;
      in_order &= next[id >> 32]++ == (id & 0xffffffff);
    });
    if (n == 0) std::this_thread::yield();
    largest = n > largest ? n : largest;
    total += n;
  }
  for (std::thread& producer : producers) producer.join();
  CHECK(total == kProducers * per_producer);
  CHECK(in_order);
  CHECK(largest <= capacity);
  CHECK(inbox.Drain([](const Event&) {}) == 0);
}

TEST_CASE("eight threads lose no event and keep their order") {
  Hammer(Inbox::kUnbounded, 12'500);
  Hammer(16, 2'500);
}

TEST_CASE("eight threads, a million events", "[.long]") { Hammer(1024, 125'000); }

}  // namespace
}  // namespace takt
