// GaussianProcess: regression of a function of one variable from a few samples.
#pragma once

#include <span>
#include <vector>

namespace pleach {

// Matérn 5/2 kernel. Values are scaled to mean 0 and deviation 1 before, and back after; the length
// scale is the likeliest of 16 from a hundredth to three tenths of `range`: longer ones trust the
// slope between two samples too far. Immutable; thread safe.
//   source  Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), Algorithm 2.1,
//           eq. 4.17 and 5.8
class GaussianProcess {
 public:
  // `x` and `y` are of one length n, 1 ≤ n; x may repeat; range > 0.   cost  O(n³)
  GaussianProcess(std::span<const double> x, std::span<const double> y, double range);

  struct Prediction {
    double mean = 0.0;
    double deviation = 0.0;  // ≥ 0
  };
  Prediction at(double x) const;

 private:
  // Returns the logarithm of the samples' likelihood, without constants.
  double fit(double length);

  std::vector<double> x_;
  std::vector<double> y_;       // scaled
  std::vector<double> factor_;  // n·n: the lower Cholesky factor of the covariances
  std::vector<double> weight_;  // covariances⁻¹ · y_
  double length_ = 1.0;
  double value_mean_ = 0.0;
  double value_deviation_ = 1.0;
};

}  // namespace pleach
