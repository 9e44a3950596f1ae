#include "pleach/api/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "pleach/base/index.h"
#include "pleach/base/units.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/report/nccl_tests.h"

namespace pleach {

// Minimises Σ (a·x_i/t_i + b·y_i/t_i − 1)², with x the hops and y the bytes a rank sends; if one
// number comes out negative, the other alone is fitted.
Result<Calibration> read_calibration(const std::string& path) {
  constexpr std::array kRings = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                 CollectiveKind::kAllGather, CollectiveKind::kAllToAll};
  PLEACH_ASSIGN(all, read_nccl_tests(path, kRings));
  const double ranks = all.rank_count;
  const double phases = all.collective == CollectiveKind::kAllReduce ? 2 : 1;
  const double hops = phases * (ranks - 1);
  double xx = 0;
  double xy = 0;
  double yy = 0;
  double x1 = 0;
  double y1 = 0;
  for (const NcclTestsFile::Row& row : all.rows) {
    const double x = hops / row.time_s;
    const double y = hops / ranks * static_cast<double>(row.size_bytes) / row.time_s;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
  }
  const double determinant = xx * yy - xy * xy;
  if (all.rows.size() < 2 || !(determinant > 1e-12 * xx * yy)) {
    return invalid(path, "needs two sizes or more to tell latency from bandwidth");
  }
  double alpha_s = (x1 * yy - y1 * xy) / determinant;
  double beta_s = (xx * y1 - xy * x1) / determinant;
  if (alpha_s < 0) {
    alpha_s = 0;
    beta_s = y1 / yy;
  }
  if (!(beta_s > 0)) {
    return invalid(path, "larger sizes take no longer: there is no bandwidth to fit");
  }
  Calibration fit{.collective = all.collective,
                  .rank_count = all.rank_count,
                  .alpha_ps = std::llround(alpha_s * static_cast<double>(kPicosecondsPerSecond)),
                  .bandwidth_bytes_per_s = 1 / beta_s,
                  .worst_error = 0,
                  .rows = count_of(all.rows)};
  const AlphaBeta costs(fit.rank_count, fit.alpha_ps, fit.bandwidth_bytes_per_s);
  for (const NcclTestsFile::Row& row : all.rows) {
    const double predicted_s = static_cast<double>(costs.time_ps(fit.collective, row.size_bytes)) /
                               static_cast<double>(kPicosecondsPerSecond);
    fit.worst_error = std::max(fit.worst_error, std::abs(predicted_s / row.time_s - 1));
  }
  return fit;
}

}  // namespace pleach
