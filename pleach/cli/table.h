// Table: aligned columns of text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pleach {

class Table {
 public:
  enum class Align : uint8_t { kLeft, kRight };
  struct Column {
    std::string title;  // all titles empty: no title line
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Missing cells are empty; there are no more cells than columns.
  void add(std::vector<std::string> cells);
  // Lines without trailing blanks, each starting with `indent`.
  std::string text(const std::string& indent = "") const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name        value" lines, as `topology` and `synthesize` describe things.
class Facts {
 public:
  void add(const std::string& name, const std::string& value) { table_.add({name, value}); }
  std::string text() const { return table_.text(); }

 private:
  Table table_{{{"", Table::Align::kLeft}, {"", Table::Align::kLeft}}};
};

}  // namespace pleach
