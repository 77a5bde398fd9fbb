// Metrics and observers of a handle.
#ifndef TAKT_SRC_C_METRICS_H_
#define TAKT_SRC_C_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "c/convert.h"
#include "c/handle.h"
#include "c/memory.h"
#include "takt/metrics/metrics_text.h"
#include "takt/metrics/request_metrics.h"
#include "takt/state/transition.h"

namespace takt::c {

static_assert(static_cast<int>(TransitionReason::kInvalid) == TAKT_REASON_FAILED);
static_assert(static_cast<int>(ClassBy::kAdapter) == TAKT_CLASS_BY_ADAPTER);

template <>
inline takt_metrics_options Defaults<takt_metrics_options>() {
  const MetricsOptions plain;
  auto to = Zeroed<takt_metrics_options>();
  to.by = static_cast<std::uint32_t>(plain.by);
  to.max_classes = plain.max_classes, to.max_requests = plain.max_requests, to.window_s = plain.window_s;
  return to;
}

// The metrics and the host's observer of one handle. Its address must not change.
struct Watching {
  std::unique_ptr<RequestMetrics> metrics;
  takt_observer host = {};
  std::string text;

  // Returns the observer of the handle's object.
  Observer observer() {
    if (metrics == nullptr && host.moved == nullptr) return {};
    if (host.moved == nullptr) return metrics->observer();
    return {[](void* watching, const Transition& t) { static_cast<Watching*>(watching)->See(t); }, this};
  }

  void See(const Transition& t) {
    if (metrics != nullptr) metrics->See(t);
    takt_transition to{};
    to.struct_size = sizeof to;
    to.reason = static_cast<std::uint32_t>(t.reason);
    to.from_status = static_cast<std::uint32_t>(t.from), to.to_status = static_cast<std::uint32_t>(t.to);
    to.request = t.request.value, to.at = Ns(t.at);
    to.known = t.known.value, to.generated = t.generated.value, to.recomputed = t.recomputed.value;
    to.priority = t.about->priority;
    host.moved(host.context, &to);
  }
};

// The following functions implement takt_scheduler_... and takt_router_... `watch(observer)` sets the object's
// observer.

template <class H, class Watch>
takt_status Measure(H* handle, const takt_metrics_options* options, takt_error* error, Watch&& watch) {
  if (const takt_status status = Valid(handle); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  std::unique_ptr<RequestMetrics> made;
  if (options != nullptr) {
    if (const takt_status status = ReadableOptions(options, error); status != TAKT_OK) return status;
    takt_metrics_options local;
    const takt_metrics_options& from = Whole(options, local);
    const takt_status status = UnlessMemoryEnds(error, [&]() -> takt_status {
      const MetricsOptions to{.by = static_cast<ClassBy>(std::min<std::uint32_t>(from.by, UINT8_MAX)),
                              .max_classes = from.max_classes,
                              .max_requests = from.max_requests,
                              .window_s = from.window_s};
      auto metrics = RequestMetrics::Create(to);
      if (!metrics.ok()) return Invalid(error, "", metrics.status());
      made = *std::move(metrics);
      return TAKT_OK;
    });
    if (status != TAKT_OK) return status;
  }
  handle->watching.metrics = std::move(made);
  watch(handle->watching.observer());
  return TAKT_OK;
}

template <class H>
takt_status NameClass(H* handle, std::int64_t key, const char* name, takt_error* error) {
  if (const takt_status status = Valid(handle); status != TAKT_OK) return Say(error, status, takt_status_name(status));
  if (name == nullptr) return Say(error, TAKT_E_NULL, "name is NULL");
  if (handle->watching.metrics == nullptr) return Say(error, TAKT_E_INVALID, "nothing is measured");
  return UnlessMemoryEnds(error, [&] {
    return handle->watching.metrics->Name(key, name)
               ? TAKT_OK
               : Say(error, TAKT_E_INVALID, "key: has a label, or all labels are in use");
  });
}

template <class H>
takt_status ReadSaturation(H* handle, std::int64_t now, double kv_share, takt_saturation* saturation) {
  if (handle->watching.metrics == nullptr) return TAKT_E_INVALID;
  const Saturation s = handle->watching.metrics->Read(At(now), kv_share);
  takt_saturation to{0, 0, s.seconds_to_clear, s.drain_tokens_per_s, s.kv_share, s.late_share, s.backlog_tokens};
  Write(to, saturation);
  return TAKT_OK;
}

// `write(text)` writes the object's own figures.
template <class H, class WriteOwn>
takt_status WriteMetrics(H* handle, std::int64_t now, const char* names, const char* model, double kv_share,
                         bool first_token, const char** text, std::size_t* n, WriteOwn&& write) {
  const std::optional<NameStyle> style = names == nullptr ? NameStyle::kTakt : FromName<NameStyle>(names);
  if (!style) return TAKT_E_INVALID;
  return UnlessMemoryEnds(nullptr, [&] {
    MetricsText out = model == nullptr ? MetricsText(*style) : MetricsText(*style, {{"model_name", model}});
    write(out);
    Watching& watching = handle->watching;
    if (watching.metrics != nullptr) out.Write(FiguresOf(*watching.metrics, At(now), kv_share), first_token);
    watching.text = out.text();
    *text = watching.text.c_str();
    WriteCount(watching.text.size(), n);
    return TAKT_OK;
  });
}

template <class H, class Watch>
takt_status SetObserver(H* handle, const takt_observer* observer, Watch&& watch) {
  if (const takt_status status = Valid(handle); status != TAKT_OK) return status;
  takt_observer to{};
  if (observer != nullptr) {
    if (const takt_status status = Readable(observer); status != TAKT_OK) return status;
    if (observer->struct_size < sizeof to || observer->reserved != 0) return TAKT_E_INVALID;
    if (observer->moved == nullptr) return TAKT_E_NULL;
    to = *observer;
  }
  handle->watching.host = to;
  watch(handle->watching.observer());
  return TAKT_OK;
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_METRICS_H_
