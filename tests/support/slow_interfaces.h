// SlowFlit: what docs/network.md says of the flit model's interfaces, written down as it stands
// there: a loop over jobs, ranks and interfaces in every cycle, on SlowRouters. For tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/cursor.h"
#include "pleach/collective/placement.h"
#include "pleach/network/flit/fabric.h"
#include "pleach/network/flit/routers.h"
#include "pleach/network/flit/vc_classes.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"
#include "tests/support/slow_routers.h"

namespace pleach::support {

struct SlowFlitOptions {
  RouterOptions routers;
  FlowControl flow_control = FlowControl::kPacket;
  Gate gate = Gate::kDataflow;
  int32_t segments = 1;
  int64_t flit = 16, packet = 256, header = 1;  // bytes, bytes, flits
  int64_t message_buffer = 32, send_buffer = 16, queue = 80;
  int32_t interfaces = 1;
  bool binds_links = false;
  bool reductions_take_time = true;
  bool streams_reductions = false;
};

// A cycle is a nanosecond. Schedules have routes, no symmetry, and only ranks that send and
// receive.
class SlowFlit {
 public:
  struct Job {
    const Schedule* schedule = nullptr;
    int64_t size_bytes = 0;
    int64_t start_cycle = 0;
  };

  SlowFlit(const Topology& topology, const std::vector<Job>& jobs, const SlowFlitOptions& options)
      : topology_(topology),
        options_(options),
        fabric_(std::move(fabric_of(topology,
                                    {.flit_bytes = options.flit, .interfaces = options.interfaces}))
                    .value()),
        lines_(at(fabric_.fabric.interface_count)) {
    std::vector<std::vector<LinkId>> routes;
    for (const Job& job : jobs) {
      for (const Transfer& transfer : job.schedule->transfers) {
        const auto links = job.schedule->routes[transfer.route];
        routes.emplace_back(links.begin(), links.end());
      }
    }
    const VcClasses classes =
        std::move(assign_vc_classes(topology, routes, options.routers.vcs, true)).value();
    options_.routers.classes = classes.count;
    options_.routers.room = static_cast<int32_t>(flits_of(options.packet) + options.header);
    routers_.emplace(fabric_.fabric, options_.routers);
    std::size_t first = 0;  // route
    for (const Job& job : jobs) {
      add(job, routes, classes, first);
      first += job.schedule->transfers.size();
    }
  }

  // When each job has finished [cycles]; empty: one has not in so many.
  std::vector<int64_t> run(int64_t most_cycles) {
    for (now_ = 0; now_ < most_cycles; ++now_) {
      const auto delivered = routers_->cycle([&] {
        move();
        take();
      });
      arrive(delivered);
      for (Running& job : jobs_) {
        if (job.start_cycle == now_) {
          job.has_started = true;
        }
        open_slots(job, true);
        reduce(job);
        if (job.has_started && job.finish < 0 && job.commits_left == 0) {
          job.finish = now_;
        }
      }
      if (std::ranges::all_of(jobs_, [](const Running& job) { return job.finish >= 0; })) {
        std::vector<int64_t> finishes;
        for (const Running& job : jobs_) {
          finishes.push_back(job.finish);
        }
        return finishes;
      }
    }
    return {};
  }

 private:
  struct Message {
    int64_t key = 0;
    int32_t segment = 0, stream = 0;
    int32_t rank = 0, target = 0;
    int64_t bytes = 0, sub_messages = 0;
    std::vector<uint16_t> hops;
    int32_t first_interface = 0, interface_count = 1;  // any of which may send it
    int64_t overhead = 0;
    bool has_begun = false, is_over = false;
    int64_t queued = 0, packets_left = 0;
    int32_t packet = -1;  // by messages
  };
  struct Waiting {  // for the rank's unit: chunks of one message that came to wait together
    int64_t since = 0;
    int32_t message = 0;
    std::vector<int32_t> commits;
    int64_t bytes = 0;
  };
  struct Rank {
    int64_t open = -1;    // slot
    bool is_nop = false;  // the open one
    int64_t nop_until = 0;
    std::vector<Waiting> waiting;
    std::optional<Waiting> under_way;
    int64_t reduced_at = 0;
  };
  struct Progress {
    int64_t start_cycle = 0, finish = -1, commits_left = 0, slots = 0, estimate = 0;
    bool has_started = false;
  };
  struct Running : Progress {
    Running(const Schedule& schedule, int64_t size_bytes, int32_t segments)
        : order(Order::build(schedule)),
          cursor(order, segments),
          placement(std::move(Placement::create(schedule, size_bytes)).value()) {}
    const Order order;
    Cursor cursor;
    const Placement placement;
    std::vector<Message> messages;
    std::vector<Rank> ranks;
    std::set<std::pair<int32_t, int32_t>> landed;  // commit, segment: not committed yet
  };
  struct Line {
    int32_t job = 0, message = -1;  // that it takes
    int64_t left = 0, starts = 0;   // sub-messages in memory; when the first may move
    std::vector<std::pair<int32_t, int32_t>> buffer, send;  // job and message, by sub-message
  };

