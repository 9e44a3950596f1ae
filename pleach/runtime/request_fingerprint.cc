#include "pleach/runtime/request_fingerprint.h"

#include <fmt/format.h>

#include <algorithm>

namespace pleach {
namespace {

// From the lowest bit on. What is too large for its field shows as the field's largest value.
struct Field {
  int shift;
  int bits;
  constexpr uint64_t most() const { return (uint64_t{1} << bits) - 1; }
  constexpr uint64_t of(uint64_t fingerprint) const { return fingerprint >> shift & most(); }
  constexpr uint64_t put(uint64_t value) const { return std::min(value, most()) << shift; }
};
constexpr Field kMark{0, 16};
constexpr Field kCount{16, 32};
// In its place where there is a root.
constexpr Field kShortCount{16, 26};
constexpr Field kRoot{42, 6};
constexpr Field kSegments{48, 5};
constexpr Field kIsWide{53, 1};
constexpr Field kType{54, 3};
constexpr Field kOp{57, 3};
constexpr Field kCollective{60, 4};  // its number and 1
constexpr uint64_t kBarrier = kCollective.most();

static_assert(kAllElementTypes.size() - 1 <= kType.most());
static_assert(kAllReduceOps.size() - 1 <= kOp.most());
static_assert(kAllCollectives.size() < kBarrier);

std::optional<CollectiveKind> collective_of(uint64_t fingerprint) {
  const uint64_t number = kCollective.of(fingerprint);
  return number >= 1 && number <= kAllCollectives.size()
             ? std::optional(static_cast<CollectiveKind>(number - 1))
             : std::nullopt;
}

bool is_rooted(uint64_t fingerprint) {
  const std::optional<CollectiveKind> collective = collective_of(fingerprint);
  return collective && has_root(*collective);
}

// The bits that hold what each pair of ranks agrees on for itself.
uint64_t in_pairs(uint64_t fingerprint) {
  const bool has_pairs =
      collective_of(fingerprint) == CollectiveKind::kAllToAll && kCount.of(fingerprint) == 0;
  return has_pairs ? kCount.put(kCount.most()) | kMark.most() : 0;
}

const Field& count_field(uint64_t fingerprint) {
  return is_rooted(fingerprint) ? kShortCount : kCount;
}

std::string number_text(int64_t value, const Field& field) {
  const bool is_most = static_cast<uint64_t>(value) == field.most();
  return fmt::format("{}{}", value, is_most ? " or more" : "");
}

std::string element_text(const RequestWords& words) {
  std::string text = fmt::format("{}{}{}", words.type, words.op.empty() ? "" : " ", words.op);
  return words.wire == words.type ? text : fmt::format("{} (wire {})", text, words.wire);
}

// How one of two that differ reads, after its collective.
//   count  its field
std::string rest_text(const RequestWords& words, const RequestWords& other, const Field& count,
                      bool is_first) {
  const bool differs = words.type != other.type || words.wire != other.wire || words.op != other.op;
  std::string text = fmt::format("of {}", number_text(words.count, count));
  if (is_first || differs) {
    text += " " + element_text(words);
  }
  if (words.segment_count != other.segment_count) {
    text += fmt::format(" in {} segment{}", number_text(words.segment_count, kSegments),
                        words.segment_count == 1 ? "" : "s");
  }
  if (words.root != other.root) {
    text += fmt::format(" with root {}", number_text(words.root, kRoot));
  }
  if (!differs && words.count == other.count && words.root == other.root &&
      words.schedule != other.schedule) {
    text += fmt::format(" by schedule or parts {:04x}", words.schedule);
  }
  return text;
}

}  // namespace

uint16_t schedule_mark(uint64_t schedule_hash) {
  const uint64_t half = schedule_hash ^ schedule_hash >> 32;
  return static_cast<uint16_t>(half ^ half >> kMark.bits);
}

uint64_t request_fingerprint(const RequestTraits& traits) {
  if (!traits.collective) {
    return kCollective.put(kBarrier);
  }
  const auto segments = static_cast<uint64_t>(traits.segment_count);
  // Segments are added, so that no two numbers of them go together.
  const uint64_t mark =
      schedule_mark(traits.schedule_hash) + segments - std::min(segments, kSegments.most());
  const ReduceOp op = reduces(*traits.collective) ? traits.op : ReduceOp::kSum;
  const uint64_t root =
      has_root(*traits.collective) ? kRoot.put(static_cast<uint64_t>(traits.root.value)) : 0;
  return with_count(
      (mark & kMark.most()) | root | kSegments.put(segments) | kIsWide.put(traits.is_wide ? 1 : 0) |
          kType.put(static_cast<uint64_t>(traits.type)) | kOp.put(static_cast<uint64_t>(op)) |
          kCollective.put(static_cast<uint64_t>(*traits.collective) + 1),
      traits.count);
}

uint64_t with_count(uint64_t fingerprint, int64_t count) {
  const auto number = static_cast<uint64_t>(count);
  const Field& field = count_field(fingerprint);
  return (fingerprint ^ (number >> field.bits & kMark.most())) | field.put(number);
}

uint64_t shared_part(uint64_t fingerprint) {
  return fingerprint & ~in_pairs(fingerprint);
}

bool may_be_one(uint64_t own, uint64_t theirs) {
  return ((own ^ theirs) & ~in_pairs(own)) == 0;
}

bool differ_in_count(uint64_t fingerprint, uint64_t other) {
  return (fingerprint ^ other) == (kCount.of(fingerprint ^ other) << kCount.shift);
}

RequestWords read_request(uint64_t fingerprint) {
  const std::optional<CollectiveKind> known = collective_of(fingerprint);
  if (!known) {
    const bool is_barrier = kCollective.of(fingerprint) == kBarrier;
    return {.collective = is_barrier ? "barrier" : "what is unknown here"};
  }
  const CollectiveKind collective = *known;
  const auto type = static_cast<ElementType>(kType.of(fingerprint));
  const auto op = static_cast<ReduceOp>(kOp.of(fingerprint));
  return {.collective = to_text(collective),
          .has_elements = true,
          .type = to_text(type),
          .wire = to_text(kIsWide.of(fingerprint) != 0 ? ElementType::kFloat32 : type),
          .op = reduces(collective) ? to_text(op) : "",
          .count = static_cast<int64_t>(count_field(fingerprint).of(fingerprint)),
          .segment_count = static_cast<int32_t>(kSegments.of(fingerprint)),
          .root = is_rooted(fingerprint) ? static_cast<int32_t>(kRoot.of(fingerprint)) : 0,
          .schedule = static_cast<uint16_t>(kMark.of(fingerprint))};
}

std::string request_text(uint64_t fingerprint) {
  const RequestWords words = read_request(fingerprint);
  std::string text(words.collective);
  return words.has_elements ? text + " " + rest_text(words, words, count_field(fingerprint), true)
                            : text;
}

std::string difference_text(Rank rank, uint64_t fingerprint, Rank other, uint64_t others) {
  if (rank < other) {
    return difference_text(other, others, rank, fingerprint);
  }
  const RequestWords words = read_request(fingerprint), theirs = read_request(others);
  if (!words.has_elements || words.collective != theirs.collective) {
    return fmt::format("rank {} runs {}, rank {} {}", rank.value, request_text(fingerprint),
                       other.value, request_text(others));
  }
  const Field& count = count_field(fingerprint);
  return fmt::format("rank {} runs {} {}, rank {} {}", rank.value, words.collective,
                     rest_text(words, theirs, count, true), other.value,
                     rest_text(theirs, words, count, false));
}

}  // namespace pleach
