// A registry of policies of one kind, by name.
#ifndef TAKT_BASE_REGISTRY_H_
#define TAKT_BASE_REGISTRY_H_

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/spec.h"
#include "takt/base/spec_parser.h"

namespace takt {

// A description of a registry entry. An entry with a custom factory lists no options.
struct RegistryInfo {
  struct Option {
    std::string name, default_value, unit, meaning;
  };

  std::string name, summary;
  std::vector<Option> options = {};
};

namespace internal {

// Any: the type-erased policy. Pace: pointers to the engine's pace, if this kind of policy uses it; may be null.
template <class Any, class... Pace>
class Registry {
 public:
  // Creates a policy from the options of a spec.
  using OwnFactory = std::function<absl::StatusOr<Any>(std::span<const KeyValue>, Pace...)>;

  struct Entry {
    RegistryInfo info;
    bool typed = false;  // true: the policy's type lists its options
    std::function<absl::StatusOr<Any>(std::string_view spec, std::span<const KeyValue>, Pace...)> make;
  };

  explicit Registry(std::string_view kind, std::vector<std::string> reserved = {})
      : kind_(kind), reserved_(std::move(reserved)) {}

  // Adds a policy under its own name; `plain` has the defaults.
  template <class P>
  void Add(P plain, std::string summary) {
    entries_.push_back(EntryOf(std::move(plain), std::move(summary)));
  }

  // Same as Add, but returns InvalidArgument if the name is taken or invalid.
  template <class P>
  absl::Status Register(P plain, std::string summary) {
    return Register(EntryOf(std::move(plain), std::move(summary)));
  }
  absl::Status Register(std::string name, std::string summary, OwnFactory factory) {
    Entry entry{.info = {name, std::move(summary)}, .make = {}};
    if (factory != nullptr) {
      entry.make = [name, make = std::move(factory)](std::string_view, std::span<const KeyValue> options,
                                                     Pace... pace) {
        absl::StatusOr<Any> made = make(options, pace...);
        if (made.ok()) made->Rename(name, SpecOf(name, options));
        return made;
      };
    }
    return Register(std::move(entry));
  }

  // Returns null if no entry has this name.
  const Entry* Find(std::string_view name) const {
    const auto at = std::ranges::find(entries_, name, [](const Entry& entry) { return entry.info.name; });
    return at == entries_.end() ? nullptr : &*at;
  }

  // Creates a policy from "NAME" or "NAME(k=v,...)". InvalidArgument lists unknown names, invalid values and choices.
  absl::StatusOr<Any> Make(std::string_view spec, Pace... pace) const {
    const absl::StatusOr<Call> call = Parse(kind_, spec);
    if (!call.ok()) return call.status();
    if (!call->policies.empty()) {
      return Invalid(kind_, spec, Quoted(call->policies.front()) + " is no option: options are NAME=VALUE");
    }
    if (const Entry* entry = Find(call->name)) return entry->make(spec, call->options, pace...);
    return Invalid(kind_, spec, UnknownName(call->name));
  }

  // Returns a factory that calls Make with this text. Errors in the text are returned now, so the factory never fails.
  template <class OfEngine>
  absl::StatusOr<std::function<Any(const OfEngine&)>> MakeFactory(std::string_view spec) const {
    if (const absl::StatusOr<Any> made = Make(spec, nullptr); !made.ok()) return made.status();
    return [this, text = std::string(spec)](const OfEngine& pace) { return *Make(text, &pace); };
  }

  // Returns the entries in order of registration.
  std::vector<RegistryInfo> Infos() const {
    std::vector<RegistryInfo> infos;
    for (const Entry& entry : entries_) infos.push_back(entry.info);
    return infos;
  }

  std::string UnknownName(std::string_view name) const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) names.push_back(entry.info.name);
    return Unknown(kind_, name, names);
  }

  template <class P>
  static RegistryInfo InfoOf(const P& plain, std::string summary) {
    RegistryInfo info{NameOf(plain), std::move(summary)};
    if constexpr (OptionsPolicy<P>) {
      P::VisitOptions(plain, [&](std::string_view option, const auto& value, const OptionText& text) {
        info.options.push_back(
            {std::string(option), OptionToText(value), std::string(text.unit), std::string(text.meaning)});
      });
    }
    return info;
  }

 private:
  template <class P>
  Entry EntryOf(P plain, std::string summary) const {
    RegistryInfo info = InfoOf(plain, std::move(summary));
    return {std::move(info), true,
            [kind = kind_, plain = std::move(plain)](std::string_view spec, std::span<const KeyValue> options,
                                                     Pace... pace) -> absl::StatusOr<Any> {
              P policy = plain;
              (..., (pace != nullptr ? SetPace(policy, *pace) : void()));
              if (absl::Status set = SetOwn(kind, spec, policy, options); !set.ok()) return set;
              if constexpr (OptionsPolicy<P>) {
                const std::string name = NameOf(policy), changed = ChangedOptions(policy, plain);
                Any made(std::move(policy));
                made.Rename(name, changed.empty() ? name : name + "(" + changed + ")");
                return made;
              }
              return Any(std::move(policy));
            }};
  }

  absl::Status Register(Entry entry) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    const std::string& name = entry.info.name;
    if (name.empty() || name.find_first_not_of(kLetters) != std::string::npos) {
      return Invalid(kind_, name, "a name has lower-case letters, digits and _, and no others");
    }
    if (Find(name) != nullptr || std::ranges::find(reserved_, name) != reserved_.end()) {
      return Invalid(kind_, name, "there is one of this name");
    }
    if (entry.make == nullptr) return Invalid(kind_, name, "has no factory");
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  std::string_view kind_;
  std::vector<std::string> reserved_;
  std::vector<Entry> entries_;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_BASE_REGISTRY_H_
