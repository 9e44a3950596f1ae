#include "pleach/report/probe.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const ProbeReport& report) {
  const HostModel& model = report.model;
  return line_of({{"transport", report.transport},
                  {"rank_count", report.rank_count},
                  {"core_count", report.core_count},
                  {"latency_ps", model.latency_ps},
                  {"message_bytes", model.message_bytes},
                  {"rank_bandwidth_bytes_per_s", model.rank_bandwidth_bytes_per_s},
                  {"host_bandwidth_bytes_per_s", model.host_bandwidth_bytes_per_s},
                  {"reduce_bandwidth_bytes_per_s", model.reduce_bandwidth_bytes_per_s}});
}

}  // namespace pleach
