#include "pleach/cli/table.h"

#include <gtest/gtest.h>

namespace pleach {
namespace {

TEST(Table, AlignsColumnsAndDropsTrailingBlanks) {
  Table table({{"name", Table::Align::kLeft}, {"time", Table::Align::kRight}, {"note"}});
  table.add({"ring", "12.5 us", "slow"});
  table.add({"multitree", "9 us"});
  EXPECT_EQ(table.text("  "),
            "  name          time  note\n"
            "  ring       12.5 us  slow\n"
            "  multitree     9 us\n");
}

TEST(Table, CountsCodePointsAndHidesEmptyTitles) {
  Facts facts;
  facts.add("µs", "1");
  facts.add("abc", "2");
  EXPECT_EQ(facts.text(), "µs   1\nabc  2\n");
}

TEST(Table, KeepsCellsOnTheirLines) {
  Facts facts;
  facts.add("a\nb", "\x1b[31mred");
  EXPECT_EQ(facts.text(), "a\\x0ab  \\x1b[31mred\n");
}

}  // namespace
}  // namespace pleach
