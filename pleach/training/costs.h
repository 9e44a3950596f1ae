// The costs of a gradient group, measured on the fabric.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/planning/cost_curve.h"
#include "pleach/policy/profile.h"

namespace pleach {

// One curve per kind of collective.
class CurveCosts : public CostModel {
 public:
  void set(CollectiveKind kind, CostCurve curve) { curves_[at(kind)] = std::move(curve); }
  bool has(CollectiveKind kind) const override { return curves_[at(kind)].has_value(); }
  int64_t time_ps(CollectiveKind kind, int64_t size_bytes) const override {
    return curves_[at(kind)]->time_ps(size_bytes);
  }
  // The samples' sizes.
  std::vector<int64_t> breakpoints(CollectiveKind kind) const override;

 private:
  std::array<std::optional<CostCurve>, kAllCollectives.size()> curves_;
};

}  // namespace pleach
