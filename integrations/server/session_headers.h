// The session of a coding agent, from headers that agents and gateways already send.
#ifndef TAKT_INTEGRATIONS_SERVER_SESSION_HEADERS_H_
#define TAKT_INTEGRATIONS_SERVER_SESSION_HEADERS_H_

#include <algorithm>
#include <cstddef>
#include <string>

namespace serving {

// Headers that name a session, in order of precedence.
inline constexpr const char* kSessionHeaders[] = {"x-claude-code-session-id", "x-session-affinity", "session-id",
                                                  "x-session-id"};

// Returns the value of the first of kSessionHeaders that has a valid one; empty: no header has. A valid value has 1 to
// 256 printable ASCII characters between blanks. `last(name)` returns the last value of a header as a std::string;
// empty: the request lacks the header.
template <class Last>
std::string SessionOf(Last last) {
  constexpr std::size_t kLongest = 256;
  constexpr const char* kBlanks = " \t";
  for (const char* name : kSessionHeaders) {
    const std::string value = last(name);
    const std::size_t begin = value.find_first_not_of(kBlanks);
    if (begin == std::string::npos) continue;
    std::string session = value.substr(begin, value.find_last_not_of(kBlanks) - begin + 1);
    const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
    if (session.size() <= kLongest && std::all_of(session.begin(), session.end(), printable)) return session;
  }
  return "";
}

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_SESSION_HEADERS_H_
