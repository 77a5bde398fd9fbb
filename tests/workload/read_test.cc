#include "takt/workload/read.h"

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/workload/validate.h"
#include "takt/workload/write.h"

namespace takt {
namespace {

Workload Parsed(std::string_view text, const ReadOptions& options = {}, ReadReport* report = nullptr) {
  absl::StatusOr<Workload> workload = ParseWorkload(text, "t", options, report);
  INFO(std::string(workload.status().message()));
  REQUIRE(workload.ok());
  CHECK(Validate(*workload).ok());
  return *workload;
}

std::string Error(std::string_view text, const ReadOptions& options = {}) {
  const absl::StatusOr<Workload> workload = ParseWorkload(text, "t", options);
  return workload.ok() ? "no error" : std::string(workload.status().message());
}

// The same, for a header known to be right.
std::string AzureError(const std::string& line) { return Error("TIMESTAMP,ContextTokens,GeneratedTokens\n" + line); }
std::string CallsError(const std::string& calls) { return Error(R"({"arrival_s": 0, "calls": [)" + calls + "]}"); }

std::string Gzipped(std::string_view text) {
  std::string packed(compressBound(text.size()) + 64, '\0');
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string copy(text);
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

constexpr std::string_view kAzure =
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n";

TEST_CASE("Azure times are read to 100 ns, counted from the first") {
  ReadReport report;
  const Workload w = Parsed(kAzure, {}, &report);
  REQUIRE(w.workflows.size() == 2);
  CHECK(w.name == "t");
  CHECK(w.workflows[0].arrival == TimePoint{});
  CHECK(w.workflows[1].arrival == TimePoint(Duration(4'314'579'000)));
  CHECK(w.calls[1].prompt_tokens == 396);
  CHECK(w.calls[1].output_tokens == 109);
  CHECK(w.workflows[1].deadline == Duration::max());
  CHECK(report.format == WorkloadFormat::kAzure);
  CHECK(report.lines == 2);
  CHECK(report.sorted);
  CHECK_FALSE(report.arrivals_generated);
}

TEST_CASE("Azure 2024 times have a zone, maybe a fraction, over midnight") {
  const Workload w = Parsed(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2024-05-11 23:59:59.500000+00:00,1,2\n"
      "2024-05-12 00:00:00+00:00,3,4\n"
      "2024-05-12T02:00:01.25+02:00,5,6\n"
      "2024-05-12T00:00:02Z,7,8\n");
  CHECK(w.workflows[1].arrival == TimePoint(std::chrono::milliseconds(500)));
  CHECK(w.workflows[2].arrival == TimePoint(std::chrono::milliseconds(1750)));
  CHECK(w.workflows[3].arrival == TimePoint(std::chrono::milliseconds(2500)));
}

TEST_CASE("columns are found by name, without quotes and blanks") {
  const Workload w = Parsed(
      "GeneratedTokens, NumImages ,\"TIMESTAMP\",ContextTokens\n"
      "7,\"a, b\",\"2023-11-16 18:15:46\", 9 \n");
  CHECK(w.calls[0].prompt_tokens == 9);
  CHECK(w.calls[0].output_tokens == 7);
}

TEST_CASE("a byte order mark, carriage returns and blank lines are harmless") {
  const Workload w = Parsed(
      "\xef\xbb\xbfTIMESTAMP,ContextTokens,GeneratedTokens\r\n\r\n"
      "2023-11-16 18:15:46,1,2\r\n   \r\n2023-11-16 18:15:47,3,4");
  REQUIRE(w.calls.size() == 2);
  CHECK(w.calls[1].output_tokens == 4);
}

TEST_CASE("arrivals are sorted, and equal ones keep their order") {
  ReadReport report;
  const Workload w = Parsed(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 18:15:48,1,1\n2023-11-16 18:15:46,2,1\n2023-11-16 18:15:48,3,1\n2023-11-16 18:15:46,4,1\n",
      {}, &report);
  CHECK_FALSE(report.sorted);
  std::vector<int> prompts;
  for (const WorkloadWorkflow& f : w.workflows) prompts.push_back(w.calls_of(f)[0].prompt_tokens);
  CHECK(prompts == std::vector<int>{2, 4, 1, 3});
  CHECK(w.workflows[2].arrival == TimePoint(std::chrono::seconds(2)));
  CHECK(w.calls[0].prompt_tokens == 2);  // in that order, too
}

TEST_CASE("a length of zero counts as one and is counted") {
  ReadReport report;
  const Workload w = Parsed("num_prefill_tokens,num_decode_tokens\n0,5\n3,0\n1,1\n", {}, &report);
  CHECK(w.calls[0].prompt_tokens == 1);
  CHECK(w.calls[1].output_tokens == 1);
  CHECK(report.raised_lengths == 2);
}

TEST_CASE("Mooncake traces have milliseconds and prefix blocks") {
  const Workload w =
      Parsed(R"({"timestamp": 0, "input_length": 1030, "output_length": 500, "hash_ids": [0, 14, 15]})"
             "\n"
             R"({"timestamp": 3001, "input_length": 512, "output_length": 3, "hash_ids": [0], "more": null})");
  REQUIRE(w.workflows.size() == 2);
  CHECK(w.workflows[1].arrival == TimePoint(std::chrono::milliseconds(3001)));
  CHECK(w.prefix_block_tokens == 512);
  const auto hashes = w.hashes_of(w.calls[0]);
  CHECK(std::vector<std::uint64_t>(hashes.begin(), hashes.end()) == std::vector<std::uint64_t>{0, 14, 15});
  CHECK(w.hashes_of(w.calls[1]).size() == 1);
}

TEST_CASE("BurstGPT's model and log type become class and stage") {
  const Workload w = Parsed(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5,ChatGPT,472,18,490,Conversation log\n45,GPT-4,1087,230,1317,API log\n");
  CHECK(w.workflows[1].arrival == TimePoint(std::chrono::seconds(40)));
  CHECK(w.names[w.workflows[0].name] == "ChatGPT");
  CHECK(w.names[w.workflows[1].name] == "GPT-4");
  CHECK(w.names[w.calls[1].stage] == "API log");
  const Workload with_sessions = Parsed(
      "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
      "5.5,,12.5,ChatGPT,472,18,490,Conversation log\n6,17,,ChatGPT,1,2,3,Conversation log\n");
  CHECK(with_sessions.workflows[1].arrival == TimePoint(std::chrono::milliseconds(500)));
  CHECK(with_sessions.calls[1].output_tokens == 2);
}

TEST_CASE("ShareGPT lengths get Poisson arrivals at the rate, by the seed") {
  std::string text = "num_prefill_tokens,num_decode_tokens\n";
  for (int i = 0; i < 4000; ++i) text += "374,44\n";
  ReadReport report;
  const Workload w = Parsed(text, {.rate = 4, .seed = 3}, &report);
  CHECK(report.arrivals_generated);
  CHECK(ToSeconds(w.workflows.back().arrival) == Approx(1000).epsilon(0.05));
  CHECK(Parsed(text, {.rate = 4, .seed = 3}) == w);
  CHECK_FALSE(Parsed(text, {.rate = 4, .seed = 4}) == w);
}

// Made by hand in the shape of InferCept's requests: one continues after its calls, and one ends in a call.
constexpr std::string_view kInferCept =
    R"({"id":0,"key":"ab","class":"math","prompt":40,"total_gen":35,"total_ret":9,"n_api":2,"segments":[)"
    R"({"ctx":40,"gen":12,"api":"math","api_s":8.5e-05,"ret":9},{"ctx":61,"gen":20,"api":"math","api_s":0,"ret":0},)"
    R"({"ctx":81,"gen":3}]})"
    "\n"
    R"({"id":1,"key":"cd","class":"image","prompt":7,"total_gen":58,"total_ret":30,"n_api":2,"segments":[)"
    R"({"ctx":7,"gen":50,"api":"image","api_s":11.25,"ret":8},{"ctx":63,"gen":8,"api":"chatbot","api_s":60,"ret":22}]})"
    "\n"
    R"({"id":2,"class":"ve","prompt":2047,"segments":[{"gen":4,"api":"ve","api_s":0.09,"ret":0,"ret_raw":-2}]})"
    "\n"
    R"({"id":3,"class":"qa","prompt":9,"segments":[{"gen":5}]})"
    "\n";

TEST_CASE("an InferCept request is a call whose segments end in tools") {
  ReadReport report;
  const Workload w = Parsed(kInferCept, {.rate = 4, .seed = 3}, &report);
  CHECK(report.format == WorkloadFormat::kInferCept);
  CHECK(report.arrivals_generated);
  CHECK(report.lines == 4);
  CHECK(report.raised_lengths == 2);  // the token after a last tool
  REQUIRE(w.workflows.size() == 4);
  CHECK(w.names[w.workflows[0].name] == "math");
  const WorkloadCall& math = w.calls[0];
  CHECK(math.prompt_tokens == 40);
  CHECK(math.output_tokens == 35);
  REQUIRE(math.tools == 2);
  const auto tools = w.tools_of(math);
  CHECK(tools[0] == WorkloadTool{.after_tokens = 12, .returned_tokens = 9, .duration = Duration(85'000), .name = 1});
  CHECK(tools[1] == WorkloadTool{.after_tokens = 32, .returned_tokens = 0, .duration = Duration(0), .name = 1});

  const WorkloadCall& image = w.calls[1];
  CHECK(image.output_tokens == 59);
  CHECK(w.names[w.tools_of(image)[0].name] == "image");
  CHECK(w.tools_of(image)[0].duration == std::chrono::milliseconds(11'250));
  CHECK(w.names[w.tools_of(image)[1].name] == "chatbot");
  CHECK(w.tools_of(image)[1].after_tokens == 58);
  CHECK(w.calls[2].output_tokens == 5);
  CHECK(w.tools_of(w.calls[2])[0].returned_tokens == 0);
  CHECK(w.calls[3].output_tokens == 5);
  CHECK(w.calls[3].tools == 0);

  // Arrivals are those of any file without times.
  const Workload lengths = Parsed("num_prefill_tokens,num_decode_tokens\n1,1\n1,1\n1,1\n1,1\n", {.rate = 4, .seed = 3});
  for (std::size_t i = 0; i < 4; ++i) CHECK(w.workflows[i].arrival == lengths.workflows[i].arrival);
  CHECK(*ParseWorkload(ToJsonl(w), "t") == w);
}

TEST_CASE("a workflow has calls, predecessors, tools and prefixes") {
  const Workload w = Parsed(
      R"({"takt_workload": 1, "name": "hand-made", "prefix_block_tokens": 16})"
      "\n"
      R"({"id": "a", "class": "agents", "arrival_s": 2.5, "deadline_s": 30, "tenant": 7, "priority": -1, "calls": [)"
      R"({"stage": "plan", "agent": "planner", "prompt": 100, "output": 50, "prefix": [18446744073709551615, 2]},)"
      R"({"stage": "code", "prompt": 10, "output": 20, "after": [0]}, {"stage": "code", "prompt": 10, "output": 21, "after": [0]},)"
      R"({"stage": "review", "prompt": 10, "output": 22, "after": ["code", 0, 1], "delay_s": 0.25, "tools": [)"
      R"({"after": 9, "duration_s": 1.5, "returned": 4, "class": "search"}, {"after": 3, "duration_s": 0}]}]})"
      "\n"
      R"({"arrival_s": 2, "calls": [{"prompt": 1, "output": 1}]})");
  CHECK(w.name == "hand-made");
  CHECK(w.prefix_block_tokens == 16);
  REQUIRE(w.workflows.size() == 2);
  CHECK(w.workflows[0].calls == 1);
  const WorkloadWorkflow& a = w.workflows[1];
  CHECK(a.arrival == TimePoint(std::chrono::milliseconds(500)));
  CHECK(a.deadline == std::chrono::seconds(30));
  CHECK(a.tenant == 7);
  CHECK(a.priority == -1);
  CHECK(w.names[a.name] == "agents");
  const auto calls = w.calls_of(a);
  REQUIRE(calls.size() == 4);
  CHECK(w.names[calls[0].agent] == "planner");
  CHECK(w.names[calls[2].stage] == "code");
  CHECK(w.hashes_of(calls[0])[0] == UINT64_MAX);
  const auto after = w.predecessors_of(calls[3]);
  CHECK(std::vector<std::uint32_t>(after.begin(), after.end()) == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(calls[3].delay == std::chrono::milliseconds(250));
  const auto tools = w.tools_of(calls[3]);
  REQUIRE(tools.size() == 2);
  CHECK(tools[0].after_tokens == 3);
  CHECK(tools[1].duration == std::chrono::milliseconds(1500));
  CHECK(tools[1].returned_tokens == 4);
  CHECK(w.names[tools[1].name] == "search");
}

TEST_CASE("calls may come in any order of the line") {
  const Workload w =
      Parsed(R"({"arrival_s": 0, "calls": [{"stage": "c", "prompt": 3, "output": 1, "after": ["a", "b"]},)"
             R"({"stage": "b", "prompt": 2, "output": 1, "after": [2]}, {"stage": "a", "prompt": 1, "output": 1}]})");
  CHECK(w.calls[0].prompt_tokens == 1);
  CHECK(w.calls[1].prompt_tokens == 2);
  CHECK(w.calls[2].prompt_tokens == 3);
  CHECK(w.predecessors == std::vector<std::uint32_t>{0, 0, 1});
}

TEST_CASE("gzip is unpacked by content, and several members are one file") {
  CHECK(Parsed(Gzipped(kAzure)) == Parsed(kAzure));
  CHECK(Parsed(Gzipped(kAzure.substr(0, 50)) + Gzipped(kAzure.substr(50))) == Parsed(kAzure));
}

TEST_CASE("truncated, damaged or oversized gzip is refused") {
  const std::string packed = Gzipped(kAzure);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    CHECK(Error(packed.substr(0, size)).find("gzip data is truncated") != std::string::npos);
  }
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;  // the checksum
  CHECK(Error(damaged) == "t: the gzip data is invalid: incorrect data check");
  CHECK(Error(packed + "rest").find("gzip data is invalid") != std::string::npos);
  std::string blank(50'000'000, '\n');
  const absl::StatusOr<Workload> bomb = ParseWorkload(Gzipped(blank), "t", {.max_bytes = 1'000'000});
  CHECK(bomb.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(bomb.status().message()).find("is too large; expected at most 1000000 unpacked bytes") !=
        std::string::npos);
}

TEST_CASE("gzip that expands too far is refused before it is read") {
  std::string many = "num_prefill_tokens,num_decode_tokens\n";
  for (int i = 0; i < 1'000'000; ++i) many += "1,1\n";
  CHECK(ParseWorkload(many, "t")->workflows.size() == 1'000'000);
  const std::string bomb = Error(Gzipped(many)), place = "t: after line ";
  REQUIRE(bomb.starts_with(place));
  CHECK(bomb.find("unpacks to more than 100 times its size") != std::string::npos);
  CHECK(std::stoi(bomb.substr(place.size())) < 700'000);  // 100 times the 4 KB that it weighs, and a MiB
}

TEST_CASE("a limit takes the first workflows of the file") {
  CHECK(Parsed(kAzure, {.limit = 1}).workflows.size() == 1);
  CHECK(Parsed(std::string(kAzure) + "rubbish\n", {.limit = 2}).workflows.size() == 2);
}

TEST_CASE("a bad line is named by file, line, field and value") {
  CHECK(AzureError("2023-11-16 18:15:46,12x,1\n") == "t:2: ContextTokens: \"12x\" is invalid; expected a whole number");
  CHECK(AzureError("2023-11-16 18:15:46,1.5,1\n") == "t:2: ContextTokens: \"1.5\" is invalid; expected a whole number");
  CHECK(AzureError("2023-11-16 18:15:46,1,-1\n") == "t:2: GeneratedTokens: \"-1\" is negative; expected at least 0");
  CHECK(AzureError("2023-11-16 18:15:46,1,-99999999999999999999\n") ==
        "t:2: GeneratedTokens: \"-99999999999999999999\" is negative; expected at least 0");
  CHECK(AzureError("2023-11-16 18:15:46,99999999999999999999,1\n") ==
        "t:2: ContextTokens: \"99999999999999999999\" is above 500000000");
  CHECK(AzureError("2023-11-16 18:15:46,500000001,1\n") == "t:2: ContextTokens: \"500000001\" is above 500000000");
  CHECK(AzureError("2023-11-16 18:15:46,,1\n") == "t:2: ContextTokens: is empty");
  CHECK(AzureError("2023-11-16 18:15:46,1\n") == "t:2: 2 fields; expected 3, as in the header");
  CHECK(AzureError("2023-11-16 18:15:46,1,1\n\n2023-11-16 18:15:46,1,1,1\n") ==
        "t:4: 4 fields; expected 3, as in the header");
  CHECK(AzureError("2300-11-16 18:15:46,1,1\n") ==
        "t:2: TIMESTAMP: \"2300-11-16 18:15:46\" is invalid; expected a time such as 2023-11-16 18:15:46.6805900");
  for (const char* time : {"2023-02-29 00:00:00", "2023-11-16", "2023-11-16 24:00:00", "2023-11-16 18:60:00", "now",
                           "2023-11-16 18:15:46.", "2023-11-16 18:15:46.1234567890", "2023-11-16 18:15:46 UTC",
                           "2023-11-16 18:15:46+1:00", "2023-13-16 18:15:46", "-023-11-16 18:15:46"}) {
    CHECK(AzureError(std::string(time) + ",1,1\n").find("t:2: TIMESTAMP: ") == 0);
  }
  CHECK(AzureError("2023-11-16 18:15:46,1,1\n1990-11-16 18:15:46,1,1\n") ==
        "t:3: TIMESTAMP: \"1990-11-16 18:15:46\" is invalid; expected a time within 285 years of the first");
}

TEST_CASE("times in seconds must be finite and not negative") {
  const std::string header = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n";
  const std::string rest = ",ChatGPT,1,1,2,API log\n";
  CHECK(Error(header + "-1" + rest) == "t:2: Timestamp: \"-1\" is negative; expected at least 0");
  CHECK(Error(header + "nan" + rest) == "t:2: Timestamp: \"nan\" is invalid; expected a finite number");
  CHECK(Error(header + "inf" + rest) == "t:2: Timestamp: \"inf\" is invalid; expected a finite number");
  CHECK(Error(header + "1e999" + rest) == "t:2: Timestamp: \"1e999\" is invalid; expected 0 to 1000000000 s");
  CHECK(Error(header + "1e10" + rest) == "t:2: Timestamp: \"1e10\" is invalid; expected 0 to 1000000000 s");
  CHECK(Error(header + "0x1" + rest) == "t:2: Timestamp: \"0x1\" is invalid; expected a number");
  CHECK(Error(header + rest) == "t:2: Timestamp: is empty");
}

TEST_CASE("missing, incomplete and doubled headers are refused") {
  CHECK(Error("2023-11-16 18:15:46.6805900,374,44\n")
            .find("t:1: \"2023-11-16 18:15:46.6805900,374,44\" is the start of no known format") == 0);
  CHECK(Error("a,b\n").find("python -m takt.convert reads traces of Dynamo") != std::string::npos);
  for (const std::string columns : {"", "prompt=in,output=out"}) {
    const ReadOptions options = {.columns = columns};
    CHECK(
        Error("in;out\n1;2\n", options).starts_with("t:1: \"in;out\" has fields separated by \";\"; expected commas."));
    CHECK(Error("in\tout\n1\t2\n", options).find("has fields separated by tabs; expected commas.") !=
          std::string::npos);
  }
  CHECK(Parsed("in,out;put\n1,2\n", {.columns = "prompt=in,output=out;put"}).calls.size() == 1);
  CHECK(Error("a,b\n").find("burstgpt (Timestamp,Request tokens,Response tokens), sharegpt (") != std::string::npos);
  CHECK(Error("TIMESTAMP,ContextTokens\n") ==
        "t:1: header: column \"GeneratedTokens\" is missing; the columns are \"TIMESTAMP\", \"ContextTokens\"");
  CHECK(Error("TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens\n") ==
        "t:1: ContextTokens: occurs twice; expected each column once");
  CHECK(Error(kAzure, {.format = WorkloadFormat::kShareGpt}) ==
        "t:1: header: column \"num_prefill_tokens\" is missing; the columns are \"TIMESTAMP\", \"ContextTokens\", "
        "\"GeneratedTokens\"");
  CHECK(Error("TIMESTAMP,ContextTokens,GeneratedTokens\n") == "t: has no requests");
  CHECK(Error("") == "t: is empty");
  CHECK(Error("\n \r\n") == "t: is empty");
  CHECK(Error("{}").find("t:1: \"{}\" is the start of no known format") == 0);
}

TEST_CASE("Mooncake's faults are named") {
  CHECK(Error(R"({"timestamp": -1, "input_length": 1, "output_length": 1})") == "t:1: timestamp: -1 is negative");
  CHECK(Error(R"({"timestamp": "0", "input_length": 1, "output_length": 1})") ==
        "t:1: timestamp: \"0\" is invalid; expected a number");
  CHECK(Error(R"({"timestamp": 1e300, "input_length": 1, "output_length": 1})") ==
        "t:1: timestamp: 1e+300 is above 1000000000000");
  CHECK(Error(R"({"input_length": 1, "output_length": 1})") == "t:1: timestamp: is missing");
  CHECK(Error(R"({"timestamp": 0, "input_length": 1.5, "output_length": 1})") ==
        "t:1: input_length: 1.5 is invalid; expected a whole number");
  CHECK(Error(R"({"timestamp": 0, "input_length": -3, "output_length": 1})") == "t:1: input_length: -3 is negative");
  CHECK(Error(R"({"timestamp": 0, "input_length": 18446744073709551615, "output_length": 1})") ==
        "t:1: input_length: 18446744073709551615 is above 500000000");
  CHECK(Error(R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]})") ==
        "t:1: hash_ids: has 2 blocks of 512 tokens; expected 1, as many as the input needs");
  CHECK(Error(R"({"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [-1]})") ==
        "t:1: hash_ids: -1 is invalid; expected a whole number from 0 to 2^64-1");
  CHECK(Error(R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": 5})") ==
        "t:1: hash_ids: 5 is invalid; expected an array");
  const std::string good = R"({"timestamp": 0, "input_length": 1, "output_length": 1})";
  CHECK(Error(good + "\n{\"timestamp\": 0, \"input_length\": }\n").find("t:2: column 34: invalid JSON near ") == 0);
  CHECK(Error(good + "\n[1]\n") == "t:2: an array is invalid; expected an object");
  CHECK(Error(good + "\n{\"timestamp\": 1e999}\n").find("t:2: column ") == 0);
}

TEST_CASE("InferCept's faults are named") {
  const auto error = [](const std::string& segments) {
    return Error(R"({"class":"qa","prompt":9,"segments":[)" + segments + "]}");
  };
  const std::string call = R"({"gen":4,"api":"qa","api_s":0.5,"ret":7})";
  CHECK(error("") == "t:1: segments: is empty; expected a segment");
  CHECK(error("5") == "t:1: segments[0]: 5 is invalid; expected an object");
  CHECK(error("{}") == "t:1: segments[0].gen: is missing");
  CHECK(error(R"({"gen":-4})") == "t:1: segments[0].gen: -4 is negative");
  CHECK(error(R"({"gen":1.5})") == "t:1: segments[0].gen: 1.5 is invalid; expected a whole number");
  CHECK(error(R"({"gen":4},{"gen":4})") == "t:1: segments[0].api: is missing; every segment but the last needs it");
  CHECK(error(R"({"gen":4,"ret":1})") == "t:1: segments[0].ret: is invalid without an api; expected both or neither");
  CHECK(error(R"({"gen":4,"api_s":1})") ==
        "t:1: segments[0].api_s: is invalid without an api; expected both or neither");
  CHECK(error(call + R"(,{"gen":4,"api":"qa","ret":1})") == "t:1: segments[1].api_s: is missing");
  CHECK(error(R"({"gen":4,"api":"qa","api_s":1})") == "t:1: segments[0].ret: is missing");
  CHECK(error(R"({"gen":4,"api":"qa","api_s":-1,"ret":1})") == "t:1: segments[0].api_s: -1 is negative");
  CHECK(error(R"({"gen":4,"api":"qa","api_s":"1","ret":1})") ==
        "t:1: segments[0].api_s: \"1\" is invalid; expected a number");
  CHECK(error(R"({"gen":4,"api":"qa","api_s":1e10,"ret":1})") ==
        "t:1: segments[0].api_s: 10000000000.0 is above 1000000000");
  CHECK(error(R"({"gen":4,"api":"qa","api_s":1,"ret":-2})") == "t:1: segments[0].ret: -2 is negative");
  CHECK(error(R"({"gen":4,"api":7,"api_s":1,"ret":2})") == "t:1: segments[0].api: 7 is invalid; expected a string");
  CHECK(error(R"({"gen":4,"api":"","api_s":1,"ret":2})") == "t:1: segments[0].api: is empty");
  CHECK(error(R"({"gen":4,"apo":"qa"})") ==
        "t:1: segments[0]: key \"apo\" is unknown; expected one of ctx, gen, api, api_s, ret, ret_raw");
  CHECK(error(R"({"gen":500000000},{"gen":1})") ==
        "t:1: segments[0].api: is missing; every segment but the last needs it");
  CHECK(error(R"({"gen":499999999,"api":"qa","api_s":1,"ret":0},{"gen":2})") ==
        "t:1: segments[1].gen: is too large; expected at most 500000000 tokens of output");
  CHECK(error(R"({"gen":1,"api":"qa","api_s":1,"ret":500000000},{"gen":1,"api":"qa","api_s":1,"ret":500000000})") ==
        "t:1: calls[0]: a context of 1000000012 tokens is too long; expected at most 1000000000");
  CHECK(Error(R"({"class":"qa","segments":[{"gen":4}]})") == "t:1: prompt: is missing");
  CHECK(Error(R"({"class":"qa","prompt":9,"segments":4})") == "t:1: segments: 4 is invalid; expected an array");
  const auto sum = [&](const std::string& key) {
    return Error(R"({"class":"qa","prompt":9,)" + key + R"(,"segments":[)" + call + R"(,{"gen":4}]})");
  };
  CHECK(sum(R"("total_gen":9)") == "t:1: total_gen: 9 is invalid; expected 8, the sum of the segments");
  CHECK(sum(R"("total_ret":0)") == "t:1: total_ret: 0 is invalid; expected 7, the sum of the segments");
  CHECK(sum(R"("n_api":2)") == "t:1: n_api: 2 is invalid; expected 1, the sum of the segments");
  CHECK(Error(std::string(kInferCept) + "{\"segments\": [}\n").find("t:5: column 15: invalid JSON near ") == 0);
}

TEST_CASE("text-to-SQL traces have staged calls and Poisson arrivals at the rate") {
  const std::string calls =
      R"({"i":0,"step":"x","stage":0,"preds":[],"in":301,"out":26,"paper_stage":1},)"
      R"({"i":1,"step":"y","stage":1,"preds":[0],"in":9,"out":2,"paper_stage":2},)"
      R"({"i":2,"step":"y","stage":1,"preds":[0],"in":8,"out":0},{"i":3,"step":"z","preds":[1,2],"in":7,"out":4}])";
  const std::string line = R"({"id":"a","trace":"trace1","n_calls":4,"n_stages":3,"calls":[)" + calls + "}\n";
  ReadReport report;
  const Workload w = Parsed(line + line + line, {.rate = 0.5, .seed = 3}, &report);
  CHECK(report.format == WorkloadFormat::kText2Sql);
  CHECK(report.arrivals_generated);
  CHECK(report.raised_lengths == 3);
  REQUIRE(w.workflows.size() == 3);
  CHECK(w.workflows[2].arrival > w.workflows[1].arrival);
  CHECK(w.names[w.workflows[0].name] == "trace1");
  const auto own = w.calls_of(w.workflows[1]);
  REQUIRE(own.size() == 4);
  CHECK(w.names[own[1].stage] == "y");
  CHECK(w.names[own[1].agent] == "stage 2");
  CHECK(own[3].agent == 0);
  CHECK(own[0].prompt_tokens == 301);
  CHECK(w.predecessors_of(own[3]).size() == 2);

  const auto error = [](const std::string& call) { return Error(R"({"n_stages":1,"calls":[)" + call + "]}"); };
  CHECK(error("") == "t:1: calls: is empty; expected a call");
  CHECK(error(R"({"step":"x","in":1,"out":1,"preds":[1]})") == "t:1: calls[0].preds: 1 is above 0");
  CHECK(error(R"({"step":"x","in":1,"out":1,"preds":[-1]})") == "t:1: calls[0].preds: -1 is negative");
  CHECK(error(R"({"step":"x","in":1,"out":1,"preds":[0]})").find("t:1: calls[0] (stage \"x\")") == 0);  // a cycle
  CHECK(error(R"({"step":"x","out":1})") == "t:1: calls[0].in: is missing");
  CHECK(error(R"({"stp":"x","in":1,"out":1})").find("t:1: calls[0]: key \"stp\" is unknown") == 0);
  CHECK(Error(R"({"n_stages":1,"n_calls":2,"calls":[{"in":1,"out":1}]})") ==
        "t:1: n_calls: 2 is invalid; expected 1, the number of calls");
}

TEST_CASE("sessions have successive calls, parallel sub-agents and runs of blocks") {
  const std::string calls =
      R"({"t":0,"in":200,"out":9,"api_s":5,"think_s":7,"next":"tool","from":"user","blocks":[[1,3]]},)"
      R"({"t":8,"in":70,"out":0,"api_s":2,"think_s":0,"agent":3,"blocks":[[40,1]]},)"
      R"({"t":9,"in":300,"out":1,"api_s":1,"think_s":4.5,"from":"tool","blocks":[[1,2],[9,2]]},)"
      R"({"t":12,"in":90,"out":1,"api_s":3,"think_s":2,"agent":3,"next":"user","blocks":[]},)"
      R"({"t":20,"in":310,"out":1,"think_s":10,"from":"mixed"},{"t":26,"in":311,"out":1,"next":"user"}]})";
  const std::string line = R"({"id":"a","model":"m","block_tokens":64,"tools":5,"system":6,)"
                           R"("subagents":[{"agent":3,"kind":"Explore","t":8,"s":4}],"calls":[)" +
                           calls + "\n";
  ReadReport report;
  const Workload w = Parsed(line + line, {}, &report);
  CHECK(report.format == WorkloadFormat::kSessions);
  CHECK(report.arrivals_generated);
  CHECK(report.raised_lengths == 2);
  CHECK(w.prefix_block_tokens == 64);
  REQUIRE(w.workflows.size() == 2);
  CHECK(w.names[w.workflows[1].name] == "m");
  const auto own = w.calls_of(w.workflows[1]);
  REQUIRE(own.size() == 6);
  const auto after = [&](std::size_t i) {
    const auto before = w.predecessors_of(own[i]);
    return std::vector<std::uint32_t>(before.begin(), before.end());
  };
  using Calls = std::vector<std::uint32_t>;
  CHECK(after(0) == Calls{});
  CHECK(own[0].delay == Duration{0});  // time before the first call is not part of the session
  CHECK(own[0].then == TurnEnd::kTool);
  CHECK(w.names[own[0].stage] == "user");
  CHECK(after(1) == Calls{0});
  CHECK(own[1].delay == std::chrono::seconds(3));  // from the times of the calls
  CHECK(own[1].branch == 3);
  CHECK(w.names[own[1].agent] == "Explore");
  CHECK(after(2) == Calls{0});  // the sub-agent runs in parallel
  CHECK(own[2].delay == std::chrono::milliseconds(4500));
  CHECK(own[2].then == TurnEnd::kUnknown);
  CHECK(std::ranges::equal(w.runs_of(own[2]), std::vector<PrefixRun>{{1, 2}, {9, 2}}));
  CHECK(after(3) == Calls{1});
  CHECK(own[3].delay == std::chrono::seconds(2));
  CHECK(after(4) == Calls{2, 3});  // the sub-agent has ended
  CHECK(own[4].delay == std::chrono::seconds(5));
  CHECK(after(5) == Calls{4});
  CHECK(own[5].delay == std::chrono::seconds(6));  // no gap is given
  CHECK(*ParseWorkload(ToJsonl(w), w.name) == w);
}

TEST_CASE("faults of sessions are named, and long ones are left out") {
  const auto error = [](const std::string& call, const std::string& head = R"("block_tokens":64)") {
    return Error("{" + head + R"(,"calls":[)" + call + "]}");
  };
  CHECK(error("") == "t:1: calls: is empty; expected a call");
  CHECK(error(R"({"in":1,"out":1})") == "t:1: calls[0].t: is missing");
  CHECK(error(R"({"t":0,"in":-1,"out":1})") == "t:1: calls[0].in: -1 is negative");
  CHECK(error(R"({"t":0,"in":1,"out":1,"tools":2})").find("t:1: calls[0]: key \"tools\" is unknown") == 0);
  CHECK(error(R"({"t":0,"in":1,"out":1,"next":"x"})") ==
        "t:1: calls[0].next: \"x\" is invalid; expected one of unknown, tool, user");
  CHECK(error(R"({"t":0,"in":1,"out":1,"agent":1})") == "t:1: calls[0].agent: 1 is unknown; expected a subagent");
  CHECK(error(R"({"t":0,"in":1,"out":1,"think_s":1e10})") ==
        "t:1: calls[0].think_s: 10000000000.0 is above 1000000000");
  CHECK(error(R"({"t":0,"in":64,"out":1,"blocks":[1]})") ==
        "t:1: calls[0].blocks[0]: is invalid; expected [first id, count]");
  CHECK(error(R"({"t":0,"in":64,"out":1,"blocks":[[4294967295,2]]})") == "t:1: calls[0].blocks[0]: 2 is above 1");
  CHECK(error(R"({"t":0,"in":64,"out":1,"blocks":[[1,0]]})") == "t:1: calls[0].blocks[0]: 0 is below 1");
  CHECK(error(R"({"t":0,"in":64,"out":1,"blocks":[[1,1],[4294967296,1]]})") ==
        "t:1: calls[0].blocks[1]: 4294967296 is above 4294967295");
  const std::string many = R"({"t":0,"in":64,"out":1,"blocks":[[0,4294967295],[0,4294967295]]})";
  CHECK(error(many) == "t:1: calls[0]: blocks: 8589934590 of 64 tokens are too many for a prompt of 64 tokens");
  CHECK(error(R"({"t":0,"in":1,"out":1})", R"("block_tokens":0)") == "t:1: block_tokens: 0 is below 1");
  CHECK(error(R"({"t":0,"in":1,"out":1})", R"("block_tokens":64,"subagents":[{"agent":1},{"agent":1}])") ==
        "t:1: subagents[1].agent: 1 is repeated; expected once");
  const auto session = [](int block, int tokens) {
    return R"({"block_tokens":)" + std::to_string(block) + R"(,"calls":[{"t":0,"in":)" + std::to_string(tokens) +
           R"(,"out":1}]})" + "\n";
  };
  CHECK(Error(session(64, 1) + session(16, 1)) == "t:2: block_tokens: 16 is invalid; expected 64, as in earlier lines");
  ReadReport report;
  const Workload w = Parsed(session(64, 262'144) + session(64, 262'145), {}, &report);
  CHECK(w.workflows.size() == 1);
  CHECK(report.long_sessions == 1);
  CHECK(report.lines == 1);
  CHECK(Error(session(64, 9), {.max_session_tokens = 8}) == "t: has no session whose prompts have at most 8 tokens");
}

TEST_CASE("a segment without tokens or without an end counts one token") {
  ReadReport report;
  const Workload w =
      Parsed(R"({"prompt":0,"segments":[{"gen":0,"api":"a","api_s":1,"ret":0},{"gen":0,"api":"b","api_s":1,"ret":0}]})",
             {}, &report);
  CHECK(report.raised_lengths == 4);
  CHECK(w.calls[0].prompt_tokens == 1);
  CHECK(w.calls[0].output_tokens == 3);
  CHECK(w.tools[1].after_tokens == 2);
}

TEST_CASE("a workflow's faults name call, stage and field") {
  CHECK(Error(R"({"arrival_s": 0, "calls": []})") == "t:1: calls: is empty; expected a call");
  CHECK(Error(R"({"arrival_s": 0, "calls": 3})") == "t:1: calls: 3 is invalid; expected an array");
  CHECK(Error(R"({"arrival_s": 0, "cals": [], "calls": [{"prompt": 1, "output": 1}]})") ==
        "t:1: key \"cals\" is unknown; expected one of id, class, arrival_s, deadline_s, tenant, priority, calls, "
        "solved_by");
  CHECK(Error(R"({"calls": [{"prompt": 1, "output": 1}]})") == "t:1: arrival_s: is missing");
  CHECK(Error(R"({"arrival_s": 0, "tenant": -1, "calls": [{"prompt": 1, "output": 1}]})") ==
        "t:1: tenant: -1 is negative");
  CHECK(Error(R"({"arrival_s": 0, "priority": 1e3, "calls": [{"prompt": 1, "output": 1}]})") ==
        "t:1: priority: 1000.0 is invalid; expected a whole number");
  CHECK(Error(R"({"arrival_s": 0, "priority": -3000000000, "calls": [{"prompt": 1, "output": 1}]})") ==
        "t:1: priority: -3000000000 is below -2147483648");
  CHECK(Error(R"({"arrival_s": 0, "class": 5, "calls": [{"prompt": 1, "output": 1}]})") ==
        "t:1: class: 5 is invalid; expected a string");
  CHECK(CallsError("7") == "t:1: calls[0]: 7 is invalid; expected an object");
  CHECK(CallsError(R"({"prompt": 1})") == "t:1: calls[0].output: is missing");
  CHECK(CallsError(R"({"prompt": 1, "output": 1}, {"prompt": -5, "output": 1})") ==
        "t:1: calls[1].prompt: -5 is negative");
  CHECK(CallsError(R"({"prompt": 1, "output": 1, "after": [1]})") ==
        "t:1: calls[0].after: 1 is unknown; expected the position of a call, below 1, or the name of a stage");
  CHECK(CallsError(R"({"prompt": 1, "output": 1, "after": ["plan"]})") ==
        "t:1: calls[0].after: \"plan\" is unknown; expected the position of a call, below 1, or the name of a stage");
  CHECK(CallsError(R"({"stage": "code", "prompt": 1, "output": 1, "after": [0]})") ==
        "t:1: calls[0] (stage \"code\"): after: is invalid; the calls form a cycle");
  CHECK(
      CallsError(R"({"stage": "a", "prompt": 1, "output": 1}, {"stage": "b", "prompt": 1, "output": 1, "after": [2]},)"
                 R"({"stage": "c", "prompt": 1, "output": 1, "after": [0, 1]},)"
                 R"({"stage": "d", "prompt": 1, "output": 1, "after": [1]})") ==
      "t:1: calls[1] (stage \"b\"): after: is invalid; the calls form a cycle");
  CHECK(CallsError(R"({"stage": "s", "prompt": 1, "output": 5, "tools": [{"after": 5, "duration_s": 1}]})") ==
        "t:1: calls[0] (stage \"s\"): tools[0].after: 5 is invalid; expected 1..4, inside the output");
  CHECK(CallsError(R"({"prompt": 1, "output": 5, "tools": [{"after": 0, "duration_s": 1}]})") ==
        "t:1: calls[0].tools[0].after: 0 is below 1");
  CHECK(CallsError(
            R"({"prompt": 1, "output": 5, "tools": [{"after": 2, "duration_s": 1}, {"after": 2, "duration_s": 1}]})") ==
        "t:1: calls[0]: tools[1].after: two calls after 2 tokens; expected one");
  CHECK(CallsError(R"({"prompt": 1, "output": 5, "tools": [{"after": 2}]})") ==
        "t:1: calls[0].tools[0].duration_s: is missing");
  CHECK(CallsError(R"({"prompt": 1, "output": 5, "delay_s": -1})") == "t:1: calls[0].delay_s: -1 is negative");
  CHECK(CallsError(R"({"prompt": 1, "output": 5, "delay_s": 1e9}, {"prompt": 1, "output": 5, "delay_s": 1})") ==
        "t:1: calls[1]: delay: is negative or too long");
  CHECK(
      CallsError(
          R"({"prompt": 400000000, "output": 400000000, "tools": [{"after": 1, "duration_s": 1, "returned": 400000000}]})") ==
      "t:1: calls[0]: a context of 1200000000 tokens is too long; expected at most 1000000000");
  CHECK(CallsError(R"({"prompt": 512, "output": 5, "prefix": [1, 2]})") ==
        "t:1: calls[0]: prefix: 2 blocks of 512 tokens are too many for a prompt of 512 tokens");
  const std::string good = R"({"arrival_s": 0, "calls": [{"prompt": 1, "output": 1}]})";
  CHECK(Error(good + "\n{\"takt_workload\": 1}") ==
        "t:2: takt_workload: is invalid on this line; expected on the first line only");
  CHECK(Error("{\"takt_workload\": 2}\n" + good) == "t:1: takt_workload: 2 is above 1");
  CHECK(Error("{\"takt_workload\": 1}\n") == "t: has no requests");
}

TEST_CASE("faults in a call's model data are named") {
  const auto head = [](const std::string& header) { return Error(header + "\n" + R"({"arrival_s": 0, "calls": []})"); };
  CHECK(head(R"({"takt_workload": 1, "models": 5})") == "t:1: models: 5 is invalid; expected an array");
  CHECK(head(R"({"takt_workload": 1, "models": [5]})") == "t:1: models: 5 is invalid; expected a string");
  CHECK(head(R"({"takt_workload": 1, "models": ["a", "a"]})") ==
        "t:1: models: an entry is repeated; expected distinct names");
  CHECK(head(R"({"takt_workload": 1, "models": [""]})") == "t:1: models: an entry is empty; expected a name");
  std::string many = R"({"takt_workload": 1, "models": ["0")";
  for (int i = 1; i <= 32; ++i) many += ", \"" + std::to_string(i) + "\"";
  CHECK(head(many + "]}") == "t:1: models: has too many entries; expected at most 32");
  const auto call = [](const std::string& rest, const std::string& workflow = "") {
    return Error(R"({"takt_workload": 1, "models": ["a", "b"], "features": ["x"]})"
                 "\n"
                 R"({"arrival_s": 0, )" +
                 workflow + R"("calls": [{"prompt": 1, "output": 1, )" + rest + "}]}");
  };
  CHECK(call(R"("outputs": [1, 2], "features": [0])") == "no error");
  CHECK(call(R"("outputs": [1], "features": [0])") ==
        "t:2: calls[0].outputs: 1 entries; expected 2, one per model of the first line");
  CHECK(call(R"("outputs": [1, -2], "features": [0])") == "t:2: calls[0].outputs: -2 is negative");
  CHECK(call(R"("outputs": [1, 2])") ==
        "t:2: calls[0].features: 0 entries; expected 1, one per feature of the first line");
  CHECK(call(R"("outputs": [1, 2], "features": ["x"])") ==
        "t:2: calls[0].features: \"x\" is invalid; expected a finite float");
  CHECK(call(R"("outputs": [1, 2], "features": [1e300])") ==
        "t:2: calls[0].features: 1e+300 is invalid; expected a finite float");
  CHECK(call(R"("outputs": [1, 2], "features": [0])", R"("solved_by": ["c"], )") ==
        "t:2: solved_by: \"c\" is unknown; expected a model of the first line");
  CHECK(CallsError(R"({"prompt": 1, "output": 1, "outputs": [1]})") ==
        "t:1: calls[0].outputs: 1 entries; expected 0, one per model of the first line");
}

TEST_CASE("a short line cannot request endless memory") {
  const auto all_after_all = [](int n, const std::string& after) {
    std::string calls;
    for (int i = 0; i < n; ++i) calls += R"({"stage":"s","prompt":1,"output":1,"after":[)" + after + "]},";
    calls.pop_back();
    return calls;
  };
  CHECK(CallsError(all_after_all(3000, R"("s")")) ==
        "t:1: calls[1633].after: has too many links; expected at most 4900896 in a workflow of 150028 bytes");
  CHECK(CallsError(all_after_all(200, R"("s","s","s","s")")) ==
        "t:1: calls[0] (stage \"s\"): after: is invalid; the calls form a cycle");
  CHECK(CallsError(all_after_all(9000, R"("s")"))
            .find("has too many links; expected at most 10000000 in a workflow of") != std::string::npos);
}

TEST_CASE("skipped bad lines are counted and leave nothing") {
  const ReadOptions skip{.skip_bad_lines = true};
  ReadReport report;
  const std::string bad = "2023-11-16 18:15:46,x,1\n";
  const Workload w =
      Parsed(std::string(kAzure) + bad + bad + bad + bad + bad + bad + "2023-11-16 18:15:51,0,z\n", skip, &report);
  CHECK(w == Parsed(kAzure));
  CHECK(report.bad_lines == 7);
  REQUIRE(report.bad_line_messages.size() == 5);
  CHECK(report.bad_line_messages[0] == "t:4: ContextTokens: \"x\" is invalid; expected a whole number");
  CHECK(report.raised_lengths == 0);

  const std::string good = R"({"arrival_s": 0, "calls": [{"stage": "good", "prompt": 1, "output": 1}]})";
  const std::string half =
      R"({"arrival_s": 0, "calls": [{"stage": "bad", "prompt": 0, "output": 9, "tools": [{"after": 1, "duration_s": 1}]},)"
      R"({"prompt": 1, "output": 5, "after": [0, 1], "prefix": [1]}]})";
  CHECK(Parsed(good + "\n" + half + "\n" + good, skip, &report) == Parsed(good + "\n" + good));
  CHECK(report.bad_lines == 1);
  CHECK(report.raised_lengths == 0);

  const std::string requests(kInferCept);
  ReadReport report_of_tools;
  CHECK(Parsed("{\"segments\":[]}\n" + requests + R"({"prompt":1,"segments":[{"gen":0,"api":"x","api_s":1}]})" + "\n",
               skip, &report_of_tools) == Parsed(requests));
  CHECK(report_of_tools.bad_lines == 2);
  CHECK(report_of_tools.raised_lengths == 2);

  const std::string lengths = "num_prefill_tokens,num_decode_tokens\n1,2\n";
  CHECK(Parsed(lengths + "x,1\n1,x\n3,4\n5,6\n", skip) == Parsed(lengths + "3,4\n5,6\n"));

  CHECK(Error("num_prefill_tokens,num_decode_tokens\nx,1\n", skip) ==
        "t:2: num_prefill_tokens: \"x\" is invalid; expected a whole number (and no line is valid)");
}

TEST_CASE("options and files are checked") {
  CHECK(Error(kAzure, {.limit = -1}) == "limit: -1 is invalid; expected at least 0");
  CHECK(Error(kAzure, {.rate = 0}) == "rate: 0 is invalid; expected a positive number");
  CHECK(Error(kAzure, {.max_bytes = 0}) == "max_bytes: 0 is invalid; expected at least 1");
  const absl::StatusOr<Workload> none = ReadWorkload("/no/such/file.csv");
  CHECK(none.status().code() == absl::StatusCode::kNotFound);
  CHECK(std::string(none.status().message()) == "/no/such/file.csv: cannot be opened: No such file or directory");
  CHECK(std::string(ReadWorkload("/").status().message()).find("/: cannot be read: ") == 0);
  CHECK(*ParseWorkloadFormat("mooncake") == WorkloadFormat::kMooncake);
  CHECK(std::string(ParseWorkloadFormat("csv").status().message()) ==
        "format: \"csv\" is unknown; expected one of auto, workflow, azure, mooncake, burstgpt, sharegpt, infercept, "
        "text2sql, sessions, columns");
}

TEST_CASE("values in messages are short and printable") {
  const std::string message = AzureError("2023-11-16 18:15:46," + std::string(1000, '\x01') + ",1\n");

  CHECK(message == "t:2: ContextTokens: \"" + std::string(60, '?') + "...\" is invalid; expected a whole number");
}

ReadOptions Columns(const std::string& columns) { return {.columns = columns}; }

TEST_CASE("CSV columns are found by header, with times in seconds and names") {
  ReadReport report;
  const Workload w = Parsed(
      "when,user,in,who,out\n"
      "0.0180,alice,10,x,20\n"
      "0.5,\"bob, \"\"b\"\"\",30,,40\n"
      "0.75,alice,0,y,60\n",
      Columns("arrival=when,prompt=in,output=out,tenant=user,class=who"), &report);
  REQUIRE(w.workflows.size() == 3);
  CHECK(w.workflows[1].arrival == TimePoint(std::chrono::milliseconds(482)));
  CHECK(w.tenant_names == std::vector<std::string>{"alice", "bob, \"b\""});
  CHECK(w.TenantOf(w.workflows[1]) == "bob, \"b\"");
  CHECK(w.workflows[2].tenant == 1);
  CHECK(w.names[w.workflows[2].name] == "y");
  CHECK(w.workflows[1].name == 0);
  CHECK(w.calls[1].output_tokens == 40);
  CHECK(report.format == WorkloadFormat::kColumns);
  CHECK(report.lines == 3);
  CHECK(report.raised_lengths == 1);
  CHECK_FALSE(report.arrivals_generated);
  CHECK(ParseWorkload(ToJsonl(w), "t").value() == w);  // including names
}

TEST_CASE("a quoted CSV field may have line breaks, commas and quotes") {
  const std::string map = "arrival=t,prompt=p,output=o,tenant=u", alphabet = "a\",\r\n 9";
  Random random(7);
  for (int i = 0; i < 60; ++i) {
    const std::string end = i % 2 == 0 ? "\n" : "\r\n";
    std::string text = (i % 3 == 0 ? "\xef\xbb\xbf\"t\"" : "t") + std::string(",p,\"more\nof it\",u,o") + end;
    std::vector<std::string> names;
    for (int row = 0; row < 30; ++row) {
      std::string& name = names.emplace_back("n");
      const std::uint64_t length = random.Below(row == 3 ? 40'000 : 12);  // the buffer has 32 KiB at first
      for (std::uint64_t k = 0; k < length; ++k) name += alphabet[random.Below(alphabet.size())];
      std::string quoted;
      for (const char c : name) quoted.append(c == '"' ? 2 : 1, c);
      text += std::to_string(row) + ",5,\"" + (row % 2 == 0 ? "\n9,9,x,ghost,9\n" : "") + "\",\"" + quoted + "\",7";
      if (row < 29 || i % 5 > 0) text += end;
    }
    for (const bool skip : {false, true}) {
      ReadReport report;
      const Workload w = Parsed(text, {.columns = map, .skip_bad_lines = skip}, &report);
      REQUIRE(w.workflows.size() == names.size());
      CHECK(report.bad_lines == 0);
      for (std::size_t row = 0; row < names.size(); ++row) CHECK(w.TenantOf(w.workflows[row]) == names[row]);
    }
  }
}

TEST_CASE("a header that begins as JSON does is CSV or an error") {
  for (const bool skip : {false, true}) {
    CHECK(
        Parsed(" {x,p,o\n\"\n9,9,9\n\",1,1\n", {.columns = "prompt=p,output=o", .skip_bad_lines = skip}).calls.size() ==
        1);
    CHECK(Error(" {x,num_prefill_tokens,num_decode_tokens\n\"\n9,9,9\n\",1,1\n", {.skip_bad_lines = skip})
              .starts_with("t:1: \" {x,num_prefill_tokens,num_decode_tokens\" is the start of no known format"));
  }
  CHECK(Parsed(" {\"calls\": [{\"prompt\": 1, \"output\": 1}], \"arrival_s\": 0}\n").calls.size() == 1);
}

TEST_CASE("a CSV record is named by its first line") {
  const std::string map = "prompt=p,output=o", text = "p,o,text\n1,1,\"a\n\nb\"\n1,x,\"c\nd\"\n1,1,e\n1,y,f\n";
  CHECK(Error(text, Columns(map)) == "t:5: o: \"x\" is invalid; expected a whole number");
  ReadReport report;
  CHECK(Parsed(text, {.columns = map, .skip_bad_lines = true}, &report).calls.size() == 2);
  REQUIRE(report.bad_line_messages.size() == 2);
  CHECK(report.bad_line_messages[1] == "t:8: o: \"y\" is invalid; expected a whole number");
}

TEST_CASE("a misplaced quote refuses a CSV file, since records are unclear") {
  const std::string head = "p,o,text\n1,1,good\n";
  for (const bool skip : {false, true}) {
    const auto error = [&](const std::string& text) {
      return Error(head + text, {.columns = "prompt=p,output=o", .skip_bad_lines = skip});
    };
    CHECK(error("1,1,\"he said \"hi\n9,100000,ghost\n") ==
          "t: after line 2: line 3: text after a closing quote is invalid; expected a comma");
    CHECK(error("1,1, \"hi\n9,100000,ghost\"\n") ==
          "t: after line 2: line 3: a quote inside an unquoted field is invalid; expected the whole field in quotes");
    CHECK(error("1,1,say \"hi\"\n") ==
          "t: after line 2: line 3: a quote inside an unquoted field is invalid; expected the whole field in quotes");
    CHECK(error("1,1,\"hi\n9,100000,ghost\n") ==
          "t: after line 2: line 5: a quoted field has no end; expected a closing quote");
    CHECK(error("1,1,\"hi\"\r,\n") ==
          "t: after line 2: line 3: text after a closing quote is invalid; expected a comma");
    CHECK(error("1,1,\"" + std::string(70 << 20, 'x')) ==
          "t: after line 2: a record is too long; expected at most 67108864 bytes; check for a missing closing quote");
    CHECK(Error("num_prefill_tokens,num_decode_tokens,x\n1,2,\"\n", {.skip_bad_lines = skip}) ==
          "t: after line 1: line 3: a quoted field has no end; expected a closing quote");
  }
  // JSON lines have their own quotes.
  CHECK(Parsed("{\"p\": 1, \"o\": 2}\n\"oops\n{\"p\": 3, \"o\": 4}\n",
               {.columns = "prompt=p,output=o", .skip_bad_lines = true})
            .calls.size() == 2);
}

TEST_CASE("column times have every unit, also since 1970, and dates") {
  const auto second = [](const std::string& unit, const std::string& first, const std::string& then) {
    const Workload w =
        Parsed("t,p,o\n" + then + ",1,1\n" + first + ",1,1\n", Columns("arrival=t:" + unit + ",prompt=p,output=o"));
    return w.workflows[1].arrival.time_since_epoch().count();
  };
  CHECK(second("s", "1700000000.25", "1700000001.5") == 1'250'000'000);
  CHECK(second("ms", "1700000000123", "1700000000125.5") == 2'500'000);
  CHECK(second("us", "7", "9") == 2'000);
  CHECK(second("ns", "1700000000000000001", "1700000000000000004") == 3);
  CHECK(second("s", "1700000000.000000001", "1700000000.123456789") == 123'456'788);
  CHECK(second("s", ".5", "2.") == 1'500'000'000);
  CHECK(second("s", "-0", "2.5e-1") == 250'000'000);
  CHECK(second("time", "2024-05-12T00:00:01Z", "2024-05-12 00:00:02.5") == 1'500'000'000);
  const std::string text = "a:ms,p,o\n1,1,1\n3,1,1\n";  // a colon in the name itself
  CHECK(Parsed(text, Columns("arrival=a:ms:s,prompt=p,output=o")).workflows[1].arrival ==
        TimePoint(std::chrono::seconds(2)));
}

TEST_CASE("JSON lines give columns by key, nested or as text") {
  const Workload w = Parsed(R"({"ts": 5, "usage": {"in": 10, "out": "20"}, "user": 7, "agent": null})"
                            "\n"
                            R"({"ts": 1005, "usage": {"in": 30, "out": 40}, "a.b": 1, "agent": "coder"})",
                            Columns("arrival=ts:ms,prompt=usage.in,output=usage.out,tenant=user,agent=agent"));
  CHECK(w.workflows[1].arrival == TimePoint(std::chrono::seconds(1)));
  CHECK(w.calls[0].output_tokens == 20);
  CHECK(w.TenantOf(w.workflows[0]) == "7");
  CHECK(w.workflows[1].tenant == 0);
  CHECK(w.names[w.calls[1].agent] == "coder");
}

TEST_CASE("rows of a workflow are its calls, ordered by their times") {
  const std::string text = "t,p,o,w\n4,3,3,a\n1,1,1,a\n2,9,9,\n3,2,2,b\n5,8,8,b\n";
  ReadReport report;
  const Workload w = Parsed(text, Columns("arrival=t,prompt=p,output=o,workflow=w"), &report);
  REQUIRE(w.workflows.size() == 3);
  REQUIRE(w.workflows[0].calls == 2);
  CHECK(w.calls_of(w.workflows[0])[0].prompt_tokens == 1);
  CHECK(w.predecessors_of(w.calls_of(w.workflows[0])[1])[0] == 0);
  CHECK(w.workflows[1].calls == 1);
  CHECK(w.workflows[2].arrival == TimePoint(std::chrono::seconds(2)));
  CHECK(report.lines == 5);
  ReadOptions two = Columns("prompt=p,output=o,workflow=w");
  two.limit = 2;
  CHECK(Parsed(text, two, &report).calls.size() == 3);  // a's second row is the first, its other one later
  CHECK(report.arrivals_generated);
  two.columns = "prompt=p,output=o";
  CHECK(Parsed(text, two).workflows.size() == 2);
}

TEST_CASE("faults of mapping, value or file are named") {
  const auto error = [](const std::string& text, const std::string& columns) { return Error(text, Columns(columns)); };
  const std::string map = "arrival=t,prompt=p,output=o", good = "t,p,o,w,u\n1,1,1,a,x\n";
  CHECK(error(good, "prompt=p") == "t:1: columns: output=COLUMN is missing");
  CHECK(error(good, "promt=p,output=o") ==
        "t:1: columns: \"promt=p\" is invalid; expected KEY=COLUMN with KEY one of prompt, output, arrival, workflow, "
        "session, tenant, class, priority, deadline, agent, stage, prefix");
  CHECK(error(good, "prompt=p,output=p") == "t:1: columns: \"p\" is invalid; expected each column once");
  CHECK(error(good, "prompt=p,prompt=o") == "t:1: columns: prompt is invalid; expected each key once");
  CHECK(error(good, "prompt=,output=o") == "t:1: columns: \"prompt=\" is invalid; expected a column after =");
  CHECK(error(good, "prompt=p,output=answer") ==
        "t:1: header: column \"answer\" is missing; the columns are \"t\", \"p\", \"o\", \"w\", \"u\"");
  CHECK(error(good, "\"prompt=p\"x,output=o") == "t:1: columns: a quoted name is invalid; expected a closing quote");
  CHECK(Parsed("p,o\n512.0,7\n", Columns("prompt=p,output=o")).calls[0].prompt_tokens == 512);
  CHECK(error(good + "2,1.5,1,a,x\n", map) == "t:3: p: \"1.5\" is invalid; expected a whole number");
  CHECK(error(good + "-2,1,1,a,x\n", map) == "t:3: t: \"-2\" is invalid; expected a time from 0 to 285 years");
  CHECK(error(good + "1700000000032.5,1,1,a,x\n", map) ==
        "t:3: t: \"1700000000032.5\" is invalid; expected a time from 0 to 285 years (for milliseconds, write "
        "arrival=COLUMN:ms)");
  CHECK(error(good + "2e9,1,1,a,x\n", map) ==
        "t:3: t: \"2e9\" is invalid; expected a time within 285 years of the first");
  CHECK(
      error(good + "2024-05-12 00:00:00,1,1,a,x\n", map) ==
      "t:3: t: \"2024-05-12 00:00:00\" is invalid; expected a number (for dates and times, write arrival=COLUMN:time)");
  CHECK(error(good + "2,1,1,a,y\n", map + ",workflow=w,tenant=u") ==
        "t:3: u: \"y\" differs from the first row of workflow \"a\", which has \"x\"");
  CHECK(error(R"({"t": 1, "p": 1})", map) == "t:1: o: is missing");
  CHECK(error(R"({"t": 1, "p": [1], "o": 1})", map) == "t:1: p: an array is invalid; expected a single value");
  CHECK(Error(good, {.format = WorkloadFormat::kAzure, .columns = map}) ==
        "t:1: columns: is invalid with a format (azure); expected columns or a format");
  CHECK(Error(good, {.format = WorkloadFormat::kColumns})
            .ends_with("with KEY one of prompt, output, arrival, workflow, session, tenant, class, priority, deadline, "
                       "agent, stage, prefix"));
  CHECK(error("PAR1\x15\x04", map).starts_with("t:1: is a Parquet file, which is unsupported."));
  CHECK(Error(good).find("--columns") != std::string::npos);
}

TEST_CASE("a tenant is a name or a number throughout a file") {
  const auto flow = [](const std::string& tenant) {
    return R"({"arrival_s": 0, "tenant": )" + tenant + R"(, "calls": [{"prompt": 1, "output": 1}]})" + "\n";
  };
  CHECK(Parsed(flow("\"b\"") + flow("\"a\"") + flow("\"b\"")).workflows[2].tenant == 1);
  CHECK(Parsed(R"({"takt_workload": 1, "tenants": ["a", "b"]})"
               "\n" +
               flow("\"b\""))
            .workflows[0]
            .tenant == 2);
  CHECK(Error(flow("1") + flow("\"a\"")) == "t:2: tenant: \"a\" is a name; expected a number, as on earlier lines");
  CHECK(Error(flow("\"a\"") + flow("1")) == "t:2: tenant: 1 is a number; expected a name, as on earlier lines");
  CHECK(Error(R"({"takt_workload": 1, "tenants": ["a", "a"]})") ==
        "t:1: tenants: \"a\" is repeated; expected distinct names");
}

bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST_CASE("messages quote names in UTF-8, list columns, and omit line 0") {
  const std::string map = "prompt=p,output=o,arrival=t";
  CHECK(Error("t,p,\xc3\xb6\n1,1,1\n", Columns(map)) ==
        "t:1: header: column \"o\" is missing; the columns are \"t\", \"p\", \"\xc3\xb6\"");
  CHECK(Error("t,p,o\nnan,1,1\n", Columns(map)) == "t:2: t: \"nan\" is invalid; expected a number");
  CHECK(Has(Error("t,p,o\n", Columns("prompt=tokens,in,output=o,arrival=t")),
            "\"in\" is invalid; expected KEY=COLUMN with KEY one of "));
  CHECK(Has(Error("t,p,o\n", Columns("prompt=tokens,in,output=o,arrival=t")),
            "; quote KEY=COLUMN if COLUMN has a comma"));
  CHECK(Has(std::string(ReadWorkload("/").status().message()), "/: cannot be read"));
}

}  // namespace
}  // namespace takt
