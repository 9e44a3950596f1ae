#include "pleach/collective/symmetry.h"

#include <fmt/format.h>

#include <algorithm>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/collective/rank_of_node.h"

namespace pleach {

Translation::Translation(std::span<const int32_t> dimensions)
    : dimensions_(dimensions.begin(), dimensions.end()) {
  int64_t order = 1;
  for (const int32_t size : dimensions_) {
    PLEACH_CHECK(size >= 1, "a dimension has at least one coordinate");
    order *= size;
    PLEACH_CHECK(order <= 1 << 30, "the order of the group fits");
  }
  order_ = static_cast<int32_t>(order);
}

int32_t Translation::add(int32_t rank, int32_t g) const {
  int32_t sum = 0;
  int32_t stride = 1;
  for (auto size = dimensions_.rbegin(); size != dimensions_.rend(); ++size) {
    const int32_t digit = rank % *size + g % *size;
    sum += (digit >= *size ? digit - *size : digit) * stride;
    rank /= *size;
    g /= *size;
    stride *= *size;
  }
  return sum;
}

int32_t Translation::subtract(int32_t rank, int32_t g) const {
  int32_t difference = 0;
  int32_t stride = 1;
  for (auto size = dimensions_.rbegin(); size != dimensions_.rend(); ++size) {
    const int32_t digit = rank % *size - g % *size;
    difference += (digit < 0 ? digit + *size : digit) * stride;
    rank /= *size;
    g /= *size;
    stride *= *size;
  }
  return difference;
}

int32_t representative_chunk_count(const Schedule& schedule) {
  return schedule.symmetry ? schedule.chunks.count() / schedule.rank_count()
                           : schedule.chunks.count();
}

int32_t block_chunk_count(const Schedule& schedule) {
  const int32_t representatives = representative_chunk_count(schedule);
  return schedule.symmetry && schedule.collective == CollectiveKind::kAllToAll
             ? representatives / schedule.rank_count()
             : representatives;
}

int32_t translate_chunk(const Schedule& schedule, const Translation& translation, int32_t chunk,
                        int32_t g) {
  const int32_t rank_count = translation.order();
  const int32_t block_size = schedule.chunks.count() / rank_count;
  const int32_t block = chunk / block_size;
  const int32_t place = chunk % block_size;
  const int32_t moved_block = translation.add(block, g) * block_size;
  if (schedule.collective != CollectiveKind::kAllToAll) {
    return moved_block + place;
  }
  const int32_t part_size = block_size / rank_count;
  return moved_block + translation.add(place / part_size, g) * part_size + place % part_size;
}

std::string symmetric_grid_fault(const Schedule& schedule) {
  const int64_t rank_count = schedule.rank_count();
  const bool is_exchange = schedule.collective == CollectiveKind::kAllToAll;
  const int64_t parts = is_exchange ? rank_count * rank_count : rank_count;
  const ChunkGrid& grid = schedule.chunks;
  if (grid.count() % parts != 0) {
    return fmt::format("chunks: the symmetric form needs a multiple of {}, got {}", parts,
                       grid.count());
  }
  if (grid.is_uniform()) {
    return "";
  }
  const Translation translation(schedule.symmetry->dimensions);
  const int32_t block = representative_chunk_count(schedule);
  for (int32_t chunk = block; chunk < grid.count(); ++chunk) {
    const int32_t moved =
        translate_chunk(schedule, translation, chunk, translation.subtract(0, chunk / block));
    if (grid.weight(chunk) != grid.weight(moved)) {
      return fmt::format("chunks: chunk {} has weight {}, its representative {} has {}", chunk,
                         grid.weight(chunk), moved, grid.weight(moved));
    }
  }
  // The blocks of one source may still divide its chunks otherwise than evenly.
  const auto part_chunks = static_cast<int32_t>(grid.count() / parts);
  for (int64_t part = 1; part < parts; ++part) {
    const auto chunk = static_cast<int32_t>(part) * part_chunks;
    if (static_cast<__int128>(grid.cumulative(chunk)) * parts !=
        static_cast<__int128>(grid.total()) * part) {
      return fmt::format(
          "chunks: the symmetric form needs part {} of {} of {} to begin at chunk {}", part, parts,
          to_text(schedule.collective), chunk);
    }
  }
  return "";
}

namespace {

// A link out of a rank, by what it must share with its translates.
struct LinkShape {
  int32_t displacement = 0;
  LinkId link;
};

std::string link_text(const Topology& topology, LinkId id) {
  const Link& link = topology.link(id);
  return fmt::format("link {} ({} -> {})", id.value, topology.node(link.source).name,
                     topology.node(link.target).name);
}

Error asymmetric(const std::string& message) {
  return invalid("the topology lacks the symmetry: " + message);
}

// Refuses participants that are not exactly the topology's nodes.
Status compare_participants(const Schedule& schedule, const Topology& topology,
                            const RankOfNode& rank_of) {
  if (schedule.participants.size() != topology.nodes().size()) {
    return asymmetric(fmt::format("it has {} nodes, the schedule {} participants",
                                  topology.nodes().size(), schedule.participants.size()));
  }
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const NodeId node = schedule.participants[at(rank)];
    if (rank_of(node) != rank) {
      return asymmetric(
          fmt::format("participant {} (node {}) is missing or repeated", rank, node.value));
    }
  }
  return ok();
}

Status compare_nodes(const Topology& topology, bool compare_latency) {
  const Node& first = topology.nodes().front();
  for (const Node& node : topology.nodes()) {
    if (node.kind != first.kind || node.forwards != first.forwards ||
        (compare_latency && node.overhead_ps != first.overhead_ps)) {
      return asymmetric(fmt::format("node {} differs from node {}", node.name, first.name));
    }
  }
  return ok();
}

}  // namespace

