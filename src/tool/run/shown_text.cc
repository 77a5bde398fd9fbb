#include "tool/run/shown_text.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "fmt/format.h"

namespace takt::tool {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

Character FirstOf(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {.code = lead, .valid = true};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {.code = lead};
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return {.code = lead};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[bytes] || code > 0x10ffff || surrogate) return {.code = lead};
  return {.code = code, .bytes = bytes, .valid = true};
}

bool IsControl(std::uint32_t code) {
  struct Range {
    std::uint32_t first, last;
  };
  constexpr Range kControls[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},  {0x200e, 0x200f},
                                 {0x2028, 0x202e}, {0x2066, 0x2069}, {0xfeff, 0xfeff}};
  return std::ranges::any_of(kControls, [code](const Range& r) { return code >= r.first && code <= r.last; });
}

void AppendEscaped(const Character& c, std::string& out) {
  if (c.code == '\n') out += "\\n";
  else if (c.code == '\t') out += "\\t";
  else if (c.code == '\r') out += "\\r";
  else if (c.code < 0x100) fmt::format_to(std::back_inserter(out), "\\x{:02x}", c.code);
  else fmt::format_to(std::back_inserter(out), "\\u{:04x}", c.code);
}

// Returns the length of a table's colour code at the front; 0: none.
std::size_t ColourAt(std::string_view text) {
  return text.starts_with(kBold) ? kBold.size() : text.starts_with(kPlain) ? kPlain.size() : 0;
}

std::string Shown(std::string_view text, bool lines, bool colours) {
  std::string out;
  while (!text.empty()) {
    Character c = FirstOf(text);
    const std::size_t colour = colours ? ColourAt(text) : 0;
    const bool kept = colour > 0 || (lines && c.code == '\n');
    if (colour > 0) c.bytes = colour;
    if (kept || (c.valid && !IsControl(c.code))) out += text.substr(0, c.bytes);
    else AppendEscaped(c, out);
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace

std::string ShownName(std::string_view name) { return Shown(name, false, false); }

std::string ShownLines(std::string_view lines) { return Shown(lines, true, false); }

std::string ShownInColour(std::string_view lines) { return Shown(lines, true, true); }

}  // namespace takt::tool
