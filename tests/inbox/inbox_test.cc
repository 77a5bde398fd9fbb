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

Arrived WithPrefix(std::uint64_t id, std::shared_ptr<const PrefixBlocks> prefix) {
  Arrived arrived;
  arrived.request.id = {id};
  arrived.request.prefix = std::move(prefix);
  return arrived;
}

TEST_CASE("events come out in the order they went in, once") {
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

TEST_CASE("a full inbox says so and leaves the event with its owner") {
  Inbox inbox(1);
  CHECK(inbox.Push(Cancelled{{1}}) == Pushed::kFirst);
  Arrived arrived = WithPrefix(2, std::make_shared<PrefixBlocks>());
  CHECK(inbox.Push(std::move(arrived)) == Pushed::kFull);
  REQUIRE(arrived.request.prefix != nullptr);  // NOLINT(bugprone-use-after-move): that is the point
  CHECK(inbox.Drain([](const Event&) {}) == 1);
  CHECK(inbox.Push(std::move(arrived)) == Pushed::kFirst);
  CHECK(arrived.request.prefix == nullptr);  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("what an event holds is given back when it has been drained") {
  Inbox inbox;
  auto prefix = std::make_shared<const PrefixBlocks>();
  CHECK(inbox.Push(WithPrefix(1, prefix)) == Pushed::kFirst);
  CHECK(prefix.use_count() == 2);
  inbox.Drain([](const Event&) {});
  CHECK(prefix.use_count() == 1);
}

TEST_CASE("the loop may push while it drains: the event comes with the next drain") {
  Inbox inbox;
  CHECK(inbox.Push(Cancelled{{1}}) == Pushed::kFirst);
  CHECK(inbox.Drain([&](const Event&) { CHECK(inbox.Push(Drain{}) == Pushed::kFirst); }) == 1);
  CHECK(inbox.Drain([](const Event& event) { CHECK(std::holds_alternative<Drain>(event)); }) == 1);
}

TEST_CASE("TakeAll reuses the storage it is given") {
  Inbox inbox;
  std::vector<Event> events;
  for (int round = 0; round < 4; ++round) {
    for (std::uint64_t i = 1; i <= 100; ++i) REQUIRE(inbox.Push(Cancelled{{i}}) != Pushed::kFull);
    inbox.TakeAll(events);
    REQUIRE(events.size() == 100);
    CHECK(IdOf(events.front()).value == 1);
  }
}

// Each of 8 producers numbers its events; the loop must see every number once and in the producer's order.
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
    over = at_work == 0;  // and then drains what is left
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

TEST_CASE("eight threads: nothing lost, each in its own order") {
  Hammer(Inbox::kUnbounded, 12'500);
  Hammer(16, 2'500);
}

TEST_CASE("eight threads, a million events", "[.long]") { Hammer(1024, 125'000); }

}  // namespace
}  // namespace takt
