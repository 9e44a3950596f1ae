// Pictures of a FRED switch. Boxes and lines are all that they have.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "pleach/base/index.h"
#include "pleach/report/fred.h"

namespace pleach {
namespace {

constexpr int64_t kMostDrawn = 2000;
// Okabe and Ito's colours, which people who see few colours can tell apart.
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#e69f00", "#56b4e9", "#8c8c00", "#000000"};
constexpr std::string_view kIdle = "#cccccc";
constexpr double kCellWidth = 64, kStageWidth = 190, kPortHeight = 22, kMargin = 60, kTop = 30;

std::string_view colour_of(int32_t flow) {
  return flow < 0 ? kIdle : kColours[at(flow) % kColours.size()];
}

struct Point {
  double x = 0;
  double y = 0;
};

// Where everything stands: a column per stage, cells one below the other.
class Drawing {
 public:
  Drawing(const FredSwitch& fred, const FredRouting* routing)
      : fred_(fred), routing_(routing), flow_on_(flows_on_wires(fred, routing)) {
    std::vector<double> used(at(fred.size().stages()), 0);
    for (int32_t cell = 0; cell < count_of(fred.cells()); ++cell) {
      double& below = used[at(fred.stage_of(fred.cells()[at(cell)]))];
      top_.push_back(below);
      below += height_of(cell) + kPortHeight / 2;
    }
    height_ = std::max(*std::ranges::max_element(used), fred.size().ports * kPortHeight);
    for (int32_t cell = 0; cell < count_of(fred.cells()); ++cell) {
      // Columns are spread over the whole height.
      const double column = used[at(fred.stage_of(fred.cells()[at(cell)]))];
      top_[at(cell)] = kTop + top_[at(cell)] * height_ / column;
    }
  }

  std::string text() const {
    const double width = 2 * kMargin + fred_.size().stages() * kStageWidth;
    std::string text = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<title>{}</title>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, kTop + height_ + kTop, fred_.size().text());
    std::vector<Point> source(at(fred_.wire_count()));
    for (int32_t port = 0; port < fred_.size().ports; ++port) {
      source[at(port)] = {kMargin - 20, port_y(port)};
      text += label({8, port_y(port) + 4}, fmt::format("in {}", port));
    }
    for (int32_t cell = 0; cell < count_of(fred_.cells()); ++cell) {
      for (int32_t output = 0; output < fred_.output_count_of(cell); ++output) {
        source[at(fred_.first_output_of(cell) + output)] = {
            left_of(cell) + kCellWidth, pin_y(cell, output, fred_.output_count_of(cell))};
      }
    }
    text += wires(source, width);
    for (int32_t cell = 0; cell < count_of(fred_.cells()); ++cell) {
      text += box(cell);
    }
    return text + "</svg>\n";
  }

 private:
  double height_of(int32_t cell) const {
    const auto inputs = static_cast<int32_t>(fred_.inputs_of(cell).size());
    return kPortHeight * std::max(1.5, 0.75 * std::max(inputs, fred_.output_count_of(cell)));
  }
  double left_of(int32_t cell) const {
    return kMargin + fred_.stage_of(fred_.cells()[at(cell)]) * kStageWidth;
  }
  double pin_y(int32_t cell, int32_t pin, int32_t pins) const {
    return top_[at(cell)] + height_of(cell) * (pin + 0.5) / pins;
  }
  double port_y(int32_t port) const { return kTop + height_ * (port + 0.5) / fred_.size().ports; }

