// The text-to-SQL data next to the source tree, and assumptions of its authors' simulator (hexgen-flow.md, section
// 1.2).
#ifndef TAKT_TESTS_TEXT2SQL_H_
#define TAKT_TESTS_TEXT2SQL_H_

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace takt::text2sql {

// Reads a file under text2sql/; empty if it is absent.
inline std::string PathOf(const std::string& file) {
  const char* data = std::getenv("TAKT_DATA");
  const std::string path = (data != nullptr ? data : TAKT_SOURCE_DIR "/../shared/data") + ("/text2sql/" + file);
  return std::ifstream(path).good() ? path : "";
}

// Plain or gzip.
inline std::vector<std::string> LinesOf(const std::string& path) {
  std::string text(1 << 16, '\0');
  std::vector<std::string> lines;
  gzFile file = gzopen(path.c_str(), "rb");
  while (file != nullptr && gzgets(file, text.data(), static_cast<int>(text.size())) != nullptr) {
    std::string line = text.c_str();
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  if (file != nullptr) gzclose(file);
  return lines;
}

inline std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells = {""};
  for (const char c : line) {
    if (c == ',') cells.emplace_back();
    else cells.back() += c;
  }
  return cells;
}

// The pair of lengths that determines a step's time in the simulator.
struct Step {
  std::string_view name;
  int in, out;
};
inline constexpr std::array<Step, 7> kSteps = {{{"Information Retriever", 308, 5},
                                                {"extract_keywords", 667, 45},
                                                {"generate_candidate_llama-agent", 11748, 678},
                                                {"revise", 5963, 79},
                                                {"unit_tester", 275, 4},
                                                {"generate_unit_test", 1109, 103},
                                                {"evaluate", 961, 22}}};

// Number of a step's name, from 1; 0: unknown. Candidates are numbered in the logs.
inline std::size_t StepNumber(std::string_view name) {
  for (std::size_t s = 0; s < kSteps.size(); ++s) {
    if (name.starts_with(kSteps[s].name)) return s + 1;
  }
  return 0;
}

inline constexpr std::array<std::string_view, 3> kGpus = {"a100", "a6000", "l40s"};
inline constexpr std::array<std::size_t, 4> kHetero2 = {0, 0, 1, 2};  // of kGpus, in the order of the engines

// Seconds by step (from 0) and GPU: one over the measured rate. Empty if the table is absent.
inline std::vector<std::array<double, 3>> StepSeconds() {
  std::vector<std::array<double, 3>> seconds;
  const std::string path = PathOf("latency_rps.csv");
  if (path.empty()) return seconds;
  const std::vector<std::string> lines = LinesOf(path);
  for (const Step& step : kSteps) {
    for (const std::string& line : lines) {
      const std::vector<std::string> cells = Cells(line);
      if (cells[0] != std::to_string(step.in) || cells[1] != std::to_string(step.out)) continue;
      seconds.push_back({1 / std::stod(cells[2]), 1 / std::stod(cells[3]), 1 / std::stod(cells[4])});
    }
  }
  return seconds.size() == kSteps.size() ? seconds : std::vector<std::array<double, 3>>();
}

}  // namespace takt::text2sql

#endif  // TAKT_TESTS_TEXT2SQL_H_
