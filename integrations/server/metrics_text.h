// The text of /metrics, in Prometheus' format.
#ifndef TAKT_INTEGRATIONS_SERVER_METRICS_TEXT_H_
#define TAKT_INTEGRATIONS_SERVER_METRICS_TEXT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "service.h"

namespace serving {

// `program` is the prefix of names that are not takt's. `model`: label model_name. `responses`: number by status.
std::string MetricsText(std::string_view program, std::string_view model, const ServiceReport& report,
                        const std::map<int, std::int64_t>& responses);

}  // namespace serving

#endif  // TAKT_INTEGRATIONS_SERVER_METRICS_TEXT_H_
