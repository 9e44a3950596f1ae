#include "pleach/cli/table.h"

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {
namespace {

// Columns that the text takes on a terminal: its code points.
std::size_t width_of(const std::string& text) {
  return at(std::count_if(text.begin(), text.end(), [](char letter) {
    return (static_cast<unsigned char>(letter) & 0xC0) != 0x80;
  }));
}

}  // namespace

void Table::add(std::vector<std::string> cells) {
  PLEACH_CHECK(cells.size() <= columns_.size(), "a row has as many cells as there are columns");
  std::ranges::transform(cells, cells.begin(), one_line);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  if (std::any_of(titles.begin(), titles.end(), [](const auto& title) { return !title.empty(); })) {
    lines.push_back(titles);
  }
  lines.insert(lines.end(), rows_.begin(), rows_.end());

  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& line : lines) {
    for (std::size_t cell = 0; cell < line.size(); ++cell) {
      widths[cell] = std::max(widths[cell], width_of(line[cell]));
    }
  }
  std::string text;
  for (const auto& line : lines) {
    std::string shown = indent;
    for (std::size_t cell = 0; cell < line.size(); ++cell) {
      const std::string blanks(widths[cell] - width_of(line[cell]), ' ');
      const bool left = columns_[cell].align == Align::kLeft;
      shown += (cell == 0 ? "" : "  ") + (left ? line[cell] + blanks : blanks + line[cell]);
    }
    shown.erase(shown.find_last_not_of(' ') + 1);
    text += shown + "\n";
  }
  return text;
}

}  // namespace pleach
