// Thousands of requests, good and bad, and the server's memory.
#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "tool/tool.h"
#include "client.h"
#include "fmt/format.h"
#include "scale.h"
#include "takt/base/random.h"

namespace tiny {
namespace {

using nlohmann::json;

// Resident memory of a process [bytes].
double ResidentBytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// One client's request: four of five behave. Returns false if one that behaves got no answer.
bool Ask(int port, takt::Random& random) {
  const std::string path = "/v1/completions";
  const bool stream = random.Chance(0.5);
  const std::uint64_t name = random.Below(1'000'000'000), agent = random.Below(1'000'000'000);
  const std::string workflow = fmt::format("X-Workflow-Id: {}\r\nX-Agent: {}\r\n", name, agent);
  const std::string beginning(1 + random.Below(60), 'x');
  json body = {{"prompt", beginning + std::to_string(random.Below(1000))},
               {"max_tokens", 1 + random.Below(20)},
               {"stream", stream}};
  switch (random.Below(20)) {
    case 0: {  // leaves at once
      Connection client(port);
      client.Send(PostText(path, body.dump(), workflow));
      return true;
    }
    case 1: {  // leaves in the middle
      body["max_tokens"] = 400;
      body["stream"] = true;
      Connection client(port);
      client.Send(PostText(path, body.dump(), workflow));
      client.ReadUntil("data: ");
      return true;
    }
    case 2: {
      std::string noise = PostText(path, body.dump(), workflow);
      for (int flips = 0; flips < 9; ++flips) noise[random.Below(noise.size())] = static_cast<char>(random.Below(256));
      Connection client(port);
      client.Send(noise);
      return true;
    }
    case 3: body["max_tokens"] = -1; return Post(port, path, body.dump(), workflow).status == 400;
    default: {
      const Answer answer = Post(port, path, body.dump(), workflow);
      return answer.status == 200 && (!stream || answer.stream().done);
    }
  }
}

TEST_CASE("memory does not grow with the number of requests") {
  const std::int64_t requests = takt::Scaled(2000);
  takt::Tool server({"--serve",
                     "0",
                     "--model",
                     "1M",
                     "--max-context",
                     "1024",
                     "--kv-blocks",
                     "256",
                     "--cpu-blocks",
                     "64",
                     "--prefix-cache",
                     "--max-seqs",
                     "16",
                     "--policy",
                     "sjf",
                     "--connections",
                     "64",
                     "--option",
                     "preempt=by_rank",
                     "--option",
                     "preempt_action=out"},
                    takt::Tool::Where::kTerminal);
  server.WaitFor(" at http://127.0.0.1:");
  server.WaitFor("\n");
  const int port = std::atoi(server.seen().c_str() + server.seen().find("127.0.0.1:") + 10);

  constexpr int kParts = 10;
  std::vector<double> resident;
  std::atomic<std::int64_t> unanswered = 0;
  for (int part = 0; part < kParts; ++part) {
    std::atomic<std::int64_t> left = requests / kParts;
    std::vector<std::thread> clients;
    for (std::uint64_t c = 0; c < 16; ++c) {
      clients.emplace_back([&, c] {
        takt::Random random(takt::Mix64(static_cast<std::uint64_t>(part) * 16 + c));
        while (left-- > 0) unanswered += Ask(port, random) ? 0 : 1;
      });
    }
    for (std::thread& client : clients) client.join();
    resident.push_back(ResidentBytes(server.pid()));
    std::printf("%3d %% of %lld requests: %.2f MB\n", (part + 1) * 100 / kParts, static_cast<long long>(requests),
                resident.back() / 1e6);
  }
  CHECK(unanswered == 0);
  const double growth = resident.back() / resident.front() - 1;
  std::printf("growth from 10 %% to 100 %%: %.2f %%\n", growth * 100);
  // the first tenth of a short run is no warm-up
  if (requests >= 2000) CHECK(growth < (requests >= 20'000 ? 0.01 : 0.1));
  server.Terminate();
  CHECK(server.Wait().exit_code == 0);
}

}  // namespace
}  // namespace tiny
