// ring_2d: rings along the rows and the columns of a grid, both ways at once.
#include <fmt/format.h>

#include <numeric>

#include "pleach/base/index.h"
#include "pleach/synthesis/algorithm.h"
#include "pleach/synthesis/builder.h"

namespace pleach {
namespace {

struct Grid {
  int32_t sizes[2] = {1, 1};  // rows, columns

  int32_t node_count() const { return sizes[0] * sizes[1]; }
  // The node at `position` of the `line`-th ring along a dimension.
  NodeId node(int32_t dimension, int32_t line, int32_t position) const {
    return NodeId{dimension == 0 ? position * sizes[1] + line : line * sizes[1] + position};
  }
};

// One quarter of the buffer: the dimension that it takes first, and its way round all rings.
struct Quarter {
  int32_t first_chunk = 0;
  int32_t chunk_count = 1;
  int32_t first_dimension = 0;
  bool is_reversed = false;
  bool reduces_against = false;  // reductions go the other way round than gathers
};

Result<Grid> whole_grid(const SynthesisRequest& request) {
  const auto dimensions = request.topology.grid();
  if (dimensions.size() != 2 || dimensions[0].size < 2 || dimensions[1].size < 2) {
    return Error{
        ErrorCode::kInfeasible,
        fmt::format("{} is no grid of two dimensions of at least two ranks each{}",
                    request.topology.name(),
                    dimensions.empty() ? "; one that lost a cable or a node is none" : "")};
  }
  const Grid grid{{dimensions[0].size, dimensions[1].size}};
  if (count_of(request.participants) != grid.node_count()) {
    return Error{
        ErrorCode::kInfeasible,
        fmt::format("{} of the {} ranks of {}: it takes all of them", request.participants.size(),
                    grid.node_count(), request.topology.name())};
  }
  return grid;
}

// An all_reduce of the quarter on every ring along a dimension, from `first_step` on: part p goes
// from the place after p round to p while it is reduced, or from that before it against the
// quarter's way, and from p on when it is gathered.
void add_rings(ScheduleBuilder& builder, const Grid& grid, const Quarter& quarter,
               int32_t dimension, int32_t first_step) {
  const int32_t length = grid.sizes[dimension];
  const int32_t part_count = quarter.chunk_count / length;
  for (int32_t hop = 0; hop < 2 * (length - 1); ++hop) {
    for (int32_t line = 0; line < grid.node_count() / length; ++line) {
      for (int32_t part = 0; part < length; ++part) {
        const bool goes_back = quarter.reduces_against && hop < length - 1;
        const int32_t place = (goes_back ? part + 2 * length - 1 - hop : part + 1 + hop) % length;
        const int32_t next = (place + (goes_back ? length - 1 : 1)) % length;
        const NodeId source =
            grid.node(dimension, line, quarter.is_reversed ? length - 1 - place : place);
        const NodeId target =
            grid.node(dimension, line, quarter.is_reversed ? length - 1 - next : next);
        const TransferOp op = hop < length - 1 ? TransferOp::kReduce : TransferOp::kCopy;
        builder.add({quarter.first_chunk + part * part_count, part_count, first_step + hop, op},
                    source, target, builder.route(source, target));
      }
    }
  }
}

// Ours has the quarters that take columns first before the others. The published one has them last,
// reduces against the way in which it gathers, and tells its two halves apart: a rank gathers when
// all that it has to reduce is.
Result<Schedule> ring_2d(const SynthesisRequest& request, const Options& options) {
  PLEACH_ASSIGN(grid, whole_grid(request));
  const bool is_published = options.text("order") == "published";
  if (is_published && grid.sizes[0] != grid.sizes[1]) {
    return Error{ErrorCode::kInfeasible,
                 fmt::format("{} is no square: order 'published' is of grids with as many rows as "
                             "columns",
                             request.topology.name())};
  }
  const int64_t rows = grid.sizes[0], columns = grid.sizes[1];
  const int64_t chunk_count = std::lcm(rows, columns);  // of a quarter
  const int64_t transfer_count = 8 * rows * columns * (rows + columns - 2);
  PLEACH_TRY(check_size(transfer_count, 8 * rows * columns *
                                            ((rows - 1) * (chunk_count / rows) +
                                             (columns - 1) * (chunk_count / columns))));
  ScheduleBuilder builder(request, request.collective, static_cast<int32_t>(4 * chunk_count));
  builder.reserve(transfer_count);
  for (int32_t number = 0; number < 4; ++number) {
    const int32_t count = static_cast<int32_t>(chunk_count);
    const Quarter quarter{number * count, count, is_published ? 1 - number / 2 : number / 2,
                          number % 2 == 1, is_published};
    const int32_t second = 1 - quarter.first_dimension;
    add_rings(builder, grid, quarter, quarter.first_dimension, 0);
    add_rings(builder, grid, quarter, second, 2 * (grid.sizes[quarter.first_dimension] - 1));
  }
  if (is_published) {
    return std::move(builder).finish(std::vector<int32_t>(4, grid.sizes[0] - 1));
  }
  return std::move(builder).finish({2 * (grid.sizes[0] - 1) + 2 * (grid.sizes[1] - 1)});
}

}  // namespace

extern const Algorithm kRing2d = {
    .name = "ring_2d",
    .summary = "all rows and columns of a grid as rings, both ways, a quarter of the data each",
    .source =
        "Ying et al., Image Classification at Supercomputer Scale, 2018, sec. 3.3; the "
        "baseline of Huang et al., ISCA 2021",
    .collectives = {CollectiveKind::kAllReduce},
    .options = {{.name = "order",
                 .kind = OptionDescriptor::Kind::kChoice,
                 .default_value = "free",
                 .summary = "free: a rank gathers what it can; published: as MultiTree's baseline, "
                            "whose ranks gather when all that they reduce is",
                 .allowed = {"free", "published"}}},
    .create = ring_2d,
};

}  // namespace pleach
