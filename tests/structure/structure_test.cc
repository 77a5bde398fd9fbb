// Reads takt's own sources: includes between rooms, contents of public headers, and habits that a compiler does not
// enforce. Each rule must refuse a planted file first.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "structure/sources.h"
#include "takt/turns/gates/registry.h"
#include "takt/pause/registry.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/turns/retention/registry.h"
#include "takt/state/stats.h"
#include "takt/version.h"
#include "with_rivals.h"

namespace takt {
namespace {

struct Include {
  std::string target;
  bool angled = false;
};

std::vector<Include> IncludesOf(const File& file) {
  static const std::regex kInclude(R"((^|\n)[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"])");
  std::vector<Include> includes;
  for (std::sregex_iterator match(file.text.begin(), file.text.end(), kInclude), end; match != end; ++match) {
    includes.push_back({(*match)[3], (*match)[2] == "<"});
  }
  return includes;
}

// --- The house: a room includes only rooms of lower floors; on one floor, only itself. ---

struct RoomRow {
  int floor = 0;
  std::vector<std::string> rooms;
  std::string what, needs;
};

// The rows of tests/structure/rooms.txt: FLOOR | ROOM ... | contents | needs.
const std::vector<RoomRow>& RoomRows() {
  static const std::vector<RoomRow> kRows = [] {
    static const std::regex kRow(R"((\d+) \| ([a-z/ ]+) \| ([^|]+) \| ([^|]+))"), kRoom("[a-z/]+");
    std::ifstream table(std::filesystem::path(TAKT_SOURCE_DIR) / "tests/structure/rooms.txt");
    std::vector<RoomRow> rows;
    std::smatch part;
    for (std::string line; std::getline(table, line);) {
      if (StartsWith(line, "#")) continue;
      CAPTURE(line);
      REQUIRE(std::regex_match(line, part, kRow));
      const std::string rooms = part[2];
      rows.push_back({std::stoi(part[1]),
                      {std::sregex_token_iterator(rooms.begin(), rooms.end(), kRoom), std::sregex_token_iterator()},
                      part[3],
                      part[4]});
    }
    return rows;
  }();
  return kRows;
}

const std::map<std::string, int>& Floors() {
  static const std::map<std::string, int> kFloors = [] {
    std::map<std::string, int> floors;
    for (const RoomRow& row : RoomRows())
      for (const std::string& room : row.rooms) floors[room] = row.floor;
    return floors;
  }();
  return kFloors;
}

// The table of rooms in docs/project/architecture.md.
std::string RoomTable() {
  const std::filesystem::path root = TAKT_SOURCE_DIR;
  std::string table = "| Floor | Room | Content | Needs |\n|---|---|---|---|\n";
  for (const RoomRow& row : RoomRows()) {
    std::string names;
    for (const std::string& room : row.rooms) {
      const bool folder = std::filesystem::is_directory(root / "include/takt" / room) ||
                          std::filesystem::is_directory(root / "src" / room);
      names += (names.empty() ? "`" : " `") + room + (folder ? "/`" : ".h`");
    }
    table += "| " + std::to_string(row.floor) + " | " + names + " | " + row.what + " | " + row.needs + " |\n";
  }
  return table;
}

// "policy" for "policy/fcfs.h", "tool/plan" for "tool/plan/plan_input.h". Headers at the top, such as inbox.h, form one
// room with scheduler.h.
std::string RoomOf(const std::string& path) {
  const std::size_t slash = path.find('/');
  const std::string name = path.substr(0, std::min(slash, path.find('.')));
  if (const std::size_t next = slash == std::string::npos ? slash : path.find('/', slash + 1);
      name == "tool" && next != std::string::npos)
    return path.substr(0, next);
  if (slash != std::string::npos || Floors().contains(name)) return name;
  return "scheduler";
}

std::optional<std::string> WithinTakt(const std::string& path) {
  for (const std::string root : {"include/takt/", "src/"}) {
    if (StartsWith(path, root)) return path.substr(root.size());
  }
  return std::nullopt;
}

Found ArrowsUpward(const File& file) {
  const std::string from = RoomOf(WithinTakt(file.path).value());
  const auto floor = Floors().find(from);
  if (floor == Floors().end()) return {"a room that the house does not know: " + from};
  Found faults;
  for (const Include& include : IncludesOf(file)) {
    const bool is_public = StartsWith(include.target, "takt/");
    const std::string to = RoomOf(is_public ? include.target.substr(5) : include.target);
    const auto target = Floors().find(to);
    const bool foreign = !is_public && (target == Floors().end() || include.target.find('/') == std::string::npos);
    if (foreign || to == from || (target != Floors().end() && target->second < floor->second)) continue;
    faults.push_back(from + " may not include " + include.target);
  }
  return faults;
}

Found ForeignIncludes(const File& file) {
  Found faults;
  const bool c_abi = StartsWith(file.path, "include/takt/c/");
  for (const Include& include : IncludesOf(file)) {
    const bool standard = include.angled && include.target.find_first_of("./") == std::string::npos;
    const bool c_standard = c_abi && include.angled && StartsWith(include.target, "std");
    const bool own = !include.angled && StartsWith(include.target, "takt/");
    const bool status = include.target == "absl/status/status.h" || include.target == "absl/status/statusor.h" ||
                        include.target == "absl/strings/charconv.h";  // if libc++ has no from_chars for double
    if (!standard && !c_standard && !own && !status) faults.push_back("a public header shows " + include.target);
  }
  return faults;
}

// Sums of nanoseconds since the epoch overflow as times do.
Found CountsOfTimes(const File& file) {
  static const std::regex kPlain(
      R"(time_since_epoch\(\)\.count\(\) *[-+*]|[-+*] *[\w.()]*time_since_epoch\(\)\.count\(\))");
  return std::regex_search(CodeOf(file.text), kPlain) ? Found{"counts of times are added"} : Found{};
}

Found Iostream(const File& file) {
  for (const Include& include : IncludesOf(file)) {
    if (include.target == "iostream") return {"includes <iostream>"};
  }
  return {};
}

Found GuardUnlikePath(const File& file) {
  const std::string include = "include/takt/";
  std::string guard = "TAKT_" + (StartsWith(file.path, include) ? file.path.substr(include.size()) : file.path) + "_";
  std::transform(guard.begin(), guard.end(), guard.begin(),
                 [](unsigned char c) { return std::isalnum(c) ? static_cast<char>(std::toupper(c)) : '_'; });
  const auto has = [&](const std::string& line) { return file.text.find(line + "\n") != std::string::npos; };
  if (has("#ifndef " + guard) && has("#define " + guard) && has("#endif  // " + guard)) return {};
  return {"the include guard is not " + guard};
}

// --- Examples and bindings: small, independent of engines. ---

Found NotForAnExample(const File& file) {
  Found faults;
  for (const Include& include : IncludesOf(file)) {
    const bool standard = include.angled && include.target.find_first_of("./") == std::string::npos;
    const bool own = !include.angled && StartsWith(include.target, "takt/");
    if (!standard && !own) faults.push_back("an example includes " + include.target);
  }
  return faults;
}

Found EngineNamed(const File& file) {
  static const std::regex kEngine("vllm|sglang|dynamo|llm-d|llama|triton|tensorrt", std::regex::icase);
  Found faults;
  for (const std::string& text : {file.path, file.text}) {
    for (std::sregex_iterator match(text.begin(), text.end(), kEngine), end; match != end; ++match) {
      faults.push_back("bindings name " + match->str());
    }
  }
  return faults;
}

// --- The embeddable's promises, as far as text shows them; tests/embed checks the symbols. ---

Found BrokenOath(const File& file) {
  static const std::regex kWord(
      R"(\b(throw|try|catch|dynamic_cast|typeid|getenv|random_device|printf|thread_local|jthread)\b)"
      R"(|\bstd::(cout|cerr|clog|thread)\b|(steady|system|high_resolution)_clock\b|\bclock_gettime\b)");
  Found faults;
  const std::string code = CodeOf(file.text);
  for (std::sregex_iterator match(code.begin(), code.end(), kWord), end; match != end; ++match) {
    faults.push_back("the library may not use " + match->str());
  }
  return faults;
}

// --- Text. ---

Found NotAscii(const File& file) {
  const auto odd = std::find_if(file.text.begin(), file.text.end(),
                                [](char c) { return static_cast<unsigned char>(c) > 126 || (c < ' ' && c != '\n'); });
  if (odd == file.text.end()) return {};
  return {"not printable ASCII in line " + std::to_string(1 + std::count(file.text.begin(), odd, '\n'))};
}

// In pieces, so that this file obeys its own rule.
Found LeftLying(const File& file) {
  static const std::regex kLeft(
      "TO"
      "DO|FIX"
      "ME|(^|[^A-Za-z0-9_.])/(ho"
      "me|wo"
      "rk|ro"
      "ot|tm"
      "p)/");
  std::smatch match;
  if (!std::regex_search(file.text, match, kLeft)) return {};
  return {"left lying: " + match.str()};
}

// The page of web/ is one file that loads nothing.
Found LoadsFromElsewhere(const File& file) {
  static const std::regex kLoad(R"(https?:|["'`(]//|@import|\burl\(|\bsrc=|\b(fetch|importScripts)\()");
  std::smatch match;
  if (!std::regex_search(file.text, match, kLoad)) return {};
  return {"loads from elsewhere: " + match.str()};
}

void HoldsFor(const std::vector<File>& files, const Rule& rule) {
  REQUIRE_FALSE(files.empty());
  for (const File& file : files) {
    for (const std::string& fault : rule(file)) {
      UNSCOPED_INFO(file.path << ": " << fault);
      CHECK(fault.empty());
    }
  }
}

bool Catches(const Rule& rule, const std::string& path, const std::string& text) { return !rule({path, text}).empty(); }

std::vector<File> PublicHeaders() { return FilesUnder({"include/takt"}, {".h"}); }
std::vector<File> Sources() { return FilesUnder({"include/takt", "src"}, {".h", ".cc"}); }
std::vector<File> Library() {
  std::vector<File> files = Sources();
  // The C interface catches exceptions in one file, so that none crosses it.
  std::erase_if(files, [](const File& f) { return StartsWith(f.path, "src/tool/") || f.path == "src/c/memory.h"; });
  return files;
}
std::vector<File> Everything() {
  return FilesUnder(
      {"include", "src", "tests", "examples", "integrations", "bench", "cmake", "docs", "scripts", "web",
       "CMakeLists.txt", "CMakePresets.json", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"},
      {".h", ".cc", ".cmake", ".txt", ".md", ".json", ".in", ".sh", ".py", ".html", ".css", ".js", ".mjs", ""});
}

TEST_CASE("no include between rooms points upward") {
  const std::string state = "include/takt/kv/kv.h";
  CHECK(Catches(ArrowsUpward, state, "#include \"takt/policy/fcfs.h\"\n"));
  CHECK(Catches(ArrowsUpward, state, "#include \"takt/scheduler_options.h\"\n"));
  CHECK(Catches(ArrowsUpward, "src/policy/a.cc", "#include \"takt/pause/keep.h\"\n"));
  CHECK(Catches(ArrowsUpward, "include/takt/router.h", "// One.\n  # include \"takt/sim/engine.h\"\n"));
  CHECK(Catches(ArrowsUpward, "src/workload/a.cc", "#include \"sim/profiles_table.h\"\n"));
  CHECK(Catches(ArrowsUpward, "include/takt/attic/a.h", ""));
  CHECK_FALSE(Catches(ArrowsUpward, "include/takt/policy/a.h", "#include \"takt/state/kv.h\"\n"));
  CHECK_FALSE(Catches(ArrowsUpward, "src/sim/a.cc", "#include \"fmt/format.h\"\n#include \"sim/profiles_table.h\"\n"));
  CHECK(Catches(ArrowsUpward, "include/takt/router.h", "#include \"takt/scheduler.h\"\n"));
  CHECK_FALSE(Catches(ArrowsUpward, "include/takt/cascade_router.h", "#include \"takt/scheduler.h\"\n"));
  CHECK(Catches(ArrowsUpward, "src/tool/report/a.cc", "#include \"tool/command/options.h\"\n"));
  CHECK(Catches(ArrowsUpward, "src/tool/command/a.cc", "#include \"tool/plan/plan_input.h\"\n"));
  CHECK_FALSE(Catches(ArrowsUpward, "src/tool/plan/a.cc", "#include \"tool/report/table.h\"\n"));
  HoldsFor(Sources(), ArrowsUpward);
}

TEST_CASE("the architecture page's table of rooms equals rooms.txt") {
  INFO("The page needs this table, made of tests/structure/rooms.txt:\n" << RoomTable());
  const std::string page = Read(std::filesystem::path(TAKT_SOURCE_DIR) / "docs/project/architecture.md");
  CHECK(page.find("\n\n" + RoomTable() + "\n") != std::string::npos);
  for (const auto& [room, floor] : Floors()) {
    CAPTURE(room);
    const auto in_room = [&](const File& file) { return RoomOf(WithinTakt(file.path).value()) == room; };
    CHECK(std::ranges::any_of(Sources(), in_room));
  }
}

TEST_CASE("public headers show the standard library and absl::Status alone") {
  const std::string path = "include/takt/base/a.h";
  CHECK(Catches(ForeignIncludes, path, "#include <Eigen/Core>\n"));
  CHECK(Catches(ForeignIncludes, path, "#include <zlib.h>\n"));
  CHECK(Catches(ForeignIncludes, path, "#include \"fmt/format.h\"\n"));
  CHECK(Catches(ForeignIncludes, path, "#include \"absl/container/flat_hash_map.h\"\n"));
  CHECK_FALSE(Catches(ForeignIncludes, path, "#include <vector>\n#include \"absl/status/status.h\"\n"));
  HoldsFor(PublicHeaders(), ForeignIncludes);
}

TEST_CASE("the library adds and subtracts times only with functions that saturate") {
  // The operators of std::chrono do not compile there: tests/structure/saturating_times.cc.
  for (const char* list : {"src/CMakeLists.txt", "src/c/c.cmake"}) {
    INFO(list);
    const std::string text = Read(std::filesystem::path(TAKT_SOURCE_DIR) / list);
    CHECK(text.find("SHELL:-include ${CMAKE_CURRENT_SOURCE_DIR}/saturating_times.h") != std::string::npos);
  }
  CHECK(Catches(CountsOfTimes, "src/a.cc", "return a.time_since_epoch().count() - b;"));
  CHECK(Catches(CountsOfTimes, "src/a.cc", "return b + a.time_since_epoch().count();"));
  CHECK_FALSE(Catches(CountsOfTimes, "src/a.cc", "return a.time_since_epoch().count() / 1000;"));
  HoldsFor(Library(), CountsOfTimes);
}

TEST_CASE("an example includes public headers and the standard library alone") {
  CHECK(Catches(NotForAnExample, "examples/a.cc", "#include \"tool/run/a.h\"\n"));
  CHECK(Catches(NotForAnExample, "examples/a.cc", "#include <zlib.h>\n"));
  CHECK(Catches(NotForAnExample, "examples/a.cc", "#include \"fmt/format.h\"\n"));
  CHECK_FALSE(Catches(NotForAnExample, "examples/a.cc", "#include <vector>\n#include \"takt/tool.h\"\n"));
  HoldsFor(FilesUnder({"examples"}, {".h", ".cc"}), NotForAnExample);
}

TEST_CASE("bindings name no engine") {
  CHECK(Catches(EngineNamed, "bindings/python/takt/a.py", "import vLLM\n"));
  CHECK(Catches(EngineNamed, "bindings/rust/takt-dynamo/src/lib.rs", ""));
  CHECK_FALSE(Catches(EngineNamed, "bindings/go/a.go", "// An engine's step.\n"));
  std::vector<File> files = FilesUnder({"bindings"}, {".py", ".rs", ".go", ".mod", ".c", ".toml", ".txt", ".md", ""});
  std::erase_if(files, [](const File& file) {  // made by builds, or named after formats of traces
    static const std::regex kMade("/(build|target|cpp|\\.[a-z_]+)/|/(test_)?convert\\.py$");
    return std::regex_search(file.path, kMade);
  });
  HoldsFor(files, EngineNamed);
}

TEST_CASE("nothing includes <iostream>") {
  CHECK(Catches(Iostream, "src/a.cc", "#include <iostream>\n"));
  HoldsFor(Sources(), Iostream);
}

TEST_CASE("include guards are the path") {
  CHECK(Catches(GuardUnlikePath, "include/takt/base/a.h",
                "#ifndef TAKT_BASE_B_H_\n#define TAKT_BASE_B_H_\n#endif  // TAKT_BASE_B_H_\n"));
  CHECK_FALSE(Catches(GuardUnlikePath, "src/sim/a_b.h",
                      "#ifndef TAKT_SRC_SIM_A_B_H_\n#define TAKT_SRC_SIM_A_B_H_\n#endif  // TAKT_SRC_SIM_A_B_H_\n"));
  HoldsFor(FilesUnder({"include/takt", "src", "tests", "bench", "integrations", "web"}, {".h"}), GuardUnlikePath);
}

TEST_CASE("the library throws, prints, reads no clock and starts no thread") {
  CHECK(Catches(BrokenOath, "src/a.cc", "int f() { throw 1; }"));
  CHECK(Catches(BrokenOath, "src/a.cc", "auto now = std::chrono::steady_clock::now();"));
  CHECK(Catches(BrokenOath, "src/a.cc", "const auto n = 1'000; std::cout << n; const char c = 'x';"));
  CHECK_FALSE(Catches(BrokenOath, "src/a.cc", "// throw\nauto s = \"try \\\" catch\"; /* typeid */ lock.try_lock();"));
  HoldsFor(Library(), BrokenOath);
}

TEST_CASE("sources are ASCII") {
  CHECK(Catches(NotAscii, "src/a.cc", "// caf\xc3\xa9\n"));
  CHECK(Catches(NotAscii, "src/a.cc", "\tint a;\n"));
  HoldsFor(FilesUnder({"include", "src", "examples", "integrations", "bench", "cmake", "web"}, {".h", ".cc", ".cmake"}),
           NotAscii);
}

TEST_CASE("the page in a browser loads nothing from elsewhere") {
  CHECK(Catches(LoadsFromElsewhere, "web/index.html", "<script src=\"a.js\"></script>"));
  CHECK(Catches(LoadsFromElsewhere, "web/page.css", "a { background: url(a.png); }"));
  CHECK(Catches(LoadsFromElsewhere, "web/page.js", "const a = '//example.org/a';"));
  CHECK_FALSE(Catches(LoadsFromElsewhere, "web/page.js", "const a = 1;  // one\n"));
  HoldsFor(FilesUnder({"web"}, {".html", ".css", ".js"}), LoadsFromElsewhere);
}

TEST_CASE("docs list every counter, policy, placement, pause policy, retention policy and gate") {
  const std::filesystem::path root = TAKT_SOURCE_DIR;
  std::string counters;
#define TAKT_ROW(name, text) counters += "| `" #name "` | " text " |\n";
  TAKT_STATS(TAKT_ROW)
#undef TAKT_ROW
  CHECK(Read(root / "docs/reference/stats.md").find(counters) != std::string::npos);

  const std::string policies = Read(root / "docs/reference/policies.md");
  for (const PolicyInfo& policy : PolicyInfos()) {
    CAPTURE(policy.name);
    CHECK(policies.find("](policies/" + policy.name + ".md) |") != std::string::npos);
    const std::filesystem::path path = root / "docs/reference/policies" / (policy.name + ".md");
    CAPTURE(path);
    REQUIRE(std::filesystem::exists(path));
    const std::string page = Read(path);
    CHECK(page.find("## Measured\n") != std::string::npos);
    for (const auto& option : policy.options) {
      CAPTURE(option.name);
      CHECK(page.find("| `" + option.name + "` |") != std::string::npos);
    }
  }
  for (const auto& page : std::filesystem::directory_iterator(root / "docs/reference/policies")) {
    const std::string name = page.path().stem();
    CAPTURE(name);
    const bool accepted = MakePolicy(name).ok() || MakePolicy(name + "(fcfs)").ok();
    const auto infos = PolicyInfos();
    CHECK(accepted == (std::ranges::find(infos, name, &PolicyInfo::name) != infos.end()));
  }
  const std::string placements = Read(root / "docs/reference/placements.md");
  for (const PlacementInfo& placement : PlacementInfos()) {
    CAPTURE(placement.name);
    CHECK(Read(root / "docs/reference/placements" / (placement.name + ".md")).find("## Measured\n") !=
          std::string::npos);
    CHECK(placements.find("(placements/" + placement.name + ".md)") != std::string::npos);
  }
  const std::string pauses = Read(root / "docs/reference/pause_policies.md");
  for (const PauseInfo& pause : PauseInfos()) {
    CAPTURE(pause.name);
    CHECK(pauses.find("| `" + pause.name + "` |") != std::string::npos);
  }
  const std::string retention = Read(root / "docs/reference/retention_policies.md");
  for (const RetentionInfo& info : RetentionInfos()) {
    CAPTURE(info.name);
    CHECK(retention.find("| `" + info.name + "` |") != std::string::npos);
  }
  const std::string gates = Read(root / "docs/reference/gates.md");
  for (const GateInfo& info : GateInfos()) {
    CAPTURE(info.name);
    CHECK(gates.find("| `" + info.name + "` |") != std::string::npos);
  }
}

// The header names of a row, with "{a,b}" written out.
std::vector<std::string> NamedBy(const std::string& row) {
  static const std::regex kName("`([^`]+(\\.h|/))`"), kBraces(R"(([^{]*)\{([^}]*)\}(.*))"), kEach("[^,]+");
  std::vector<std::string> names;
  for (std::sregex_iterator name(row.begin(), row.end(), kName), end; name != end; ++name) {
    const std::string text = (*name)[1];
    std::smatch part;
    if (!std::regex_match(text, part, kBraces)) names.push_back(text);
    else
      for (std::sregex_iterator one(part[2].first, part[2].second, kEach); one != end; ++one)
        names.push_back(part[1].str() + one->str() + part[3].str());
  }
  return names;
}

TEST_CASE("each public header and each named ring entry match") {
  CHECK(NamedBy("| a | b | `a.h`, `b`; `c/{d,e}.h`, `f/` |") == Found{"a.h", "c/d.h", "c/e.h", "f/"});
  const std::string page = Read(std::filesystem::path(TAKT_SOURCE_DIR) / "docs/project/architecture.md");
  const std::size_t table = page.find("| Ring |");
  std::vector<std::string> names = NamedBy(page.substr(table, page.find("\n\n", table) - table));
  REQUIRE(names.size() > 30);
  std::set<std::string> entries;  // `policy/<name>.h` and the like
  for (const PolicyInfo& policy : PolicyInfos()) entries.insert("policy/" + policy.name + ".h");
  for (const PlacementInfo& placement : PlacementInfos()) entries.insert("placement/" + placement.name + ".h");
  for (const PauseInfo& pause : PauseInfos()) entries.insert("pause/" + pause.name + ".h");
  for (const GateInfo& gate : GateInfos()) entries.insert("turns/gates/" + gate.name + ".h");
  std::set<std::string> used;
  for (const File& file : PublicHeaders()) {
    CAPTURE(file.path);
    const std::string header = WithinTakt(file.path).value();
    int rings = entries.contains(header);
    for (const std::string& name : names) {
      if (header != name && !(name.ends_with('/') && StartsWith(header, name))) continue;
      used.insert(name);
      ++rings;
    }
    CHECK(rings == 1);
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK((used.contains(name) || name.ends_with("/<name>.h")));
  }
}

// --- Pages: links have targets, and every page is reachable from docs/README.md. ---

// Without code, since brackets in code are no links.
std::string ProseOf(const std::string& markdown) {
  static const std::regex kCode("```[^]*?```|`[^`]*`");
  return std::regex_replace(markdown, kCode, "code");
}

std::vector<std::string> LinksOf(const File& page) {
  static const std::regex kLink(R"(\]\(([^)\s]+)\))");
  static const std::regex kElsewhere("[a-z]+:.*");
  const std::string prose = ProseOf(page.text);
  std::vector<std::string> links;
  for (std::sregex_iterator match(prose.begin(), prose.end(), kLink), end; match != end; ++match) {
    if (!std::regex_match((*match)[1].str(), kElsewhere)) links.push_back((*match)[1]);
  }
  return links;
}

// Returns "docs/reference/policies/fcfs.md" for "fcfs.md#measured" in docs/reference/policies.
std::string TargetOf(const File& page, const std::string& link) {
  const std::string path = link.substr(0, link.find('#'));
  if (path.empty()) return page.path;
  return (std::filesystem::path(page.path).parent_path() / path).lexically_normal().generic_string();
}

// Makes an anchor of a heading as hosting sites do: lower case, '-' for a blank, without other punctuation.
bool HasHeading(const std::string& markdown, const std::string& anchor) {
  static const std::regex kHeading("(^|\n)#+ ([^\n]+)");
  for (std::sregex_iterator match(markdown.begin(), markdown.end(), kHeading), end; match != end; ++match) {
    std::string slug;
    for (const char c : (*match)[2].str()) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_') {
        slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else if (c == ' ') {
        slug += '-';
      }
    }
    if (slug == anchor) return true;
  }
  return false;
}

Found BrokenLinks(const File& page) {
  const std::filesystem::path root = TAKT_SOURCE_DIR;
  Found faults;
  for (const std::string& link : LinksOf(page)) {
    const std::string target = TargetOf(page, link);
    const std::size_t hash = link.find('#');
    if (target != page.path && !std::filesystem::exists(root / target)) {
      faults.push_back("leads nowhere: " + link);
    } else if (hash != std::string::npos) {
      const std::string text = target == page.path ? page.text : Read(root / target);
      if (!HasHeading(text, link.substr(hash + 1))) faults.push_back("no such heading: " + link);
    }
  }
  return faults;
}

// Pages that comments, messages and other texts name by path.
Found BrokenMentions(const File& file) {
  static const std::regex kPage(R"(\bdocs/[A-Za-z0-9_/-]+\.md)");
  Found faults;
  for (std::sregex_iterator match(file.text.begin(), file.text.end(), kPage), end; match != end; ++match) {
    if (!std::filesystem::exists(std::filesystem::path(TAKT_SOURCE_DIR) / match->str())) {
      faults.push_back("there is no " + match->str());
    }
  }
  return faults;
}

TEST_CASE("links between pages have targets") {
  CHECK(Catches(BrokenLinks, "docs/reference/policies/a.md", "[a](absent.md)\n"));
  CHECK(Catches(BrokenLinks, "docs/reference/policies/a.md", "# A b\n[a](#b)\n"));
  CHECK_FALSE(Catches(BrokenLinks, "docs/reference/policies/a.md",
                      "# A, b\n[a](#a-b) [b](fcfs.md#measured) [c](https://d.e)\n"));
  CHECK_FALSE(Catches(BrokenLinks, "docs/reference/policies/a.md", "`[a](absent.md)`\n```\n[a](absent.md)\n```\n"));
  std::vector<File> pages = Everything();
  std::erase_if(pages, [](const File& file) { return !file.path.ends_with(".md"); });
  HoldsFor(pages, BrokenLinks);

  CHECK(Catches(BrokenMentions, "src/a.cc",
                "// docs/ab"
                "sent.md\n"));
  std::vector<File> files = Everything();
  std::erase_if(files, [](const File& file) {  // pages about former pages, and this file
    return file.path == "CHANGELOG.md" || StartsWith(file.path, "tests/structure/");
  });
  HoldsFor(files, BrokenMentions);
}

TEST_CASE("every page is linked from docs/README.md") {
  std::map<std::string, File> pages;
  for (const File& page : FilesUnder({"docs", "bench", "README.md"}, {".md"})) pages[page.path] = page;
  const auto found_from = [&](const std::string& first) {
    std::set<std::string> found = {first};
    for (std::vector<std::string> left = {first}; !left.empty();) {
      const File page = pages[left.back()];
      left.pop_back();
      for (const std::string& link : LinksOf(page)) {
        const std::string target = TargetOf(page, link);
        if (pages.contains(target) && found.insert(target).second) left.push_back(target);
      }
    }
    return found;
  };
  CHECK(found_from("README.md").contains("docs/project/architecture.md"));
  const std::set<std::string> found = found_from("docs/README.md");
  for (const auto& [path, page] : pages) {
    CAPTURE(path);
    CHECK(found.contains(path));
  }
}

// scripts/mutate, which needs libclang, checks the mutation itself.
TEST_CASE("each line of the table of equivalent mutants is in its file") {
  const std::filesystem::path root = TAKT_SOURCE_DIR;
  std::ifstream table(root / "tests/equivalent_mutants.txt");
  std::string row, file, line;
  int entries = 0;
  while (std::getline(table, row)) {
    if (StartsWith(row, "#") || row.empty()) continue;
    file = row;
    std::getline(table, line);
    CAPTURE(file, line);
    const std::size_t at = Read(root / file).find("  " + line + "\n");
    CHECK(at != std::string::npos);
    ++entries;
    while (std::getline(table, row) && !row.empty()) continue;
  }
  CHECK(entries > 5);
}

TEST_CASE("the crates and the citation have the library's version") {
  const std::filesystem::path root = TAKT_SOURCE_DIR;
  for (const auto& [file, line] : {std::pair("bindings/rust/Cargo.toml", "version = \"" TAKT_VERSION "\"\n"),
                                   std::pair("bindings/rust/takt/Cargo.toml", "version = \"=" TAKT_VERSION "\" }"),
                                   std::pair("integrations/dynamo/Cargo.toml", "version = \"" TAKT_VERSION "\"\n"),
                                   std::pair("integrations/dynamo/Cargo.toml", "version = \"=" TAKT_VERSION "\" }"),
                                   std::pair("packaging/vcpkg/takt/vcpkg.json", "\"version\": \"" TAKT_VERSION "\",\n"),
                                   std::pair("CITATION.cff", "\nversion: " TAKT_VERSION "\n")}) {
    CAPTURE(file, line);
    CHECK(Read(root / file).find(line) != std::string::npos);
  }
}

TEST_CASE("no stray file is left in the tree") {
  CHECK(Catches(LeftLying, "src/a.cc",
                "// TO"
                "DO: later\n"));
  CHECK(Catches(LeftLying, "docs/a.md",
                "see /ho"
                "me/someone/takt\n"));
  HoldsFor(Everything(), LeftLying);
}

}  // namespace
}  // namespace takt
