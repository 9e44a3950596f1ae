#include "pleach/training/costs.h"

namespace pleach {

std::vector<int64_t> CurveCosts::breakpoints(CollectiveKind kind) const {
  std::vector<int64_t> sizes;
  for (const CostCurve::Sample& sample : curves_[at(kind)]->samples()) {
    sizes.push_back(sample.size_bytes);
  }
  return sizes;
}

}  // namespace pleach

#include "pleach/base/index.h"
