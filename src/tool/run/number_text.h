// Formats numbers for readers.
#ifndef TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_
#define TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_

#include <string>
#include <string_view>

namespace takt::tool {

// Returns 1234567 as "1,234,567".
std::string Grouped(long long number);

// Returns three significant digits: "0.123", "12.3", "1,235".
std::string Short(double number);

// Returns "1 request", "2 requests".
std::string Counted(long long number, std::string_view noun);

// Returns the number of decimals for three significant digits, at most 3. The other function formats with that number.
int Decimals(double number);
std::string Fixed(double number, int decimals);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_NUMBER_TEXT_H_
