#include "pleach/network/joint_lanes.h"

#include <algorithm>
#include <set>

#include "pleach/base/index.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

using Stream = JointLanes::Stream;

// Whether some link has fewer live lanes than streams that hold one.
bool is_overfull(std::span<const Stream> streams) {
  std::map<LinkId, int32_t> users;
  for (const Stream& stream : streams) {
    if (stream.way->alternates()) {
      continue;
    }
    const std::span<const LinkId> wide = stream.way->wide_links();
    for (int32_t link = 0; link < count_of(wide); ++link) {
      if (++users[wide[at(link)]] > stream.way->live_count(link)) {
        return true;
      }
    }
    for (const LinkId link : stream.way->narrow_links()) {
      if (++users[link] > 1) {
        return true;
      }
    }
  }
  return false;
}

// Streams, stops and lanes that are put so far.
class Board {
 public:
  Board(std::span<const Stream> streams, const JointLanes::Question& question, int32_t most_steps)
      : streams_(streams), question_(question), steps_left_(most_steps) {}

  const SwitchWay& way(std::size_t stream) const { return *streams_[stream].way; }
  int32_t group_of(LinkId link, int32_t lane) const { return question_.group_of(link, lane); }
  bool has_steps() const { return steps_left_ > 0; }
  int32_t steps_left() const { return steps_left_; }
  bool fits(std::size_t stream, std::size_t stop, const Lanes& lanes) {
    return steps_left_ > 0 && steps_left_-- > 0 && question_.fits(stream, stop, lanes);
  }
  bool is_taken(std::size_t stream, int32_t wide, int32_t lane) const {
    return !way(stream).alternates() && taken_.contains({way(stream).wide_links()[at(wide)], lane});
  }
  // These of the stream's wide links, or no more.
  void hold(std::size_t stream, std::span<const int32_t> wide, const Lanes& lanes, bool holds) {
    for (const int32_t link : wide) {
      const std::pair lane(way(stream).wide_links()[at(link)], lanes[at(link)]);
      if (!way(stream).alternates() && holds) {
        taken_.insert(lane);
      } else if (!way(stream).alternates()) {
        taken_.erase(lane);
      }
    }
  }
  void put(std::size_t stream, std::size_t stop, const Lanes& lanes) {
    question_.put(stream, stop, lanes);
  }
  void take_back(std::size_t stream, std::size_t stop, const Lanes& lanes) {
    question_.take_back(stream, stop, lanes);
  }
  void put_all(std::size_t stream, const Lanes& lanes, bool enters) {
    for (std::size_t stop = 0; stop < way(stream).stops().size(); ++stop) {
      enters ? put(stream, stop, lanes) : take_back(stream, stop, lanes);
      hold(stream, way(stream).stops()[stop].wide, lanes, enters);
    }
  }
  // Lanes of all of a stream beside what is put.
  std::optional<Lanes> find(std::size_t stream, const Lanes& start) {
    SwitchWay::Question question;
    question.fits = [&](std::size_t stop, const Lanes& lanes) { return fits(stream, stop, lanes); };
    question.is_taken = [&](int32_t wide, int32_t lane) { return is_taken(stream, wide, lane); };
    question.may_share = false;
    question.most_tries = JointLanes::kMostSteps;
    return way(stream).find(start, question);
  }

 private:
  const std::span<const Stream> streams_;
  const JointLanes::Question& question_;
  std::set<std::pair<LinkId, int32_t>> taken_;
  int32_t steps_left_;
};

// Streams one after the other, none of which moves for a later one.
class InTurn {
 public:
  InTurn(std::span<const Stream> streams, Board& board) : board_(board), lanes_(streams.size()) {
    for (std::size_t stream = 0; stream < streams.size(); ++stream) {
      order_.push_back(stream);
      starts_.push_back(*streams[stream].start);
    }
  }

  // Whether all fit; `is_hopeless`: one does not that comes first of all.
  bool run(bool& is_hopeless) {
    Rng rng(starts_.size());
    for (const int32_t kept = board_.steps_left() / 2; board_.steps_left() > kept;) {
      const std::size_t refused = put_in_turn();
      take_back(refused);
      if (refused == order_.size()) {
        return true;
      }
      if (refused == 0) {
        is_hopeless = true;
        return false;
      }
      const auto place = order_.begin() + static_cast<std::ptrdiff_t>(refused);
      std::rotate(order_.begin(), place, place + 1);
      draw_starts(rng);
    }
    return false;
  }
  std::vector<Lanes>& lanes() { return lanes_; }

