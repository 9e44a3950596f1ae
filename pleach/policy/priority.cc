#include "pleach/policy/priority.h"

#include "pleach/base/units.h"
#include "pleach/policy/buckets.h"

namespace pleach {
namespace {

std::vector<ByteRange> pieces_of(const ParameterSpace& space, int64_t piece_bytes) {
  std::vector<ByteRange> pieces;
  for (const ByteRange& tensor : space.tensors()) {
    const std::vector<ByteRange> cut = cut_range(space, tensor, piece_bytes);
    pieces.insert(pieces.end(), cut.begin(), cut.end());
  }
  return pieces;
}

}  // namespace

ReadyPieces::ReadyPieces(const ParameterSpace& space, int64_t piece_bytes)
    : pieces_(space, pieces_of(space, piece_bytes)) {}

void ReadyPieces::gradient_ready(int32_t layer) {
  for (const std::size_t piece : pieces_.gradient_ready(layer)) {
    ready_.push(piece);
  }
}

void PriorityPolicy::observe(const PolicyEvent& event) {
  if (event.kind == EventKind::kGradientReady) {
    pieces_.gradient_ready(event.index);
  } else if (event.kind == EventKind::kCollectiveFinished) {
    const auto done = under_way_.find(event.index);
    under_way_bytes_ -= done->second;
    under_way_.erase(done);
  }
}

void PriorityPolicy::decide(int64_t now_ps, PolicyActions& actions) {
  while (!pieces_.empty()) {
    const ByteRange piece = pieces_.front();
    if (!under_way_.empty() && under_way_bytes_ + piece.size() > setting_.window_bytes) {
      break;
    }
    pieces_.pop();
    under_way_.emplace(next_number_++, piece.size());
    under_way_bytes_ += piece.size();
    negotiated_.push_back({add_times_ps(now_ps, setting_.negotiation_ps), piece});
  }
  while (!negotiated_.empty() && negotiated_.front().agreed_ps <= now_ps) {
    actions.start.push_back({CollectiveKind::kAllReduce, negotiated_.front().piece});
    negotiated_.pop_front();
  }
  if (!negotiated_.empty()) {
    actions.wake_ps = negotiated_.front().agreed_ps;
  }
}

}  // namespace pleach
