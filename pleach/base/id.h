// Id<Tag>: a typed index. Rank, NodeId and LinkId cannot be mixed up.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace pleach {

template <typename Tag>
struct Id {
  int32_t value = -1;
  constexpr auto operator<=>(const Id&) const = default;
  // The position in an array that is indexed by this id; the id must be set.
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

using Rank = Id<struct RankTag>;
using NodeId = Id<struct NodeTag>;
using LinkId = Id<struct LinkTag>;

}  // namespace pleach
