#include "pleach/synthesis/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

constexpr int64_t kMostShare = 1'000'000;
constexpr double kThousandths = 1000;
constexpr double kTiny = 1e-12;

// max Σ y with loads · y ≤ 1, y ≥ 0: y is s over the largest sum of loads.
class Simplex {
 public:
  explicit Simplex(const std::set<std::vector<double>>& loads)
      : rows_(loads.begin(), loads.end()), gain_(rows_.front().size(), 1) {
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      rows_[row].push_back(1);  // what is left of the bound
      basis_.push_back(gain_.size() + row);
    }
    for (std::size_t column = 0; column < gain_.size(); ++column) {
      columns_.push_back(column);
    }
  }

  std::vector<double> run() {
    for (std::size_t column = entering(); column < gain_.size(); column = entering()) {
      exchange(leaving(column), column);
    }
    std::vector<double> values(gain_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (basis_[row] < values.size()) {
        values[basis_[row]] = rows_[row].back();
      }
    }
    return values;
  }

 private:
  // Bland's rule: of what gains, the variable of the smallest number; gain_.size(): nothing does.
  std::size_t entering() const {
    std::size_t best = gain_.size();
    for (std::size_t column = 0; column < gain_.size(); ++column) {
      if (gain_[column] > kTiny && (best == gain_.size() || columns_[column] < columns_[best])) {
        best = column;
      }
    }
    return best;
  }
  std::size_t leaving(std::size_t column) const {
    std::size_t best = rows_.size();
    double least = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      if (rows_[row][column] <= kTiny) {
        continue;
      }
      const double ratio = rows_[row].back() / rows_[row][column];
      if (best == rows_.size() || ratio < least || (ratio == least && basis_[row] < basis_[best])) {
        best = row;
        least = ratio;
      }
    }
    return best;
  }
  void exchange(std::size_t row, std::size_t column) {
    std::vector<double>& pivot = rows_[row];
    const double over = 1 / pivot[column];
    pivot[column] = 1;
    for (double& value : pivot) {
      value *= over;
    }
    const auto eliminate = [&](std::vector<double>& other) {
      const double times = other[column];
      other[column] = 0;
      for (std::size_t k = 0; k < other.size(); ++k) {
        other[k] -= times * pivot[k];
      }
    };
    for (std::size_t other = 0; other < rows_.size(); ++other) {
      if (other != row) {
        eliminate(rows_[other]);
      }
    }
    eliminate(gain_);
    std::swap(basis_[row], columns_[column]);
  }

  std::vector<std::vector<double>> rows_;  // coefficients of columns_, then the bound
  std::vector<double> gain_;               // of columns_
  std::vector<std::size_t> basis_;         // variable of each row: parts first, then slacks
  std::vector<std::size_t> columns_;       // variables that are 0
};

std::vector<int64_t> reduced(std::vector<int64_t> shares) {
  int64_t common = 0;
  for (const int64_t share : shares) {
    common = std::gcd(common, share);
  }
  for (int64_t& share : shares) {
    share /= common;
  }
  return shares;
}

}  // namespace

Result<std::vector<int64_t>> parse_shares(const std::string& text, int32_t part_count) {
  std::vector<int64_t> shares;
  for (const std::string_view piece : split(text, '+')) {
    PLEACH_ASSIGN(share, parse_integer(piece, "share", 0, kMostShare));
    shares.push_back(share);
  }
  if (count_of(shares) != part_count) {
    return Error{ErrorCode::kInfeasible, fmt::format("shares={} for {} part{}", one_line(text),
                                                     part_count, part_count == 1 ? "" : "s")};
  }
  if (std::ranges::all_of(shares, [](int64_t share) { return share == 0; })) {
    return invalid(fmt::format("shares={}: all are 0", one_line(text)));
  }
  return reduced(std::move(shares));
}

std::vector<int64_t> best_shares(std::span<const std::vector<double>> loads) {
  double most = 0;
  for (const std::vector<double>& link : loads) {
    most = std::max(most, std::ranges::max(link));
  }
  std::set<std::vector<double>> different;
  for (std::vector<double> link : loads) {
    for (double& load : link) {
      load /= most;
    }
    different.insert(std::move(link));
  }
  const std::vector<double> values = Simplex(different).run();
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  std::vector<int64_t> shares;
  for (const double value : values) {
    shares.push_back(std::llround(value / sum * kThousandths));
  }
  return reduced(std::move(shares));
}

}  // namespace pleach
