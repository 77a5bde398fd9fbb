// Names and their ids, compared with a map, and mistakes of a host.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/c/takt.h"

namespace takt {
namespace {

takt_ids* Make(std::uint64_t hash_seed = 0) {
  takt_ids* ids = nullptr;
  REQUIRE(takt_ids_create(16, hash_seed, &ids, nullptr) == TAKT_OK);
  return ids;
}

TEST_CASE("a name keeps its id until its release, ids stay unique") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(10)); ++seed) {
    Random random(seed);
    takt_ids* ids = Make(seed);
    std::map<std::string, std::uint64_t> alive;
    std::uint64_t last = 0;
    for (int i = 0; i < 2000; ++i) {
      std::string name(random.Below(20), 'a');  // also empty, with zeros, and alike but for one byte
      for (char& c : name) c = static_cast<char>(random.Below(2));
      if (!name.empty() && random.Chance(0.5)) name.back() = static_cast<char>(random.Below(256));
      const auto known = alive.find(name);
      std::uint64_t id = 77;
      if (random.Chance(0.3)) {
        REQUIRE(takt_ids_find(ids, name.data(), name.size(), &id) == TAKT_OK);
        REQUIRE(id == (known == alive.end() ? 0 : known->second));
      } else if (random.Chance(0.6)) {
        REQUIRE(takt_ids_of(ids, name.data(), name.size(), &id) == TAKT_OK);
        REQUIRE(id == (known == alive.end() ? last + 1 : known->second));
        alive[name] = id, last = std::max(id, last);
      } else {
        id = known == alive.end() ? random.Below(last + 2) : known->second;
        const char* text = nullptr;
        std::size_t n = 7;
        REQUIRE(takt_ids_name(ids, id, &text, &n) == TAKT_OK);
        const bool lives = text != nullptr;
        if (known != alive.end()) REQUIRE(std::string_view(text, n) == name);
        if (lives) REQUIRE((alive.at(std::string(text, n)) == id && text[n] == 0));
        if (!lives) REQUIRE(n == 0);
        const std::string its = lives ? std::string(text, n) : "";
        REQUIRE(takt_ids_release(ids, id) == (lives ? TAKT_OK : TAKT_E_INVALID));
        if (lives) alive.erase(its);
      }
      REQUIRE(takt_ids_size(ids) == alive.size());
    }
    CHECK(takt_ids_destroy(ids) == TAKT_OK);
  }
}

TEST_CASE("ids report each mistake") {
  takt_error error;
  takt_error_init(&error, sizeof error);
  takt_ids* ids = nullptr;
  CHECK(takt_ids_create(-1, 0, &ids, &error) == TAKT_E_INVALID);
  CHECK(std::string_view(error.text) == "reserve is -1; expected 0 to 2147483648");
  CHECK(takt_ids_create(1, 0, nullptr, &error) == TAKT_E_NULL);
  ids = Make();
  std::uint64_t id = 7;
  const char* name = "x";
  CHECK(takt_ids_of(nullptr, name, 1, &id) == TAKT_E_NULL);
  CHECK(takt_ids_of(ids, nullptr, 1, &id) == TAKT_E_NULL);
  CHECK(takt_ids_of(ids, name, 1, nullptr) == TAKT_E_NULL);
  CHECK(takt_ids_find(ids, nullptr, 1, &id) == TAKT_E_NULL);
  CHECK(takt_ids_name(ids, 1, nullptr, nullptr) == TAKT_E_NULL);
  CHECK(takt_ids_release(ids, 1) == TAKT_E_INVALID);
  CHECK(takt_ids_size(nullptr) == 0);
  CHECK(id == 7);
  CHECK(takt_ids_of(ids, nullptr, 0, &id) == TAKT_OK);
  CHECK(id == 1);
  takt_inbox* inbox = nullptr;
  REQUIRE(takt_inbox_create(TAKT_INBOX_OF_ROUTER, 0, &inbox, nullptr) == TAKT_OK);
  CHECK(takt_ids_release(reinterpret_cast<takt_ids*>(inbox), 1) == TAKT_E_HANDLE);
  CHECK(takt_inbox_destroy(inbox) == TAKT_OK);
  CHECK(takt_ids_destroy(ids) == TAKT_OK);
}

}  // namespace
}  // namespace takt
