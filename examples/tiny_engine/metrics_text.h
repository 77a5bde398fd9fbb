// What /metrics tells, in Prometheus' text format.
#ifndef TAKT_EXAMPLES_TINY_ENGINE_METRICS_TEXT_H_
#define TAKT_EXAMPLES_TINY_ENGINE_METRICS_TEXT_H_

#include <cstdint>
#include <map>
#include <string>

#include "service.h"

namespace tiny {

// `responses`: how many by status. Every counter of takt's Stats is takt_NAME_total.
std::string MetricsText(const ServiceReport& report, const std::map<int, std::int64_t>& responses);

}  // namespace tiny

#endif  // TAKT_EXAMPLES_TINY_ENGINE_METRICS_TEXT_H_