 private:
  // How many are put before one that fits nowhere.
  std::size_t put_in_turn() {
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto lanes = board_.find(order_[i], starts_[order_[i]]);
      if (!lanes) {
        return i;
      }
      lanes_[order_[i]] = *lanes;
      board_.put_all(order_[i], *lanes, true);
    }
    return order_.size();
  }
  void take_back(std::size_t count) {
    while (count-- > 0) {
      board_.put_all(order_[count], lanes_[order_[count]], false);
    }
  }
  void draw_starts(Rng& rng) {
    for (std::size_t stream = 0; stream < starts_.size(); ++stream) {
      for (int32_t link = 0; link < count_of(starts_[stream]); ++link) {
        const auto lanes = static_cast<uint64_t>(board_.way(stream).lane_count(link));
        starts_[stream][at(link)] = static_cast<int32_t>(rng.below(lanes));
      }
    }
  }

  Board& board_;
  std::vector<Lanes> lanes_;   // by stream
  std::vector<Lanes> starts_;  // by stream
  std::vector<std::size_t> order_;
};

// All lanes of all stops, of the stop with the fewest first.
class Exhaustive {
 public:
  Exhaustive(std::span<const Stream> streams, Board& board)
      : streams_(streams), board_(board), lanes_(streams.size()), is_set_(streams.size()) {
    for (std::size_t stream = 0; stream < streams.size(); ++stream) {
      lanes_[stream] = *streams[stream].start;
      is_set_[stream].assign(lanes_[stream].size(), false);
      const std::span<const LinkId> wide = board.way(stream).wide_links();
      for (int32_t link = 0; link < count_of(wide); ++link) {
        std::vector<int32_t>& groups = lane_groups_[wide[at(link)]];
        while (count_of(groups) < board.way(stream).lane_count(link)) {
          groups.push_back(board.group_of(wide[at(link)], count_of(groups)));
        }
      }
      const auto stops = board.way(stream).stops();
      for (std::size_t stop = 0; stop < stops.size() && !board.way(stream).alternates(); ++stop) {
        places_.push_back({stream, stop});
        stop_places_[stops[stop].at_switch].push_back(places_.size() - 1);
      }
    }
  }
  // So many stops at the most: a call goes as deep.
  static constexpr std::size_t kMostPlaces = 512;
  bool is_small() const { return places_.size() <= kMostPlaces; }

  bool run() {
    for (Place& place : places_) {
      count_choices(place);
    }
    return search(places_.size());
  }
  std::vector<Lanes>& lanes() { return lanes_; }

 private:
  struct Place {
    std::size_t stream = 0;
    std::size_t stop = 0;
    int32_t choices = 0;  // lanes that fit, if nothing else came
    bool is_put = false;
  };
  static constexpr int32_t kMany = 64;  // then they are not counted

