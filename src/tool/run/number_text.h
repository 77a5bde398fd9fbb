// Numbers as people read them.
#ifndef TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_
#define TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_

#include <string>
#include <string_view>

namespace takt::tool {

// 1234567 as "1,234,567".
std::string Grouped(long long number);

// With three digits that matter: "0.123", "12.3", "1,235".
std::string Short(double number);

// "1 request", "2 requests".
std::string Counted(long long number, std::string_view noun);

// How many decimals show three digits that matter, at most 3; and a number with so many.
int Decimals(double number);
std::string Fixed(double number, int decimals);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_
