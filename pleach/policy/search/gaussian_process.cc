#include "pleach/policy/search/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pleach/base/check.h"

namespace pleach {
namespace {

// Variance of a sample's noise, so that samples may repeat.
constexpr double kNoise = 1e-6;
constexpr int kLengths = 16;

double matern(double distance, double length) {
  const double r = std::sqrt(5.0) * std::abs(distance) / length;
  return (1.0 + r + r * r / 3.0) * std::exp(-r);
}

// Solves factor · z = b in place; lower triangle, row by row.
void solve_lower(const std::vector<double>& factor, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < row; ++column) {
      b[row] -= factor[row * n + column] * b[column];
    }
    b[row] /= factor[row * n + row];
  }
}

// Solves factorᵀ · z = b in place.
void solve_upper(const std::vector<double>& factor, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t column = row + 1; column < n; ++column) {
      b[row] -= factor[column * n + row] * b[column];
    }
    b[row] /= factor[row * n + row];
  }
}

}  // namespace

GaussianProcess::GaussianProcess(std::span<const double> x, std::span<const double> y, double range)
    : x_(x.begin(), x.end()), y_(y.begin(), y.end()) {
  PLEACH_CHECK(!x.empty() && x.size() == y.size() && range > 0.0, "samples are pairs");
  for (const double value : y_) {
    value_mean_ += value / static_cast<double>(y_.size());
  }
  double variance = 0.0;
  for (const double value : y_) {
    variance += (value - value_mean_) * (value - value_mean_) / static_cast<double>(y_.size());
  }
  value_deviation_ = variance > 0.0 ? std::sqrt(variance) : 1.0;
  for (double& value : y_) {
    value = (value - value_mean_) / value_deviation_;
  }
  double likeliest = 0.0;
  double most = -std::numeric_limits<double>::infinity();
  for (int step = 0; step < kLengths; ++step) {
    const double length = range * 0.01 * std::pow(30.0, static_cast<double>(step) / (kLengths - 1));
    const double likelihood = fit(length);
    if (likelihood > most) {
      most = likelihood;
      likeliest = length;
    }
  }
  fit(likeliest);
}

double GaussianProcess::fit(double length) {
  const std::size_t n = x_.size();
  length_ = length;
  factor_.assign(n * n, 0.0);
  double log_likelihood = 0.0;
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column <= row; ++column) {
      double sum = matern(x_[row] - x_[column], length) + (row == column ? kNoise : 0.0);
      for (std::size_t k = 0; k < column; ++k) {
        sum -= factor_[row * n + k] * factor_[column * n + k];
      }
      factor_[row * n + column] =
          row == column ? std::sqrt(std::max(sum, kNoise / 2)) : sum / factor_[column * n + column];
    }
    log_likelihood -= std::log(factor_[row * n + row]);
  }
  weight_ = y_;
  solve_lower(factor_, weight_);
  solve_upper(factor_, weight_);
  for (std::size_t row = 0; row < n; ++row) {
    log_likelihood -= 0.5 * y_[row] * weight_[row];
  }
  return log_likelihood;
}

GaussianProcess::Prediction GaussianProcess::at(double x) const {
  std::vector<double> covariance;
  double mean = 0.0;
  for (std::size_t sample = 0; sample < x_.size(); ++sample) {
    covariance.push_back(matern(x - x_[sample], length_));
    mean += covariance.back() * weight_[sample];
  }
  solve_lower(factor_, covariance);
  double variance = 1.0;
  for (const double one : covariance) {
    variance -= one * one;
  }
  return {value_mean_ + value_deviation_ * mean,
          value_deviation_ * std::sqrt(std::max(variance, 0.0))};
}

}  // namespace pleach