  const SwitchWay::Stop& stop_of(const Place& place) const {
    return board_.way(place.stream).stops()[place.stop];
  }
  std::vector<int32_t> open_links(const Place& place) const {
    std::vector<int32_t> open;
    std::ranges::copy_if(stop_of(place).wide, std::back_inserter(open),
                         [&](int32_t link) { return !is_set_[place.stream][at(link)]; });
    return open;
  }
  // Calls `then` for lanes of these links that nobody has, until it returns true: of those that are
  // as good as one another for one.
  template <typename Then>
  bool choose(const Place& place, std::span<const int32_t> open, Then then) {
    if (open.empty()) {
      return then();
    }
    int32_t& lane = lanes_[place.stream][at(open.front())];
    const int32_t start = lane, count = board_.way(place.stream).lane_count(open.front());
    const std::span<const int32_t> groups =
        lane_groups_.at(board_.way(place.stream).wide_links()[at(open.front())]);
    std::vector<bool> is_tried(groups.size(), false);  // by group
    for (int32_t tried = 0; tried < count; ++tried) {
      lane = (start + tried) % count;
      const auto group = at(groups[at(lane)]);
      if (!board_.has_steps()) {
        break;
      }
      if (is_tried[group] || board_.is_taken(place.stream, open.front(), lane)) {
        continue;
      }
      is_tried[group] = true;
      if (choose(place, open.subspan(1), then)) {
        return true;
      }
    }
    lane = start;
    return false;
  }
  bool fits(const Place& place) {
    return board_.fits(place.stream, place.stop, lanes_[place.stream]);
  }
  void count_choices(Place& place) {
    const std::vector<int32_t> open = open_links(place);
    int32_t most = 1;
    for (const int32_t link : open) {
      most = std::min(most, kMany) * choices_of(place.stream, link);
    }
    place.choices = most > kMany ? most : 0;
    if (most <= kMany) {
      const Lanes before = lanes_[place.stream];
      choose(place, open, [&] {
        place.choices += fits(place) ? 1 : 0;
        return false;
      });
      lanes_[place.stream] = before;
    }
  }
  int32_t choices_of(std::size_t stream, int32_t link) const {
    std::set<int32_t> groups;
    const std::vector<int32_t>& group_of =
        lane_groups_.at(board_.way(stream).wide_links()[at(link)]);
    for (int32_t lane = 0; lane < count_of(group_of); ++lane) {
      if (!board_.is_taken(stream, link, lane)) {
        groups.insert(group_of[at(lane)]);
      }
    }
    return count_of(groups);
  }
  bool search(std::size_t left) {
    if (left == 0) {
      return put_alternating();
    }
    Place* next = nullptr;
    for (Place& place : places_) {
      if (!place.is_put && (next == nullptr || place.choices < next->choices)) {
        next = &place;
      }
    }
    if (next->choices == 0) {
      return false;
    }
    const std::vector<int32_t> open = open_links(*next);
    return choose(*next, open,
                  [&] { return board_.has_steps() && fits(*next) && put(*next, open, left); });
  }
  bool put(Place& place, std::span<const int32_t> open, std::size_t left) {
    const auto set = [&](bool is_set) {
      for (const int32_t link : open) {
        is_set_[place.stream][at(link)] = is_set;
      }
      board_.hold(place.stream, open, lanes_[place.stream], is_set);
      place.is_put = is_set;
    };
    std::vector<int32_t> choices;
    for (const Place& other : places_) {
      choices.push_back(other.choices);
    }
    set(true);
    board_.put(place.stream, place.stop, lanes_[place.stream]);
    if (count_again(place) && search(left - 1)) {
      return true;
    }
    board_.take_back(place.stream, place.stop, lanes_[place.stream]);
    set(false);
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i].choices = choices[i];
    }
    return false;
  }
  // Of those that may have fewer choices now; whether all have some.
  bool count_again(const Place& put) {
    for (const SwitchWay::Stop& stop : board_.way(put.stream).stops()) {
      for (const std::size_t other : stop_places_[stop.at_switch]) {
        Place& place = places_[other];
        if (!place.is_put && (place.stream == put.stream || shares_switch_or_link(put, place))) {
          count_choices(place);
          if (place.choices == 0) {
            return false;
          }
        }
      }
    }
    return true;
  }
  bool shares_switch_or_link(const Place& left, const Place& right) const {
    const auto has = [&](int32_t link) {
      const auto theirs = board_.way(right.stream).wide_links();
      return std::ranges::any_of(stop_of(right).wide, [&](int32_t its) {
        return theirs[at(its)] == board_.way(left.stream).wide_links()[at(link)];
      });
    };
    return stop_of(left).at_switch == stop_of(right).at_switch ||
           std::ranges::any_of(stop_of(left).wide, has);
  }
  // Whoever holds no port fits beside those that do whatever lanes its like are on.
  bool put_alternating() {
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
      if (board_.way(stream).alternates()) {
        auto lanes = board_.find(stream, *streams_[stream].start);
        if (!lanes) {
          return false;
        }
        lanes_[stream] = *std::move(lanes);
      }
    }
    return true;
  }

  const std::span<const Stream> streams_;
  Board& board_;
  std::vector<Lanes> lanes_;               // by stream
  std::vector<std::vector<bool>> is_set_;  // by stream: by wide link
  std::vector<Place> places_;
  std::map<std::size_t, std::vector<std::size_t>> stop_places_;  // by switch
  std::map<LinkId, std::vector<int32_t>> lane_groups_;           // by lane
};

JointLanes::Answer search(std::span<const Stream> streams, Board& board) {
  InTurn in_turn(streams, board);
  bool is_hopeless = false;
  if (in_turn.run(is_hopeless)) {
    return {std::move(in_turn.lanes()), true};
  }
  Exhaustive exhaustive(streams, board);
  if (!is_hopeless && exhaustive.is_small()) {
    if (exhaustive.run()) {
      return {std::move(exhaustive.lanes()), true};
    }
    is_hopeless = true;
  }
  return {{}, is_hopeless && board.has_steps()};
}

JointLanes::Answer search(std::span<const Stream> streams, const JointLanes::Question& question,
                          int32_t& steps_left) {
  if (is_overfull(streams)) {
    return {{}, true};
  }
  const int32_t most_steps = std::min(JointLanes::kMostSteps, steps_left / 16);
  Board board(streams, question, most_steps);
  JointLanes::Answer answer = search(streams, board);
  steps_left -= most_steps - board.steps_left();
  return answer;
}

}  // namespace

const JointLanes::Answer& JointLanes::find(const std::vector<int32_t>& key,
                                           std::span<const Stream> streams,
                                           const Question& question) {
  if (const auto known = known_.find(key); known != known_.end()) {
    return known->second;
  }
  if (numbers_known_ > kMostKnown) {
    known_.clear();
    numbers_known_ = 0;
  }
  const Answer& answer = known_[key] = search(streams, question, steps_left_);
  numbers_known_ += key.size();
  for (const Lanes& lanes : answer.lanes) {
    numbers_known_ += lanes.size();
  }
  return answer;
}

}  // namespace pleach