  int64_t flits_of(int64_t bytes) const { return (bytes + options_.flit - 1) / options_.flit; }

  int64_t segment_bytes(const Running& job, int32_t chunk, int32_t segment) const {
    const int64_t length = job.placement.length(chunk);
    return length * (segment + 1) / options_.segments - length * segment / options_.segments;
  }

  void add(const Job& given, const std::vector<std::vector<LinkId>>& routes,
           const VcClasses& classes, std::size_t first_route) {
    const Schedule& schedule = *given.schedule;
    Running& job = jobs_.emplace_back(schedule, given.size_bytes, options_.segments);
    job.start_cycle = given.start_cycle;
    job.ranks.resize(schedule.participants.size());
    job.commits_left = int64_t{job.order.commit_count()} * options_.segments;
    job.slots = int64_t{options_.segments - 1} * schedule.period + schedule.step_count();
    // Within a step reductions from the last to the first chunk, then copies.
    std::map<std::pair<int32_t, int32_t>, std::vector<int32_t>> turns;  // by step and target
    for (const TransferOp op : {TransferOp::kReduce, TransferOp::kCopy}) {
      for (int32_t stream = 0; stream < job.order.stream_count(); ++stream) {
        const Stream& what = job.order.stream(stream);
        auto& turn = turns[{what.step, job.order.targets(stream).front()}];
        if (what.op == op) {
          turn.insert(op == TransferOp::kReduce ? turn.begin() : turn.end(), stream);
        }
      }
    }
    int64_t largest = 0;
    for (int32_t stream = 0; stream < job.order.stream_count(); ++stream) {
      const int32_t transfer = job.order.transfers(stream).front();
      const std::vector<LinkId>& links = routes[first_route + at(transfer)];
      Message message;
      message.stream = stream;
      message.rank = job.order.sources(stream).front();
      message.target = job.order.targets(stream).front();
      const NodeId source = schedule.participants[at(message.rank)];
      const NodeId target = schedule.participants[at(message.target)];
      message.overhead = topology_.node(source).overhead_ps / 1000;
      message.first_interface = fabric_.first_interface[source.index()];
      message.interface_count = options_.interfaces;
      int32_t out = fabric_.first_interface[target.index()];
      if (options_.binds_links) {
        message.first_interface += place_of(topology_.links_out(source), links.front());
        message.interface_count = 1;
        out += place_of(topology_.links_in(target), links.back());
      } else {
        const auto& turn = turns[{job.order.stream(stream).step, message.target}];
        out += static_cast<int32_t>(std::ranges::find(turn, stream) - turn.begin()) %
               options_.interfaces;
      }
      message.hops =
          hops_of(fabric_, links, out, classes.count, classes.class_of[first_route + at(transfer)]);
      const Stream& what = job.order.stream(stream);
      for (int32_t segment = 0; segment < options_.segments; ++segment) {
        message.segment = segment;
        message.key = int64_t{segment} * schedule.period + what.step;
        message.bytes = 0;
        for (int32_t chunk = what.first_chunk; chunk < what.first_chunk + what.chunk_count;
             ++chunk) {
          message.bytes += segment_bytes(job, chunk, segment);
        }
        message.sub_messages =
            std::max<int64_t>(1, (message.bytes + options_.packet - 1) / options_.packet);
        message.packets_left =
            options_.flow_control == FlowControl::kMessage ? 1 : message.sub_messages;
        largest = std::max(largest, message.sub_messages);
        job.messages.push_back(message);
      }
    }
    job.estimate = largest;
    const int64_t held = options_.message_buffer + options_.send_buffer + 10;
    if (largest > held) {
      const int64_t flits = flits_of(options_.packet);
      job.estimate = options_.flow_control == FlowControl::kMessage
                         ? (largest - held) * flits
                         : (flits + options_.header) * largest - held * flits;
    }
  }

  static int32_t place_of(std::span<const LinkId> links, LinkId link) {
    return static_cast<int32_t>(std::ranges::find(links, link) - links.begin());
  }