Result<LinkTranslation> LinkTranslation::create(const Schedule& schedule, const Topology& topology,
                                                bool compare_latency) {
  PLEACH_CHECK(schedule.symmetry.has_value(), "the schedule is symmetric");
  LinkTranslation result{Translation(schedule.symmetry->dimensions)};
  const Translation& translation = result.translation_;
  if (translation.order() != schedule.rank_count()) {
    return asymmetric(fmt::format("a group of order {} does not act on {} ranks",
                                  translation.order(), schedule.rank_count()));
  }
  const RankOfNode rank_of(schedule.participants, topology.nodes().size());
  PLEACH_TRY(compare_participants(schedule, topology, rank_of));
  PLEACH_TRY(compare_nodes(topology, compare_latency));
  const auto shapes_of = [&](int32_t rank) {
    std::vector<LinkShape> shapes;
    const NodeId node = schedule.participants[at(rank)];
    for (const LinkId link : topology.links_out(node)) {
      check_interruption();
      const int32_t target = rank_of(topology.link(link).target);
      shapes.push_back({translation.subtract(target, rank), link});
    }
    std::stable_sort(shapes.begin(), shapes.end(), [](const LinkShape& a, const LinkShape& b) {
      return a.displacement < b.displacement;
    });
    return shapes;
  };
  const std::vector<LinkShape> model = shapes_of(0);
  const auto rank_count = at(schedule.rank_count());
  result.class_count_ = count_of(model);
  result.class_.resize(topology.links().size());
  result.origin_.resize(topology.links().size());
  result.by_class_.resize(model.size() * rank_count);
  for (int32_t rank = 0; rank < schedule.rank_count(); ++rank) {
    const std::vector<LinkShape> shapes = shapes_of(rank);
    for (std::size_t k = 0; k < std::max(shapes.size(), model.size()); ++k) {
      if (k == shapes.size()) {
        return asymmetric(fmt::format("{} has no counterpart out of rank {}",
                                      link_text(topology, model[k].link), rank));
      }
      const Link& link = topology.link(shapes[k].link);
      if (k == model.size() || shapes[k].displacement != model[k].displacement ||
          link.bandwidth_bytes_per_s != topology.link(model[k].link).bandwidth_bytes_per_s ||
          (compare_latency && link.latency_ps != topology.link(model[k].link).latency_ps)) {
        return asymmetric(fmt::format("{} has no counterpart out of rank 0",
                                      link_text(topology, shapes[k].link)));
      }
      result.class_[shapes[k].link.index()] = static_cast<int32_t>(k);
      result.origin_[shapes[k].link.index()] = rank;
      result.by_class_[k * rank_count + at(rank)] = shapes[k].link;
    }
  }
  return result;
}

LinkId LinkTranslation::translate(LinkId link, int32_t g) const {
  return link_of(class_[link.index()], translation_.add(origin_[link.index()], g));
}

LinkId LinkTranslation::link_of(int32_t link_class, int32_t rank) const {
  return by_class_[at(link_class) * at(translation_.order()) + at(rank)];
}

}  // namespace pleach
