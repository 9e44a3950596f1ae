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
  int32_t find_send(Rank peer, int32_t stream) const;
  int32_t find_receive(Rank peer, int32_t stream) const;

  int32_t send_of_read(int32_t read) const { return message_of(send_of_read_, read); }
  int32_t receive_of_commit(int32_t commit) const { return message_of(receive_of_commit_, commit); }
  TransferOp commit_op(int32_t commit) const {
    return program_.receives[at(receive_of_commit(commit))].op;
  }
  // The slot's commits, in their order.
  std::span<const int32_t> slot_commits(int32_t slot) const;
  // The slot's reads that wait for exactly so many commits.
  std::span<const int32_t> reads_after(int32_t slot, int32_t commit_count) const;

 private:
  static int32_t message_of(const std::vector<int32_t>& table, int32_t item) {
    return table[at(item)];
  }
  void index_peers();
  void order_sends();
  void index_slots();

  Program program_;
  std::vector<Rank> targets_, peers_;
  std::vector<Source> sources_;
  std::vector<std::vector<Unit>> orders_;
  std::vector<Place> places_;
  std::unordered_map<int32_t, int32_t> send_of_stream_, receive_of_stream_;
  std::vector<int32_t> send_of_read_, receive_of_commit_;
  std::vector<int32_t> slot_reads_, slot_commits_;            // grouped by slot
  std::vector<int32_t> slot_first_read_, slot_first_commit_;  // slot count + 1
};

}  // namespace pleach
