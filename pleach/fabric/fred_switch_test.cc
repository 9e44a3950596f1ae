#include "pleach/fabric/fred_switch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace pleach {
namespace {

struct Column {
  int32_t ports;
  int64_t cells_of_2;
  int64_t cells_of_3;
  int32_t depth;
};

// Counts and depths, one column of the published construction each.
constexpr Column kColumns[] = {{2, 1, 1, 1},    {3, 4, 5, 3},     {4, 6, 7, 3},
                               {5, 12, 19, 5},  {6, 14, 21, 5},   {7, 18, 27, 5},
                               {8, 20, 29, 5},  {10, 34, 67, 7},  {11, 38, 73, 7},
                               {12, 40, 75, 7}, {16, 56, 103, 7}, {20, 88, 221, 9}};

bool is_multiplexer(const FredCell& cell) {
  return cell.kind == CellKind::kDemux || cell.kind == CellKind::kMux;
}

TEST(FredSwitch, HasThePublishedCountsAndDepths) {
  for (const Column& column : kColumns) {
    for (const int32_t middle : {2, 3}) {
      const FredSize size = {column.ports, middle};
      const FredSwitch made = FredSwitch::create(size).value();
      EXPECT_EQ(made.count().cells, middle == 2 ? column.cells_of_2 : column.cells_of_3)
          << size.text();
      EXPECT_EQ(size.stages(), column.depth) << size.text();
      std::set<int32_t> stages;
      for (const FredCell& cell : made.cells()) {
        stages.insert(made.stage_of(cell));
      }
      EXPECT_EQ(stages.size(), static_cast<std::size_t>(column.depth)) << size.text();
      EXPECT_EQ(made.count().multiplexers, std::ranges::count_if(made.cells(), is_multiplexer));
      EXPECT_EQ(made.count().cells + made.count().multiplexers,
                static_cast<int64_t>(made.cells().size()));
    }
  }
}

// n(2) = 1, n(P) = 2 floor(P/2) + m n(ceil(P/2)); d(2) = 1, d(P) = 2 + d(ceil(P/2)).
int64_t cells(int32_t ports, int32_t middle) {
  return ports == 2 ? 1 : ports / 2 * 2 + middle * cells((ports + 1) / 2, middle);
}

TEST(FredSwitch, CountsAsTheRecursionSays) {
  for (int32_t ports = 2; ports <= 70; ++ports) {
    for (int32_t middle = 2; middle <= 6; ++middle) {
      EXPECT_EQ(count_cells({ports, middle})->cells, cells(ports, middle))
          << ports << " " << middle;
    }
  }
}

TEST(FredSwitch, EveryWireHasOneEndAndGoesOneStageOn) {
  for (int32_t ports = 2; ports <= 21; ++ports) {
    for (const int32_t middle : {2, 3, 4}) {
      const FredSwitch made = FredSwitch::create({ports, middle}).value();
      std::vector<int32_t> stage(static_cast<std::size_t>(made.wire_count()), -1);
      std::vector<int32_t> ends(stage.size(), 0);
      for (int32_t index = 0; index < static_cast<int32_t>(made.cells().size()); ++index) {
        const FredCell& cell = made.cells()[static_cast<std::size_t>(index)];
        EXPECT_EQ(made.find(cell.kind, cell.level, cell.subnetwork, cell.index), index);
        const bool is_output = cell.kind == CellKind::kDistribute || cell.kind == CellKind::kMux;
        const bool is_input = cell.kind == CellKind::kReduce || cell.kind == CellKind::kDemux;
        const int32_t pair = is_multiplexer(cell) ? 1 : 2;
        EXPECT_EQ(made.inputs_of(index).size(),
                  static_cast<std::size_t>(is_output ? middle : pair));
        EXPECT_EQ(made.output_count_of(index), is_input ? middle : pair);
        for (const int32_t wire : made.inputs_of(index)) {
          ++ends[static_cast<std::size_t>(wire)];
          EXPECT_EQ(stage[static_cast<std::size_t>(wire)], made.stage_of(cell) - 1);
        }
        for (int32_t output = 0; output < made.output_count_of(index); ++output) {
          stage[static_cast<std::size_t>(made.first_output_of(index) + output)] =
              made.stage_of(cell);
        }
      }
      for (const int32_t wire : made.output_wires()) {
        ++ends[static_cast<std::size_t>(wire)];
        EXPECT_EQ(stage[static_cast<std::size_t>(wire)], made.size().stages() - 1);
      }
      EXPECT_TRUE(std::ranges::all_of(ends, [](int32_t count) { return count == 1; }));
      EXPECT_EQ(made.output_wires().size(), static_cast<std::size_t>(ports));
    }
  }
}

TEST(FredSwitch, NamesCellsByTheWayToThem) {
  const FredSwitch made = FredSwitch::create({12, 3}).value();
  EXPECT_EQ(made.size().text(), "FRED_3(12)");
  EXPECT_EQ(made.name_of({CellKind::kReduce, 0, 0, 5}), "R5");
  EXPECT_EQ(made.name_of({CellKind::kDistribute, 1, 2, 1}), "2/D1");
  EXPECT_EQ(made.name_of({CellKind::kDemux, 2, 7, 0}), "2.1/demux");
  EXPECT_EQ(made.name_of({CellKind::kBoth, 3, 26, 0}), "2.2.2/RD");
  EXPECT_EQ(FredSwitch::create({2, 3})->name_of({}), "RD");
}

TEST(FredSwitch, RefusesInOneLine) {
  const auto refusal = [](int32_t ports, int32_t middle) {
    return FredSwitch::create({ports, middle}).error().message;
  };
  EXPECT_EQ(refusal(1, 2), "a switch of 1 ports: there are at least 2");
  EXPECT_EQ(refusal(-3, 2), "a switch of -3 ports: there are at least 2");
  EXPECT_EQ(refusal(8, 1), "a switch with 1 subnetworks in the middle: it has at least 2");
  EXPECT_EQ(refusal(1024, 9), "FRED_9(1024) has over 10000000 cells");
  EXPECT_EQ(refusal(INT32_MAX, INT32_MAX), "FRED_2147483647(2147483647) has over 10000000 cells");
  EXPECT_EQ(refusal(3, INT32_MAX), "FRED_2147483647(3) has over 10000000 cells");
  EXPECT_EQ(count_cells({2, INT32_MAX})->cells, 1);
  EXPECT_EQ(count_cells({3, 9'999'998})->cells, kMostFredCells);
  EXPECT_FALSE(count_cells({3, 9'999'999}));
}

}  // namespace
}  // namespace pleach
