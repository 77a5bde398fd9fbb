// Maps agents' names to numbers.
#ifndef TAKT_LEARNING_AGENT_NAMES_H_
#define TAKT_LEARNING_AGENT_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "takt/base/id.h"

namespace takt {

// A name is a byte string; the empty name is valid. Numbers start at 1 in order of appearance. A name after the first
// `most`, or longer than `longest` bytes, gets AgentId{} and is counted. A host that uses numbers of its own must not
// use names: a new name may get the number of another agent.
class AgentNames {
 public:
  explicit AgentNames(std::size_t most = 8192, std::size_t longest = 1024) : most_(most), longest_(longest) {}

  AgentId Intern(std::string_view name) {
    if (const auto at = id_of_.find(name); at != id_of_.end()) return {at->second};
    if (names_.size() >= most_ || name.size() > longest_) {
      ++refused_;
      return {};
    }
    names_.emplace_back(name);
    id_of_.emplace(names_.back(), names_.size());
    return {names_.size()};
  }

  // Returns the agent's name; empty if unknown.
  std::string_view NameOf(AgentId agent) const {
    return agent && agent.value <= names_.size() ? std::string_view(names_[agent.value - 1]) : std::string_view();
  }
  std::size_t size() const { return names_.size(); }
  AgentNames Cleared() const { return AgentNames(most_, longest_); }  // a map without names and with the same limits
  std::int64_t refused() const { return refused_; }

 private:
  std::size_t most_, longest_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint64_t, std::less<>> id_of_;
  std::int64_t refused_ = 0;
};

}  // namespace takt

#endif  // TAKT_LEARNING_AGENT_NAMES_H_
