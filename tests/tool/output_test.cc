// Input and output of the tool: whole files or none, each file once, standard input.
#include <sys/resource.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "catch.h"
#include "tool/tool.h"

namespace takt {
namespace {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Steps of an engine, 400 of them: some decode, and a prefill in every fourth.
std::string StepLog() {
  std::string log;
  for (int i = 0; i < 400; ++i) {
    const int decodes = 1 + i * 7 % 40, prefill = i % 4 == 0 ? 100 + i : 0, context = 50 + i * 13 % 900;
    std::string rows;
    for (int d = 0; d < decodes; ++d) rows += ", [1, " + std::to_string(context) + ", 0, 1]";
    if (prefill > 0) rows += ", [" + std::to_string(prefill) + ", 0, 1, 1]";
    const double time_s = 0.006 + 2e-5 * decodes + 1e-8 * decodes * context + 4e-5 * prefill;
    log += "{\"time_s\": " + std::to_string(time_s) + ", \"rows\": [" + rows.substr(2) + "]}\n";
  }
  return log;
}

// Acts as a full disk: files of the tool end after this many bytes.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit small{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    handler_ = signal(SIGXFSZ, SIG_IGN);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST_CASE("a file is replaced as a whole, or stays as it was") {
  const TempDir dir;
  const std::string steps = dir.Write("steps.jsonl", StepLog());
  const std::string log = dir.Write("calls.csv", "output_tokens\n5\n9\n");
  const std::string plain = dir / "plain", link = dir / "link", model = dir / "model";
  REQUIRE(RunTool({"train", log, "-q", "--trees", "3", "--out", model}).exit_code == 0);
  const std::string bytes = ReadWhole(model);
  const std::vector<Args> writers = {Replay({"-q", "--json"}),
                                     Replay({"-q", "--perfetto"}),
                                     {"train", log, "-q", "--trees", "200", "--out"},
                                     {"train", log, "-q", "--html"},
                                     {"calibrate", steps, "--html"},
                                     {"workload", "bundled", "--output"},
                                     {"generate", "gen:poisson,requests=5000", "--output"}};
  for (Args args : writers) {
    CAPTURE(args);
    dir.Write("plain", "old");
    std::filesystem::permissions(plain, std::filesystem::perms(0640));
    std::filesystem::remove(link);
    std::filesystem::create_symlink("plain", link);
    const std::set<std::string> names = dir.Names();
    args.push_back(link);
    {
      const SmallFiles full(1000);
      const Ended ended = RunTool(args);
      CAPTURE(ended.err);
      CHECK(ended.exit_code == 1);
      CHECK(Has(ended.err, link));
      CHECK_FALSE(Has(ended.err, ".takt-"));
    }
    CHECK(ReadWhole(plain) == "old");
    CHECK(dir.Names() == names);
    CHECK(RunTool(args).exit_code == 0);
    CHECK(ReadWhole(plain).size() > 1000);
    CHECK(std::filesystem::is_symlink(link));
    CHECK(std::filesystem::status(plain).permissions() == std::filesystem::perms(0640));
    CHECK(dir.Names() == names);
  }
  // A file without content exists, too, packed if its name asks for it.
  CHECK(RunTool({"generate", "gen:poisson,requests=9", "--output", dir / "w.jsonl.gz"}).exit_code == 0);
  CHECK(ReadWhole(dir / "w.jsonl.gz").starts_with("\x1f\x8b"));
  // If standard output is a file, it keeps the text of both writers.
  const std::string out = dir / "out";
  CHECK(Tool(Replay({"--json", "/dev/stdout", "-q"}), Tool::Where::kFiles, out).Wait().exit_code == 0);
  CHECK(Has(ReadWhole(out), "\"runs\""));
  CHECK(ReadWhole(model) == bytes);
}

TEST_CASE("an unwritable place is reported before any work") {
  const TempDir dir;
  const std::string none = dir / "none", wrong = dir / "no/such";
  for (const Args& args : std::vector<Args>{
           {"train", none, "--out", wrong},
           {"train", none, "--html", wrong},
           {"predict", none, none, "--output", wrong},
           {"calibrate", none, "--json", wrong},
           {"cluster", none, "--json", wrong},
           {"plan", "--workload", none, "--models", none, "--gpus", "8", "--rate", "1", "--html", wrong},
           {"train", none, "--out", dir / "."},
       }) {
    const Ended ended = RunTool(args);
    CAPTURE(args, ended.err);
    CHECK(ended.exit_code == 1);
    CHECK(Has(ended.err, "cannot write " + args.back()));
  }
}

TEST_CASE("one file is not two") {
  const TempDir dir;
  const std::string log = dir.Write("log", "output_tokens\n5\n"), other = dir.Write("other", "{}");
  std::filesystem::create_symlink(log, dir / "link");
  std::filesystem::create_symlink("new", dir / "to_new");
  const std::string made = dir / "new", again = dir / "./new";
  const std::vector<std::string> plan = {"plan", "--gpus", "8", "--rate", "1"};
  const auto planned = [&](Args more) {
    Args args = plan;
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  struct Case {
    Args args;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {{"train", log, "--out", log}, {"LOG and --out: are the same file"}},
      {{"train", log, "--html", dir / "link"}, {"LOG and --html: are the same file"}},
      {{"train", log, "--out", made, "--json", again}, {"--out and --json: are the same file"}},
      {{"train", log, "--html", made, "--json", dir / "to_new"}, {"--json and --html: are the same file"}},
      {{"train", log, "--out", "-", "--json", "-"},
       {"--out and --json: both write standard output; expected at most one"}},
      {{"predict", other, log, "--output", log}, {"LOG and --output: are the same file"}},
      {{"predict", other, log, "--output", other}, {"MODEL and --output: are the same file"}},
      {{"predict", "-", "-"}, {"MODEL and LOG: both read standard input; expected at most one"}},
      {{"calibrate", log, "--out", log}, {"LOG and --out"}},
      {{"replay", "--workload", log, "--csv", log}, {"--workload and --csv"}},
      {Replay({"--json", made, "--perfetto", made}), {"--json and --perfetto"}},
      {{"workload", log, "--output", log}, {"FILE and --output"}},
      {{"cluster", log, "--json", made, "--mps", made}, {"--json and --mps"}},
      {{"cluster", log, "--mps", log}, {"FILE and --mps"}},
      {planned({"--workload", log, "--models", other, "--json", other}), {"--models and --json"}},
      {planned({"--workload", "-", "--models", "-"}), {"--workload and --models: both read standard input"}},
      {{"tune", "--workload", log, "--engine", "x", "--json", log}, {"--workload and --json"}},
      {{"compare", "--measured", "-", "--predicted", "-"}, {"--measured and --predicted"}},
  };
  const std::set<std::string> names = dir.Names();
  for (const Case& c : cases) {
    const Ended ended = RunTool(c.args);
    CAPTURE(c.args, ended.err);
    CHECK(ended.exit_code == 2);
    CHECK(ended.out.empty());
    for (const std::string& said : c.said) CHECK(Has(ended.err, said));
  }
  CHECK(ReadWhole(log) == "output_tokens\n5\n");
  CHECK(ReadWhole(other) == "{}");
  CHECK(dir.Names() == names);
  CHECK(RunTool({"train", log, "-q", "--json", "/dev/null", "--html", "/dev/null"}).exit_code == 0);
}

TEST_CASE("logs are read from standard input, too") {
  const TempDir dir;
  const std::string log = dir.Write("log", "output_tokens\n5\n8\nx\n"), model = dir / "model";
  const Ended train = RunToolOn(log, {"train", "-", "--skip-bad-lines", "--out", model});
  CAPTURE(train.err);
  CHECK(train.exit_code == 0);
  CHECK(Has(train.out, "standard input: 2 calls of 2 workflows"));
  CHECK(Has(train.err, "standard input:4: output_tokens"));
  const std::string next = dir.Write("next", "prompt_tokens\n7\n");
  const Ended from_file = RunTool({"predict", model, next});
  CHECK(from_file.exit_code == 0);
  CHECK(Has(from_file.out, "\n2,,"));
  CHECK(RunToolOn(next, {"predict", model, "-"}).out == from_file.out);
  CHECK(RunToolOn(model, {"predict", "-", next}).out == from_file.out);
  CHECK(Has(RunToolOn(log, {"train", "-"}).err, "standard input:4: output_tokens"));
  CHECK(Has(RunToolOn(dir.Write("empty", ""), {"train", "-"}).err, "standard input: is empty"));
  CHECK(Has(RunToolOn(log, {"predict", "-", next}).err, "standard input: expected a predictor"));

  const std::string steps = dir.Write("steps.jsonl", StepLog());
  const Ended fit = RunToolOn(steps, {"calibrate", "-"});
  CHECK(fit.exit_code == 0);
  CHECK(Has(fit.out, "standard input: 400 steps"));
}

TEST_CASE("control characters in names are shown escaped, in tables, errors and pages") {
  const TempDir dir;
  const std::string hostile = "a\x1b]0;title\x07\x1b[2J\x7f\xc2\x9b\xe2\x80\xae\xff\r";
  const std::string shown = "a\\x1b]0;title\\x07\\x1b[2J\\x7f\\x9b\\u202e\\xff\\r";
  const auto clean = [](const std::string& text) {
    const std::string more = "\x1b\x07\x7f\xff\r";
    return text.find_first_of(more) == std::string::npos && !Has(text, "\xc2\x9b") && !Has(text, "\xe2\x80\xae");
  };
  std::string csv = "ts,in,out,user\n";
  for (int i = 0; i < 5; ++i) csv += std::to_string(i) + ",10,20,\"" + hostile + "\"\n";
  const std::string log = dir.Write("log.csv", csv), map = "arrival=ts,prompt=in,output=out,tenant=user";
  const Ended table = RunTool({"replay", "--workload", log, "--columns", map, "--policy", "fcfs", "--by", "tenant",
                               "--no-wall", "--html", dir / "page.html"});
  REQUIRE(table.exit_code == 0);
  CHECK((Has(table.out, shown) && clean(table.out) && clean(table.err)));
  const std::string page = ReadWhole(dir / "page.html");
  CHECK((Has(page, shown) && clean(page)));

  const std::string name = "bad\x1b[2J\xe2\x80\xae";
  const Ended twice = RunTool({"replay", "--workload", dir.Write("twice.csv", name + "," + name + "\n1,2\n"),
                               "--columns", "prompt=" + name + ",output=o"});
  CHECK((twice.exit_code == 1 && Has(twice.err, "bad\\x1b[2J\\u202e") && clean(twice.err)));
  const Ended option = RunTool({"replay", "--" + name});
  CHECK((option.exit_code == 2 && clean(option.err)));
  // Line breaks would make lines of the reader's own, and colours would hide them.
  const std::string lines = R"(a\nFAKE\u001b[8m)", hidden = "a\\nFAKE\\x1b[8m";
  const std::string workload = dir.Write("w.jsonl", R"({"takt_workload": 1, "name": ")" + lines +
                                                        R"("})"
                                                        "\n" +
                                                        R"({"arrival_s": 0, "class": ")" + lines + R"(", )" +
                                                        R"("calls": [{"prompt": 5, "output": 5, "stage": ")" + lines +
                                                        R"(", "agent": ")" + lines + R"("}]})");
  for (const std::string_view by : {"class", "stage", "agent"}) {
    const Ended named = RunTool({"replay", "--workload", workload, "--policy", "fcfs", "--by", std::string(by),
                                 "--no-wall", "--html", dir / "named.html"});
    REQUIRE(named.exit_code == 0);
    CHECK((Has(named.out, hidden) && !Has(named.out, "\nFAKE") && clean(named.out) && clean(named.err)));
    CHECK(clean(ReadWhole(dir / "named.html")));
  }
  const std::string hostile_file = dir / "a\nFAKE\x1b[8m";
  dir.Write("a\nFAKE\x1b[8m", ReadWhole(workload));
  std::string calls = "model,output_tokens\n";
  for (int i = 0; i < 50; ++i) calls += "\"a\nFAKE\x1b[8m\"," + std::to_string(i + 1) + "\n";
  for (const Ended& ended : {RunTool({"workload", hostile_file}),
                             RunTool({"train", dir.Write("calls.csv", calls), "--out", dir / "calls.model"})}) {
    CAPTURE(ended.out, ended.err);
    REQUIRE(ended.exit_code == 0);
    CHECK((Has(ended.out, hidden) && !Has(ended.out, "\nFAKE") && clean(ended.out)));
  }

  const Ended absent = RunTool({"workload", dir / name});
  CHECK((absent.exit_code == 1 && Has(absent.err, "bad\\x1b[2J") && clean(absent.err)));
}

}  // namespace
}  // namespace takt
