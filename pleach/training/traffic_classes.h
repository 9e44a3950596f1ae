// TrafficClasses: which of a training's traffic goes first on links that it shares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/workload/trace.h"

namespace pleach {

// Gives families' collectives, and messages between stages, a class of traffic (Job::traffic_class:
// the lowest is served first). A value; all are of one class unless it says otherwise.
class TrafficClasses {
 public:
  // By what ranks communicate for: 0 what computation waits for (layers and sequences that are cut,
  // tokens on their way to experts, and what nobody said), 1 messages between stages, 2 gradients,
  // 3 what I/O nodes bring and take, long before and after it is computed with.
  // Source: FRED (ISCA 2025), section 5.4: MP before PP before DP; it does not say where I/O is.
  static TrafficClasses by_role();
  // Families by name, kPipelineFamily for messages, in the order in which they are served; what is
  // not named comes last.
  //   errors  kInvalidArgument: an empty name, one that is there twice, more than classes
  static Result<TrafficClasses> in_order(const std::vector<std::string>& names);
  // "one", "role", or names with commas: "tensor,pipeline,data". Errors: those of in_order.
  static Result<TrafficClasses> parse(std::string_view text);

  bool is_one() const { return !is_by_role_ && names_.empty(); }
  int32_t of(const Family& family) const;
  int32_t of_messages() const;
  // In order; empty where it is not by name.
  const std::vector<std::string>& names() const { return names_; }

 private:
  int32_t of_name(std::string_view name) const;

  bool is_by_role_ = false;
  std::vector<std::string> names_;
};

}  // namespace pleach
