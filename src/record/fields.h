// Lists the fields of every type in a log once, for writing, reading, hashing and printing. model_fields.h, made by
// scripts/mirrors, has requests, events and results.
#ifndef TAKT_SRC_RECORD_FIELDS_H_
#define TAKT_SRC_RECORD_FIELDS_H_

#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "record/fields_of.h"
#include "record/model_fields.h"
#include "takt/turns/return_times.h"
#include "takt/model/class_limits.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/record.h"
#include "takt/scheduler_options.h"

namespace takt::internal {

TAKT_FIELDS(ClassLimits, priority, max_waiting, max_waiting_tokens, max_wait, ceiling, soft)
TAKT_FIELDS(LogPolicy, policy)
TAKT_FIELDS(LogOptions, options)
TAKT_FIELDS(ReturnTimesOptions, classes, window, prior_weight, max_open, refresh, hash_seed)
TAKT_FIELDS(LogRetention, retention, gate, times)
TAKT_FIELDS(Epoch, agent_ranks, alpha)
TAKT_FIELDS(KeptPlan, id, run, moves, preempted, failed, released, tokens, idle, wake_at)
TAKT_FIELDS(PlanDigest, id, tokens, idle, wake_at, entries, run, moves, preempted, failed, released)

TAKT_FIELDS(LogStart, options, policy, pause)
TAKT_FIELDS(LogPlan, now, limits)
TAKT_FIELDS(LogStep, digest, plan)
TAKT_FIELDS(LogCommit, now, step, rows)
TAKT_FIELDS(LogAnswer, question, value, granted, for_ever)

#undef TAKT_FIELDS
#undef TAKT_FIELDS_BUT_RESERVED
#undef TAKT_NO_FIELDS

// Options list their own fields. An incomplete list does not compile here, but a duplicate is not detected.
struct AnyField {
  template <class T>
  operator T() const;
};
template <class T, class... F>
constexpr bool HasMoreFields(const std::tuple<F&...>*) {
  return requires { T{AnyField(), (static_cast<F*>(nullptr), AnyField())...}; };
}
template <class T>
  requires ListsOptions<std::remove_const_t<T>>
auto Fields(T& options) {
  auto fields = T::ListOptions(options, [](const auto&... option) { return std::tie(option.field...); });
  static_assert(!HasMoreFields<std::remove_const_t<T>>(static_cast<decltype(fields)*>(nullptr)));
  return fields;
}
template <ListsOptions T>
std::string FieldNames(const T*) {
  std::string names;
  const T options;
  VisitOptions(options, [&](std::string_view name, auto&, auto&) { names.append(name).append(", "); });
  return names;
}

template <class T>
concept HasFields = requires(T& object) { Fields(object); };

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_FIELDS_H_
