// Checks that random draws in tests do not depend on the order of evaluation. The compiler chooses that order for
// arguments and operands. The check reads the sources: it knows names of generators and of functions that use one.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "structure/sources.h"

namespace takt {
namespace {

using Names = std::set<std::string>;

const Names kGenerators = {"Random", "Dice", "mt19937", "mt19937_64"};
const Names kControl = {"if", "for", "while", "switch", "catch", "constexpr"};
// Their operands are evaluated in order, from the left or from the right.
const Names kOrdered = {";", ",", "&&", "||", "?", ":", "<<", ">>", "=", "+=", "-=", "*=", "/=", "|=", "&=", "^="};

bool IsName(const std::string& token) {
  return std::isalpha(static_cast<unsigned char>(token[0])) != 0 || token[0] == '_';
}

std::vector<std::string> TokensOf(const std::string& text) {
  static const Names kTwo = {
      "&&", "||", "<<", ">>", "->", "::", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "|=", "&=", "^=", "++", "--"};
  const std::string code = CodeOf(text);
  const auto in_word = [&](std::size_t i) {
    return i < code.size() && (std::isalnum(static_cast<unsigned char>(code[i])) != 0 || code[i] == '_');
  };
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at < code.size();) {
    std::size_t end = at + 1;
    if (in_word(at)) {
      while (in_word(end)) ++end;
    } else if (kTwo.contains(code.substr(at, 2))) {
      end = at + 2;
    }
    if (std::isspace(static_cast<unsigned char>(code[at])) == 0) tokens.push_back(code.substr(at, end - at));
    at = end;
  }
  return tokens;
}

class Draws {
 public:
  explicit Draws(const std::string& text, Names generators, Names functions)
      : t_(TokensOf(text)), generators_(std::move(generators)), functions_(std::move(functions)), match_(t_.size()) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < t_.size(); ++i) {
      if (t_[i] == "(" || t_[i] == "[" || t_[i] == "{") open.push_back(i);
      if ((t_[i] != ")" && t_[i] != "]" && t_[i] != "}") || open.empty()) continue;
      match_[i] = open.back(), match_[open.back()] = i;
      open.pop_back();
    }
  }

  // Variables of a generator's type.
  Names Generators() const {
    Names found;
    for (std::size_t i = 0; i + 2 < t_.size(); ++i) {
      const std::size_t name = t_[i + 1] == "&" ? i + 2 : i + 1;
      if (kGenerators.contains(t_[i]) && IsName(t_[name])) found.insert(t_[name]);
    }
    return found;
  }

  // Functions and lambdas that use a generator from outside.
  Names Functions() {
    Names found;
    for (std::size_t i = 1; i < t_.size(); ++i) {
      if (t_[i] != "{") continue;
      std::size_t before = i - 1;
      while (before > 0 && (t_[before] == "const" || t_[before] == "mutable" || t_[before] == "noexcept")) --before;
      std::size_t first = before;
      if (t_[before] == ")") first = match_[before] - 1, before = match_[before] - 1;
      if (before >= t_.size()) continue;
      if (t_[before] == "]") before = match_[before] - 2;  // matches NAME = [
      else if (first == i - 1) continue;
      if (before >= t_.size() || !IsName(t_[before]) || kControl.contains(t_[before])) continue;
      bool own = false, draws = false;
      for (std::size_t j = before; j < match_[i]; ++j) own |= kGenerators.contains(t_[j]);
      for (std::size_t j = i; j < match_[i]; ++j) draws |= DrawsAt(j);
      if (draws && !own) found.insert(t_[before]);
    }
    return found;
  }

  Found Unordered() {
    Region(0, t_.size(), false);
    return faults_;
  }

 private:
  // Starts at a call that draws.
  bool DrawsAt(std::size_t i) const {
    if (i + 1 >= t_.size()) return false;
    if (functions_.contains(t_[i])) return t_[i + 1] == "(";
    return generators_.contains(t_[i]) && (t_[i + 1] == "." || t_[i + 1] == "->" || t_[i + 1] == "(");
  }

  // Returns true if the group that starts here is a lambda's capture.
  bool Captures(std::size_t i) const {
    if (t_[i] != "[" || i == 0 || match_[i] + 1 >= t_.size()) return false;
    const std::string& before = t_[i - 1];
    const bool operand = (IsName(before) && before != "return") || before == ")" || before == "]";
    const std::string& after = t_[match_[i] + 1];
    return !operand && (after == "(" || after == "{");
  }

  // Returns true if an expression in begin .. end - 1 draws. `call`: parts between commas are evaluated in any order.
  bool Region(std::size_t begin, std::size_t end, bool call) {
    int units = 0, parts = 0;  // operands of this part that draw, and such parts
    bool chain = false, any = false, part = false;
    const auto end_chain = [&] {
      units += chain ? 1 : 0;
      part |= chain;
      chain = false;
    };
    const auto end_segment = [&](std::size_t at) {
      end_chain();
      if (units > 1) Fault(at, "operands");
      units = 0;
    };
    const auto end_part = [&] {
      parts += part ? 1 : 0;
      any |= part;
      part = false;
    };
    for (std::size_t i = begin; i < end; ++i) {
      const std::string& t = t_[i];
      if (kOrdered.contains(t)) {
        end_segment(i);
        if (t == "," || t == ";") end_part();
      } else if (Captures(i)) {  // its body draws only in calls
        end_chain();
        i = match_[i] + 1;
        if (t_[i] == "(") i = match_[i] + 1;
        while (i < end && t_[i] != "{") ++i;
        if (i >= end) break;
        const bool draws = Region(i + 1, match_[i], false);
        i = match_[i];
        chain |= draws && i + 1 < end && t_[i + 1] == "(";
      } else if (t == "(" || t == "[" || t == "{") {
        const std::string& before = i == 0 ? t : t_[i - 1];
        const bool control = t == "(" && kControl.contains(before);
        const bool block =
            t == "{" && (before == ")" || before == ";" || before == "{" || before == "}" || before == "else" ||
                         before == "do" || before == "const" || (match_[i] + 1 < end && IsName(t_[match_[i] + 1])));
        const bool draws = Region(i + 1, match_[i], t == "(" && !control);
        chain |= draws || (t == "(" && IsName(before) && !control && Given(i + 1, match_[i]));
        i = match_[i];
        if (control || block) end_segment(i), end_part();
      } else if (IsName(t) || t == "." || t == "->" || t == "::") {
        if (IsName(t) && i > begin && (IsName(t_[i - 1]) || t_[i - 1] == ")" || t_[i - 1] == "]")) end_chain();
        chain |= DrawsAt(i);
      } else {
        end_chain();
      }
    }
    end_segment(end);
    end_part();
    if (call && parts > 1) Fault(end, "arguments");
    return any;
  }

  // Returns true if a generator is an argument.
  bool Given(std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const bool alone = (i == begin || t_[i - 1] == ",") && (i + 1 == end || t_[i + 1] == ",");
      if (alone && generators_.contains(t_[i])) return true;
    }
    return false;
  }

  void Fault(std::size_t at, const std::string& what) {
    std::string text = what + ":";
    for (std::size_t i = at < 30 ? 0 : at - 30; i < std::min(at + 1, t_.size()); ++i) text += " " + t_[i];
    faults_.push_back(std::move(text));
  }

  std::vector<std::string> t_;
  Names generators_, functions_;
  std::vector<std::size_t> match_;
  Found faults_;
};

