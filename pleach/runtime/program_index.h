// ProgramIndex: the indexes over a program that every run of it needs.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
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
  // A peer that sends to this rank.
  struct Source {
    Rank peer;
    int64_t segment_total = 0;   // segments that it will send
    int64_t place_elements = 0;  // room for the largest
  };

  std::span<const Rank> targets() const { return targets_; }
  std::span<const Source> sources() const { return sources_; }
  std::span<const Rank> peers() const { return peers_; }  // targets and sources, ascending
  int32_t target_index(Rank peer) const;                  // -1: none
  int32_t peer_index(Rank peer) const;                    // -1: none

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
  std::span<const int32_t> reads_after(int32_t slot, int32_t commit_count) const;

 private:
  // The sends, or the receives, by what they carry.
  struct Messages {
    Messages(std::span<const ProgramMessage> messages, std::size_t item_count);
    int32_t find(std::span<const ProgramMessage> messages, Rank peer, int32_t stream) const;

    std::unordered_map<int32_t, int32_t> of_stream;
    std::vector<int32_t> of_item;  // by read, or by commit
  };
  // The reads, or the commits, by slot and then by the number of commits that they wait for.
  struct BySlot {
    template <typename Item>
    BySlot(std::span<const Item> items, std::size_t slot_count);
    std::span<const int32_t> of(int32_t slot) const {
      return std::span(items).subspan(at(first[at(slot)]),
                                      at(first[at(slot) + 1] - first[at(slot)]));
    }

    std::vector<int32_t> items;
    std::vector<int32_t> first;  // slot count + 1
  };
  void index_peers();
  void order_sends();

  Program program_;
  std::vector<Rank> targets_, peers_;
  std::vector<Source> sources_;
  std::vector<std::vector<Unit>> orders_;
  std::vector<Place> places_;
  Messages sends_, receives_;
  BySlot slot_reads_, slot_commits_;
};

}  // namespace pleach
