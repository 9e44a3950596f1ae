#include "cuts.h"

#include <algorithm>
#include <utility>

namespace pleach_torch {
namespace {

bool gathers(const Request& request) {
  return request.asked.collective == PLEACH_ALL_GATHER || request.asked.collective == PLEACH_GATHER;
}

bool scatters(const Request& request) {
  return request.asked.collective == PLEACH_REDUCE_SCATTER ||
         request.asked.collective == PLEACH_SCATTER;
}

void append(std::vector<Interval>& intervals, Interval interval) {
  if (interval.size == 0) {
    return;
  }
  if (!intervals.empty() && intervals.back().begin + intervals.back().size == interval.begin) {
    intervals.back().size += interval.size;
  } else {
    intervals.push_back(interval);
  }
}

// Of all, as it is.
Cut uncut(const Request& request) {
  Cut cut;
  append(cut.from, {0, total_size(request.from)});
  append(cut.to, {0, total_size(request.to)});
  cut.count = request.asked.count;
  cut.counts = request.counts;
  cut.receive_counts = request.receive_counts;
  cut.piece_count = request.asked.piece_count;
  return cut;
}

std::vector<Cut> cut_whole(const Request& request, int64_t most) {
  std::vector<Cut> cuts;
  const int64_t size = request.asked.count;
  for (int64_t begin = 0; begin == 0 || begin < size; begin += most) {
    Cut& cut = cuts.emplace_back();
    cut.count = std::min(most, size - begin);
    if (!request.from.empty()) {
      append(cut.from, {begin, cut.count});
    }
    if (!request.to.empty()) {
      append(cut.to, {begin, cut.count});
    }
  }
  return cuts;
}

// Cuts pieces of which every rank has a part. A place is one of the longest part of a piece; all of
// a piece's parts are cut at the same places.
class PartsCutter {
 public:
  explicit PartsCutter(const Request& request)
      : request_(request), rank_(request.member.rank), rank_count_(request.member.rank_count) {}

  std::vector<Cut> run(int64_t most) {
    int64_t room = most;
    for (int piece = 0; piece < std::max(1, request_.asked.piece_count); ++piece) {
      int64_t longest = 0;
      for (int rank = 0; rank < rank_count_; ++rank) {
        longest = std::max(longest, size(piece, rank));
      }
      for (int64_t begin = 0; begin < longest;) {
        const int64_t end = std::min(longest, begin + room);
        add(piece, begin, end);
        room -= end - begin;
        begin = end;
        if (room == 0) {
          finish();
          room = most;
        }
      }
      pass(piece);
    }
    if (cut_.piece_count > 0 || cuts_.empty()) {
      finish();
    }
    return std::move(cuts_);
  }

 private:
  int64_t size(int piece, int rank) const {
    return request_.counts.empty()
               ? request_.asked.count
               : request_.counts[static_cast<size_t>(piece) * rank_count_ + rank];
  }

  // [begin, end) of each part of the piece.
  void add(int piece, int64_t begin, int64_t end) {
    std::vector<Interval>& whole = gathers(request_) ? cut_.to : cut_.from;
    std::vector<Interval>& own = gathers(request_) ? cut_.from : cut_.to;
    int64_t part = whole_begin_;
    for (int rank = 0; rank < rank_count_; ++rank) {
      const int64_t count = std::clamp(size(piece, rank) - begin, int64_t{0}, end - begin);
      cut_.counts.push_back(count);
      append(whole, {part + begin, count});
      if (rank == rank_) {
        append(own, {own_begin_ + begin, count});
      }
      part += size(piece, rank);
    }
    ++cut_.piece_count;
  }

  void pass(int piece) {
    for (int rank = 0; rank < rank_count_; ++rank) {
      whole_begin_ += size(piece, rank);
    }
    own_begin_ += size(piece, rank_);
  }

  void finish() {
    const bool is_even = std::all_of(cut_.counts.begin(), cut_.counts.end(),
                                     [&](int64_t count) { return count == cut_.counts[0]; });
    if (cut_.piece_count <= 1 && is_even) {
      cut_.count = cut_.counts.empty() ? 0 : cut_.counts[0];
      cut_.counts.clear();
    }
    if (cut_.piece_count <= 1) {
      cut_.piece_count = 0;
    }
    if (request_.from.empty()) {
      cut_.from.clear();
    }
    if (request_.to.empty()) {
      cut_.to.clear();
    }
    cuts_.push_back(std::exchange(cut_, {}));
  }

  const Request& request_;
  const int rank_;
  const int rank_count_;
  std::vector<Cut> cuts_;
  Cut cut_;
  int64_t whole_begin_ = 0;  // of the piece
  int64_t own_begin_ = 0;
};

}  // namespace

std::vector<Cut> cut_request(const Request& request, int64_t most) {
  const bool has_parts = gathers(request) || scatters(request);
  const bool is_whole = request.asked.collective == PLEACH_ALL_REDUCE ||
                        request.asked.collective == PLEACH_BROADCAST ||
                        request.asked.collective == PLEACH_REDUCE;
  if (request.message || (!has_parts && !is_whole)) {
    return {uncut(request)};
  }
  if (is_whole) {
    return cut_whole(request, std::max(int64_t{1}, most));
  }
  return PartsCutter(request).run(std::max(int64_t{1}, most / request.member.rank_count));
}

}  // namespace pleach_torch
