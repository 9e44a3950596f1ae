#include "pleach/report/schedule.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const ScheduleSummary& summary, double wall_s) {
  return line_of({{"algorithm", summary.provenance.algorithm},
                  {"options", summary.provenance.options},
                  {"collective", to_text(summary.collective)},
                  {"rank_count", summary.rank_count},
                  {"step_count", summary.step_count},
                  {"phase_steps", summary.phase_steps},
                  {"chunk_count", summary.chunk_count},
                  {"transfer_count", summary.transfer_count},
                  {"max_transfers_per_link_step", summary.max_transfers_per_link_step},
                  {"symmetric", summary.symmetric},
                  {"certificate", certificate_json(summary.provenance.certificate)},
                  {"period", summary.period},
                  {"wall_s", wall_s}});
}

}  // namespace pleach