  static std::string label(const Point& at, const std::string& text) {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at.x, at.y, text);
  }
  std::string line(int32_t wire, const Point& from, const Point& to) const {
    const int32_t flow = flow_on_[at(wire)];
    return fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"{}\"/>\n",
        from.x, from.y, to.x, to.y, colour_of(flow), flow < 0 ? 1 : 2.5);
  }

  std::string wires(std::span<const Point> source, double width) const {
    std::string text;
    for (int32_t cell = 0; cell < count_of(fred_.cells()); ++cell) {
      const std::span<const int32_t> inputs = fred_.inputs_of(cell);
      for (int32_t pin = 0; pin < count_of(inputs); ++pin) {
        const int32_t wire = inputs[at(pin)];
        text += line(wire, source[at(wire)], {left_of(cell), pin_y(cell, pin, count_of(inputs))});
      }
    }
    for (int32_t port = 0; port < fred_.size().ports; ++port) {
      const int32_t wire = fred_.output_wires()[at(port)];
      const Point end = {width - kMargin - 30, port_y(port)};
      text += line(wire, source[at(wire)], end);
      text += label({end.x + 6, end.y + 4}, fmt::format("out {}", port));
    }
    return text;
  }

  // Boxes say in a tooltip what the cell does; those of dead cells are dark and dashed.
  std::string box(int32_t cell) const {
    const FredCell& own = fred_.cells()[at(cell)];
    const bool is_routed = routing_ != nullptr && routing_->routing.routed;
    const bool is_dead = fred_.is_dead(cell);
    const std::string name = fred_.name_of(own);
    std::string mode = is_dead     ? "dead"
                       : is_routed ? mode_text(own.kind, routing_->modes[at(cell)])
                                   : "";
    for (auto found = mode.find('>'); found != std::string::npos;
         found = mode.find('>', found + 4)) {
      mode.replace(found, 1, "&gt;");
    }
    return fmt::format(
        "<g><title>{}{}{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\" "
        "rx=\"3\" fill=\"{}\" stroke=\"#444444\"{}/><text x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"middle\">{}</text></g>\n",
        name, mode.empty() ? "" : ": ", mode, left_of(cell), top_[at(cell)], kCellWidth,
        height_of(cell), is_dead ? "#bbbbbb" : "#f4f4f4",
        is_dead ? " stroke-dasharray=\"4 3\"" : "", left_of(cell) + kCellWidth / 2,
        top_[at(cell)] + height_of(cell) / 2 + 4, name);
  }

  const FredSwitch& fred_;
  const FredRouting* routing_;
  std::vector<int32_t> flow_on_;
  std::vector<double> top_;  // of each cell
  double height_ = 0;
};

Status check_drawn(const FredSwitch& fred) {
  if (fred.count().cells > kMostDrawn) {
    return invalid(fmt::format("{} has {} cells: at most {} are drawn", fred.size().text(),
                               fred.count().cells, kMostDrawn));
  }
  return ok();
}

}  // namespace

Result<std::string> fred_svg(const FredSwitch& fred, const FredRouting* routing) {
  PLEACH_TRY(check_drawn(fred));
  return Drawing(fred, routing).text();
}

Result<std::string> fred_dot(const FredSwitch& fred, const FredRouting* routing) {
  PLEACH_TRY(check_drawn(fred));
  const std::vector<int32_t> flow_on = flows_on_wires(fred, routing);
  std::string text =
      fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n", fred.size().text());
  const auto out = std::back_inserter(text);
  std::vector<std::string> source(at(fred.wire_count()));
  for (int32_t port = 0; port < fred.size().ports; ++port) {
    source[at(port)] = fmt::format("in {}", port);
    fmt::format_to(out, "  \"in {0}\" [shape=plaintext];\n  \"out {0}\" [shape=plaintext];\n",
                   port);
  }
  const auto edge = [&](int32_t wire, const std::string& target) {
    const int32_t flow = flow_on[at(wire)];
    fmt::format_to(out, "  \"{}\" -> \"{}\" [color=\"{}\"{}];\n", source[at(wire)], target,
                   colour_of(flow), flow < 0 ? "" : ", penwidth=2.5");
  };
  for (int32_t cell = 0; cell < count_of(fred.cells()); ++cell) {
    const std::string name = fred.name_of(fred.cells()[at(cell)]);
    if (fred.is_dead(cell)) {
      fmt::format_to(out, "  \"{0}\" [label=\"{0} (dead)\", style=\"dashed,filled\"];\n", name);
    }
    for (const int32_t wire : fred.inputs_of(cell)) {
      edge(wire, name);
    }
    for (int32_t output = 0; output < fred.output_count_of(cell); ++output) {
      source[at(fred.first_output_of(cell) + output)] = name;
    }
  }
  for (int32_t port = 0; port < fred.size().ports; ++port) {
    edge(fred.output_wires()[at(port)], fmt::format("out {}", port));
  }
  return text + "}\n";
}

}  // namespace pleach
