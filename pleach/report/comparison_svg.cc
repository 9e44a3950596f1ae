// The picture of a comparison. Axes, lines and a legend are all that it has, so that it is written
// here rather than by a plotting library.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "pleach/base/text.h"
#include "pleach/base/units.h"
#include "pleach/report/comparison.h"

namespace pleach {
namespace {

// Okabe and Ito's colours, which people who see few colours can tell apart. Further lines take them
// again, dotted.
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#000000", "#8c8c00"};
constexpr double kPanelHeight = 330;  // pixels, with titles
constexpr double kLeft = 80, kTop = 36, kPlotWidth = 300, kPlotHeight = 230;
constexpr double kLegendLeft = kLeft + kPlotWidth + 16, kLegendLine = 18, kLetter = 7;

// Without the two code points of UTF-8 that XML has not.
std::string escaped(const std::string& text) {
  std::string line = one_line(text);
  for (const std::string_view none : {"\xef\xbf\xbe", "\xef\xbf\xbf"}) {
    for (auto at = line.find(none); at != std::string::npos; at = line.find(none, at)) {
      line.replace(at, none.size(), "?");
    }
  }
  std::string safe;
  for (const char letter : line) {
    switch (letter) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

// The rows of one topology and model.
class Panel {
 public:
  // Borrows the collective and the rows, of which there are some.
  Panel(const std::string& collective, const std::vector<const ComparisonRow*>& rows, double top)
      : collective_(collective), rows_(rows), top_(top + kTop) {
    for (const ComparisonRow* row : rows) {
      if (std::ranges::find(algorithms_, row->algorithm) == algorithms_.end()) {
        algorithms_.push_back(row->algorithm);
      }
    }
    const auto sizes = std::ranges::minmax(rows, {}, &ComparisonRow::size_bytes);
    first_ = position(sizes.min->size_bytes);
    last_ = position(sizes.max->size_bytes);
    for (const ComparisonRow* row : rows) {
      most_ = std::max({most_, row->algbw_bytes_per_s, row->bound_algbw_bytes_per_s});
    }
  }

  std::string text() const {
    std::string text = label(kLeft, top_ - 14, "start", title());
    text += axes();
    if (const double bound = rows_.front()->bound_algbw_bytes_per_s; bound > 0) {
      text += line({{kLeft, y(bound)}, {kLeft + kPlotWidth, y(bound)}}, "#555555", "6 4");
      text += label(kLeft + kPlotWidth, y(bound) - 4, "end", "bound");
    }
    for (std::size_t number = 0; number < algorithms_.size(); ++number) {
      text += series(algorithms_[number], number);
    }
    return text;
  }
  double height() const {
    const auto lines = static_cast<double>(algorithms_.size());
    return std::max(kPanelHeight, kTop + kLegendLine * (lines + 1));
  }
  double width() const {
    std::size_t longest = 0;
    for (const std::string& algorithm : algorithms_) {
      longest = std::max(longest, algorithm.size());
    }
    return std::max(kLeft + kLetter * static_cast<double>(title().size()),
                    kLegendLeft + 40 + kLetter * static_cast<double>(longest));
  }

 private:
  std::string title() const {
    return fmt::format("algbw of {} on {} by {}", collective_, rows_.front()->topology,
                       rows_.front()->model);
  }

  using Points = std::vector<std::pair<double, double>>;

  static double position(int64_t size_bytes) {
    return std::log2(std::max(1.0, static_cast<double>(size_bytes)));
  }
  double x(int64_t size_bytes) const {
    const double share = last_ > first_ ? (position(size_bytes) - first_) / (last_ - first_) : 0.5;
    return kLeft + share * kPlotWidth;
  }
  double y(double algbw) const {
    return top_ + kPlotHeight * (1 - (most_ > 0 ? algbw / most_ : 0));
  }
  static std::string label(double x, double y, std::string_view anchor, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                       anchor, escaped(text));
  }
  static std::string line(const Points& points, std::string_view colour, std::string_view dashes) {
    std::string text;
    for (const auto& [x, y] : points) {
      fmt::format_to(std::back_inserter(text), "{}{:.1f},{:.1f}", text.empty() ? "" : " ", x, y);
    }
    return fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" "
        "stroke-dasharray=\"{}\"/>\n",
        text, colour, dashes);
  }
  std::string axes() const {
    const double bottom = top_ + kPlotHeight;
    std::string text =
        line({{kLeft, top_}, {kLeft, bottom}, {kLeft + kPlotWidth, bottom}}, "#000000", "none");
    for (int tick = 0; tick <= 4; ++tick) {
      const double algbw = most_ * tick / 4;
      text += label(kLeft - 6, y(algbw) + 4, "end", format_bandwidth(algbw));
    }
    std::vector<int64_t> sizes;
    for (const ComparisonRow* row : rows_) {
      sizes.push_back(row->size_bytes);
    }
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    double free = 0;  // from where no label is
    for (const int64_t size : sizes) {
      if (x(size) >= free) {
        text += label(x(size), bottom + 18, "middle", format_size(size));
        free = x(size) + kPlotWidth / 5;
      }
    }
    return text + label(kLeft + kPlotWidth / 2, bottom + 38, "middle", "size of a rank's buffer");
  }
  std::string series(const std::string& algorithm, std::size_t number) const {
    Points points;
    for (const ComparisonRow* row : rows_) {
      if (row->algorithm == algorithm) {
        points.emplace_back(x(row->size_bytes), y(row->algbw_bytes_per_s));
      }
    }
    std::ranges::sort(points);
    const std::string_view colour = kColours[number % kColours.size()];
    const std::string_view dashes = number < kColours.size() ? "none" : "2 3";
    std::string text = line(points, colour, dashes);
    for (const auto& [x, y] : points) {
      fmt::format_to(std::back_inserter(text),
                     "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x, y, colour);
    }
    const double height = top_ + kLegendLine * static_cast<double>(number);
    text += line({{kLegendLeft, height}, {kLegendLeft + 20, height}}, colour, dashes);
    return text + label(kLegendLeft + 26, height + 4, "start", algorithm);
  }

  const std::string& collective_;
  const std::vector<const ComparisonRow*>& rows_;
  std::vector<std::string> algorithms_;
  double top_;
  double first_ = 0, last_ = 0;  // log2 of the sizes
  double most_ = 0;              // algbw [B/s]
};

}  // namespace

std::string comparison_svg(const Comparison& comparison) {
  double height = 0, width = 0;
  std::string text;
  for (const std::vector<const ComparisonRow*>& rows : panels_of(comparison)) {
    const Panel panel(comparison.collective, rows, height);
    text += panel.text();
    height += panel.height();
    width = std::max(width, panel.width());
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>algbw of {2}</title>\n<rect "
      "width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, height, escaped(comparison.collective), text);
}

}  // namespace pleach
