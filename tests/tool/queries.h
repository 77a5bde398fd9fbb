// A small workload of agents that write SQL, for programs under test.
#ifndef TAKT_TESTS_TOOL_QUERIES_H_
#define TAKT_TESTS_TOOL_QUERIES_H_

#include <string>

#include "fmt/format.h"
#include "tool/tool.h"

namespace takt {

// Twelve queries of a few calls each, two of them side by side.
inline std::string Queries(const TempDir& dir, const std::string& name) {
  std::string text;
  for (int i = 0; i < 12; ++i) {
    text += fmt::format(R"({{"id":"q{0}","trace":"{1}","n_calls":4,"n_stages":3,"calls":[)"
                        R"({{"step":"link","stage":0,"preds":[],"in":{2},"out":5,"paper_stage":1}},)"
                        R"({{"step":"write","stage":1,"preds":[0],"in":2000,"out":{3},"paper_stage":2}},)"
                        R"({{"step":"write","stage":1,"preds":[0],"in":1500,"out":{3},"paper_stage":2}},)"
                        R"({{"step":"test","stage":2,"preds":[1,2],"in":300,"out":9,"paper_stage":4}}]}})",
                        i, name, 300 + 10 * i, 20 + 7 * i);
    text += "\n";
  }
  return dir.Write(name + ".jsonl", text);
}

}  // namespace takt

#endif  // TAKT_TESTS_TOOL_QUERIES_H_
