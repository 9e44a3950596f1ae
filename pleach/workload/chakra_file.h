// Nodes of one Chakra execution trace file, and its bytes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"

namespace pleach {

// Numbers of the format; a file may have others.
enum class ChakraKind : int32_t {
  kInvalid,
  kMetadata,
  kMemoryLoad,
  kMemoryStore,
  kCompute,
  kSend,
  kReceive,
  kCollective,
};

// The format's numbers of collectives. A kind is written as its first one; barriers are read as
// small all_reduces, and 3 and 4, gather and scatter, are not supported.
struct ChakraCollective {
  int64_t number;
  CollectiveKind kind;
};
inline constexpr int64_t kChakraGather = 3, kChakraScatter = 4, kChakraBarrier = 9;
inline constexpr std::array<ChakraCollective, 8> kChakraCollectives = {{
    {0, CollectiveKind::kAllReduce},
    {1, CollectiveKind::kReduce},
    {2, CollectiveKind::kAllGather},
    {5, CollectiveKind::kBroadcast},
    {6, CollectiveKind::kAllToAll},
    {7, CollectiveKind::kReduceScatter},
    {8, CollectiveKind::kReduceScatter},
    {kChakraBarrier, CollectiveKind::kAllReduce},
}};

// Whole numbers of every type are int64_t. Nothing: another list, or a number beyond 64 bits.
using ChakraValue =
    std::variant<std::monostate, int64_t, double, bool, std::string, std::vector<bool>>;

struct ChakraNode {
  uint64_t id = 0;
  std::string name;
  ChakraKind kind = ChakraKind::kInvalid;
  std::vector<uint64_t> before;  // ids of control and data dependencies, ascending
  uint64_t duration_us = 0;
  std::string inputs;  // values of the inputs: of kMetadata only
  std::map<std::string, ChakraValue, std::less<>> attributes = {};  // read ones; not of kMetadata
};

// Reads a whole file, compressed with gzip or not; a compressed one is never held as a whole.
//   errors  kInvalidArgument in one line that starts with `path`: malformed bytes with their place,
//           more than 2^30 bytes, 2^22 nodes or 2^25 dependencies, or 2^24 bytes of one node
Result<std::vector<ChakraNode>> parse_chakra(std::string_view file, const std::string& path);

// The bytes of a file, not compressed. Attributes get the types that other readers expect: a wrong
// one is read as 0.
std::string chakra_bytes(std::span<const ChakraNode> nodes);

// "PREFIX.3.et: node 17 ('name'): what".
Error chakra_error(const std::string& path, const ChakraNode& node, std::string_view what,
                   ErrorCode code = ErrorCode::kInvalidArgument);

// Which nodes are kept, when others are left out and what waits for those is to wait for what they
// wait for.
class KeptNodes {
 public:
  // The next node: kept, as the next of those kept; or left out.
  void keep() { stands_for_.push_back({count_++}); }
  void leave_out(std::span<const int32_t> before) {
    stands_for_.push_back(resolve(before));
    held_ += stands_for_.back().size();
  }
  // Numbers among the nodes kept that stand for `before`, ascending.
  std::vector<int32_t> resolve(std::span<const int32_t> before) const;
  // How much nodes left out have added up: long chains of them over many nodes may need any memory.
  std::size_t held() const { return held_; }

 private:
  std::vector<std::vector<int32_t>> stands_for_;
  int32_t count_ = 0;
  std::size_t held_ = 0;
};

// PREFIX.RANK.et
std::string chakra_path(const std::string& prefix, int32_t rank);
// The first rank above this one that has a file; none: there is none.
std::optional<int32_t> chakra_rank_above(const std::string& prefix, int32_t above);

}  // namespace pleach