  void move() {
    for (int32_t i = 0; i < count_of(lines_); ++i) {
      Line& line = lines_[at(i)];
      if (!line.send.empty() && routers_->queued_flits(i) < options_.queue) {
        enqueue(i, jobs_[at(line.send.front().first)].messages[at(line.send.front().second)],
                line.send.front());
        line.send.erase(line.send.begin());
      }
      if (!line.buffer.empty() && count_of(line.send) < options_.send_buffer) {
        line.send.push_back(line.buffer.front());
        line.buffer.erase(line.buffer.begin());
      }
      if (line.left > 0 && now_ >= line.starts && count_of(line.buffer) < options_.message_buffer) {
        line.buffer.emplace_back(line.job, line.message);
        if (--line.left == 0) {
          Running& job = jobs_[at(line.job)];
          Message& message = job.messages[at(line.message)];
          message.is_over = true;
          for (const Read& read : job.order.reads(message.stream)) {
            job.cursor.finish_read(read, message.segment);
          }
        }
      }
    }
    for (Running& job : jobs_) {
      commit_what_may(job);
      open_slots(job, false);
    }
  }

  void enqueue(int32_t interface, Message& message, std::pair<int32_t, int32_t> owner) {
    const int64_t bytes =
        std::min(options_.packet, message.bytes - message.queued * options_.packet);
    const bool is_one = options_.flow_control == FlowControl::kMessage;
    const int64_t header = is_one && message.queued > 0 ? 0 : options_.header;
    const auto flits = static_cast<int32_t>(std::max<int64_t>(1, flits_of(bytes) + header));
    if (is_one && message.queued > 0) {
      routers_->supply(message.packet, flits);
    } else {
      int64_t length = flits;
      if (is_one) {
        length = std::max<int64_t>(
            1, options_.header + (message.sub_messages - 1) * flits_of(options_.packet) +
                   flits_of(message.bytes - (message.sub_messages - 1) * options_.packet));
      }
      message.packet = routers_->offer(interface, {.hops = message.hops,
                                                   .length = static_cast<int32_t>(length),
                                                   .supplied = flits,
                                                   .priority = static_cast<int32_t>(message.key)});
      owners_.push_back(owner);
    }
    ++message.queued;
  }

  // Whether a message that has not begun could, as far as its own rank's gate goes.
  bool may_begin(const Running& job, const Message& message) const {
    if (!job.has_started || message.has_begun ||
        !job.cursor.may_start(message.stream, message.segment)) {
      return false;
    }
    switch (options_.gate) {
      case Gate::kDataflow:
        return true;
      case Gate::kInOrder:
        return std::ranges::none_of(job.messages, [&](const Message& other) {
          return other.rank == message.rank && other.key < message.key && !other.has_begun;
        });
      case Gate::kLockstep:
        return message.key <= job.ranks[at(message.rank)].open;
      case Gate::kOracle:
        return std::ranges::none_of(job.messages, [&](const Message& other) {
          return other.key < message.key && !other.is_over;
        });
    }
    return false;
  }

  // Every free interface takes the smallest message that it may, until none does.
  void take() {
    for (bool any = true; any;) {
      any = false;
      for (int32_t i = 0; i < count_of(lines_); ++i) {
        Line& line = lines_[at(i)];
        if (line.left > 0) {
          continue;
        }
        std::optional<std::tuple<int64_t, int32_t, int32_t, int32_t, int32_t>> best;
        for (int32_t j = 0; j < count_of(jobs_); ++j) {
          for (int32_t m = 0; m < count_of(jobs_[at(j)].messages); ++m) {
            const Message& message = jobs_[at(j)].messages[at(m)];
            const std::tuple mine{message.key, message.segment, message.stream, j, m};
            if (i >= message.first_interface &&
                i < message.first_interface + message.interface_count && (!best || mine < *best) &&
                may_begin(jobs_[at(j)], message)) {
              best = mine;
            }
          }
        }
        if (best) {
          line.job = std::get<3>(*best);
          line.message = std::get<4>(*best);
          Message& message = jobs_[at(line.job)].messages[at(line.message)];
          message.has_begun = true;
          line.left = message.sub_messages;
          line.starts = now_ + 1 + message.overhead;
          any = true;
        }
      }
    }
  }

  void arrive(const std::vector<SlowRouters::Delivery>& delivered) {
    for (const SlowRouters::Delivery& flit : delivered) {
      const auto [number, which] = owners_[at(flit.packet)];
      Running& job = jobs_[at(number)];
      Message& message = job.messages[at(which)];
      if (flit.tail && --message.packets_left == 0) {
        const int32_t first = job.order.first_commit(message.stream);
        for (int32_t i = 0; i < count_of(job.order.commits(message.stream)); ++i) {
          job.landed.emplace(first + i, message.segment);
        }
      }
    }
    for (Running& job : jobs_) {
      commit_what_may(job);
    }
  }

