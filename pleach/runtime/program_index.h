// ProgramIndex: the indexes over a program that every run of it needs.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/collective/program.h"

namespace pleach {

// Immutable. Send, receive, read and commit numbers are indices into the program's arrays.
class ProgramIndex {
 public:
  explicit ProgramIndex(Program program);

  const Program& program() const { return program_; }

  // One segment of one send.
  struct Unit {
    int32_t send = 0;
    int32_t segment = 0;
  };
  // Where a unit stands: in which connection, and at which position of its order.
  struct Place {
    int32_t target = 0;
    int32_t position = 0;
  };
  std::span<const Rank> targets() const { return targets_; }
  std::span<const Rank> sources() const { return sources_; }
  std::span<const Rank> peers() const { return peers_.ranks; }  // targets and sources, ascending
  // -1: none of them.
  int32_t peer_index(Rank peer) const {
    return peer.value >= 0 && peer.index() < peers_.of_rank.size() ? peers_.of_rank[peer.index()]
                                                                   : -1;
  }

  // What goes to a target, by (segment·period + step, segment, first chunk).
  std::span<const Unit> order(std::size_t target) const { return orders_[target]; }
  Place place(int32_t send, int32_t segment) const {
    return places_[at(send) * at(program_.segment_count) + at(segment)];
  }

  // The message of that stream to (from) that peer, or -1.
  int32_t find_send(Rank peer, int32_t stream) const {
    return sends_.find(program_.sends, peer, stream);
  }
  int32_t find_receive(Rank peer, int32_t stream) const {
    return receives_.find(program_.receives, peer, stream);
  }

  int32_t send_of_read(int32_t read) const { return sends_.of_item[at(read)]; }
  int32_t receive_of_commit(int32_t commit) const { return receives_.of_item[at(commit)]; }
  TransferOp commit_op(int32_t commit) const {
    return program_.receives[at(receive_of_commit(commit))].op;
  }
  // The slot's commits, in their order.
  std::span<const int32_t> slot_commits(int32_t slot) const { return slot_commits_.of(slot); }
  // The slot's reads that wait for exactly so many commits.
  std::span<const int32_t> reads_after(int32_t slot, int32_t commit_count) const {
    return reads_.by_key.of(reads_.first[at(slot)] + commit_count);
  }

 private:
  // The sends, or the receives, by what they carry.
  struct Messages {
    Messages(std::span<const ProgramMessage> messages, std::size_t item_count);
    int32_t find(std::span<const ProgramMessage> messages, Rank peer, int32_t stream) const;

    std::vector<std::pair<int32_t, int32_t>> of_stream;  // ascending, and the message
    std::vector<int32_t> of_item;                        // by read, or by commit
  };
  // Reads, or commits, by a key in [0, key count) and then by the commits that they wait for.
  struct ByKey {
    template <typename Items, typename KeyOf>
    ByKey(const Items& all, std::size_t key_count, const KeyOf& key_of);
    std::span<const int32_t> of(int32_t key) const {
      const std::size_t begin = at(first[at(key)]);
      return std::span(items).subspan(begin, at(first[at(key) + 1]) - begin);
    }

    std::vector<int32_t> items;
    std::vector<int32_t> first;  // key count + 1
  };
  // The reads by slot and by the commits that they wait for.
  struct Reads {
    explicit Reads(const Program& program);

    std::vector<int32_t> first;  // by slot: the key of those that wait for none
    ByKey by_key;
  };
  struct Peers {
    std::vector<Rank> ranks;
    std::vector<int32_t> of_rank;  // up to the largest; -1: none
  };
  void index_peers();
  void order_sends();

  Program program_;
  std::vector<Rank> targets_;
  Peers peers_;
  std::vector<Rank> sources_;
  std::vector<std::vector<Unit>> orders_;
  std::vector<Place> places_;
  Messages sends_, receives_;
  ByKey slot_commits_;  // by slot
  Reads reads_;
};

}  // namespace pleach