Found UnorderedDraws(const File& file, const Names& generators, Names functions) {
  for (std::size_t before = functions.size() + 1; before != functions.size();) {
    before = functions.size();
    functions.merge(Draws(file.text, generators, functions).Functions());
  }
  return Draws(file.text, generators, functions).Unordered();
}

TEST_CASE("no test draws twice if the compiler chooses the order") {
  const auto faults = [](const std::string& text) {
    return UnorderedDraws({"a.cc", "void F(Random& random) {" + text + "}"}, {"random"}, {}).size();
  };
  CHECK(faults("F(random.Below(3), random.Below(4));") == 1);
  CHECK(faults("x = random.Below(3) + random.Below(4);") == 1);
  CHECK(faults("F(G(random), 1 + random.Below(4));") == 1);
  CHECK(faults("const auto any = [&] { return random.Below(3); }; F(any(), any());") == 1);
  CHECK(faults("if (random.Chance(0.5) == random.Chance(0.5)) return;") == 1);
  CHECK(faults("x = T{random.Below(3), random.Below(4)};") == 0);
  CHECK(faults("x = random.Chance(0.5) ? random.Below(3) : 1;") == 0);
  CHECK(faults("if (random.Chance(0.5)) x = random.Below(3); F(random.Below(random.Below(3)), 1);") == 0);
  CHECK(faults("for (int i = random.Below(3); i < 4; ++i) { F(random); } F(random);") == 0);
  CHECK(faults("Each([&] { return random.Below(3); }, random.Below(3)); x[random.Below(3)] = random.Below(3);") == 0);

  const std::vector<File> files = FilesUnder({"tests", "bench", "examples", "integrations"}, {".h", ".cc"});
  Names members;  // often of a class in another file
  for (const File& file : files) {
    for (const std::string& name : Draws(file.text, {}, {}).Generators()) {
      if (name.ends_with('_')) members.insert(name);
    }
  }
  for (const File& file : files) {
    Names generators = Draws(file.text, {}, {}).Generators();
    generators.insert(members.begin(), members.end());
    for (const std::string& fault : UnorderedDraws(file, generators, {})) FAIL_CHECK(file.path << ": " << fault);
  }
}

}  // namespace
}  // namespace takt