  // What has landed and may commit does, or waits for its rank's unit.
  void commit_what_may(Running& job) {
    for (bool any = true; any;) {
      any = false;
      for (auto place = job.landed.begin(); place != job.landed.end();) {
        const auto [index, segment] = *place;
        const Commit& commit = job.order.commit(index);
        if (!job.cursor.may_commit(commit, segment)) {
          ++place;
          continue;
        }
        any = true;
        place = job.landed.erase(place);
        if (job.order.stream(commit.stream).op == TransferOp::kCopy ||
            !options_.reductions_take_time) {
          finish(job, commit, segment);
        } else {
          wait(job, index, segment);
        }
      }
    }
  }

  static void finish(Running& job, const Commit& commit, int32_t segment) {
    job.cursor.finish_commit(commit, segment);
    --job.commits_left;
  }

  void wait(Running& job, int32_t index, int32_t segment) const {
    const Commit& commit = job.order.commit(index);
    const Slot& slot = job.order.slot(commit.slot);
    const auto message = std::ranges::find_if(job.messages, [&](const Message& other) {
      return other.stream == commit.stream && other.segment == segment;
    });
    const auto number = static_cast<int32_t>(message - job.messages.begin());
    std::vector<Waiting>& waiting = job.ranks[at(slot.rank)].waiting;
    auto mine = std::ranges::find_if(waiting, [&](const Waiting& other) {
      return other.message == number && other.since == now_;
    });
    if (mine == waiting.end()) {
      mine = waiting.insert(waiting.end(), {.since = now_, .message = number, .commits = {}});
    }
    mine->commits.push_back(index);
    mine->bytes += segment_bytes(job, slot.chunk, segment);
  }

  // Ends and begins reductions.
  void reduce(Running& job) {
    for (Rank& rank : job.ranks) {
      if (rank.under_way && rank.reduced_at == now_) {
        const Waiting done = *std::exchange(rank.under_way, std::nullopt);
        for (const int32_t index : done.commits) {
          finish(job, job.order.commit(index), job.messages[at(done.message)].segment);
        }
      }
    }
    commit_what_may(job);
    for (Rank& rank : job.ranks) {
      if (rank.under_way || rank.waiting.empty()) {
        continue;
      }
      // The first in turn, and what comes next of the same message.
      std::ranges::sort(rank.waiting, {}, [&](const Waiting& one) {
        const Message& message = job.messages[at(one.message)];
        return std::tuple(one.since, message.key, message.segment, message.stream);
      });
      rank.under_way.emplace();
      const int32_t message = rank.waiting.front().message;
      while (!rank.waiting.empty() && rank.waiting.front().message == message) {
        const Waiting& next = rank.waiting.front();
        rank.under_way->message = message;
        rank.under_way->bytes += next.bytes;
        rank.under_way->commits.insert(rank.under_way->commits.end(), next.commits.begin(),
                                       next.commits.end());
        rank.waiting.erase(rank.waiting.begin());
      }
      const int64_t bytes = rank.under_way->bytes;
      int64_t cycles = (bytes + 2047) / 2048 * 16;
      if (options_.streams_reductions) {
        cycles = bytes > 0 ? (options_.packet + 127) / 128 : 0;
      }
      rank.reduced_at = now_ + 1 + cycles;
    }
  }

  // Lockstep: opens slots as far as they go; NOPs end after what arrives in a cycle.
  void open_slots(Running& job, bool ends_nops) {
    if (options_.gate != Gate::kLockstep || !job.has_started) {
      return;
    }
    for (int32_t number = 0; number < count_of(job.ranks); ++number) {
      Rank& rank = job.ranks[at(number)];
      while (rank.open + 1 < job.slots) {
        const bool all_over = std::ranges::all_of(job.messages, [&](const Message& message) {
          return message.rank != number || message.key != rank.open || message.is_over;
        });
        if (!all_over || (rank.is_nop && (!ends_nops || now_ < rank.nop_until))) {
          break;
        }
        const bool was_nop = rank.is_nop;
        ++rank.open;
        rank.is_nop = std::ranges::none_of(job.messages, [&](const Message& message) {
          return message.rank == number && message.key == rank.open;
        });
        rank.nop_until = now_ + job.estimate * (was_nop ? 1 : 2);
      }
    }
  }

  const Topology& topology_;
  SlowFlitOptions options_;
  const TopologyFabric fabric_;
  std::optional<SlowRouters> routers_;
  std::deque<Running> jobs_;
  std::vector<Line> lines_;                          // by interface
  std::vector<std::pair<int32_t, int32_t>> owners_;  // job and message, by packet
  int64_t now_ = 0;
};

}  // namespace pleach::support
