#include "pleach/report/verification.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(const Verification& verification, bool on_topology,
                    std::optional<bool> is_planned_for, double wall_s) {
  return line_of(
      {{"correct", verification.correct},
       {"contention_free", on_topology ? Json(verification.contention_free) : Json(nullptr)},
       {"planned_for_topology", or_null(is_planned_for)},
       {"bitwise_replicated", verification.bitwise_replicated},
       {"violations", verification.violations},
       {"switch_conflicts", verification.switch_conflicts},
       {"wall_s", wall_s}});
}

}  // namespace pleach
