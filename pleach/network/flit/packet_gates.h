// PacketGates: whose packets may pass which switch, and in which order.
//
// Admission lets a stream in where all its switches carry it beside those inside, and it is inside
// until its last packet has left its sources. That packet is still under way then, and whoever
// enters next may meet it at a switch. So every pass of a stream through a switch has a gate.
// Entries of streams pass a switch in turn, by class of traffic and then as they have entered:
//   * a gate opens when the switch carries its flow beside those that are passing, and each one
//     that waits before it in turn beside it and the others after that one that are passing; until
//     then what comes waits in the buffers before it,
//   * it closes behind the last packet of the entry,
//   * what has left its sources and keeps out one of a lower class that has entered after it is *in
//     the way*: its owner stops it, withdraws it, and lets it enter anew.
// All switches see the same order, so that nobody waits in a circle (docs/network.md).
//   threads  not safe
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/fabric/port_flow.h"
#include "pleach/fabric/switch_model.h"
#include "pleach/network/flow_sets.h"

namespace pleach {

class PacketGates {
 public:
  static constexpr int64_t kNoEnd = INT64_MAX;

  //   one_class   a switch has streams of one class of traffic passing at a time
  //   most_known  flows in the sets that a switch remembers
  explicit PacketGates(bool one_class, int64_t most_known = int64_t{1} << 20)
      : one_class_(one_class), most_known_(most_known) {}

  // A gate of a stream at a switch, which it borrows; numbers may have gaps.
  //   alternates  its packets find their way one by one, between those of others (SwitchWay)
  void add(int32_t gate, int32_t stream, const SwitchCore& core, bool alternates);

  // A stream enters by its gates, with a flow for each. One may enter again while it still passes.
  void enter(std::span<const int32_t> gates, std::span<const PortFlow> flows,
             int32_t traffic_class);
  bool has_entered(int32_t gate) const {
    return gates_[at(gate)].moves.has_value() || !gates_[at(gate)].waits.empty();
  }
  // The last entry ends before this packet. Precondition: has_entered(), and it has no end yet.
  void end(int32_t gate, int64_t packet);
  // All packets before limit() have.
  void passed(int32_t gate);
  // No packets of any entry pass any more.
  void withdraw(std::span<const int32_t> gates);

  // Packets from this one on may not pass.
  int64_t limit(int32_t gate) const {
    return gates_[at(gate)].moves.has_value() ? gates_[at(gate)].moves->end : 0;
  }
  // Gates whose limit may have changed, and streams in the way, since last asked; may repeat.
  std::vector<int32_t> take_changed() { return std::exchange(changed_, {}); }
  std::vector<int32_t> take_in_the_way() { return std::exchange(in_the_way_, {}); }

 private:
  struct Turn {
    int32_t traffic_class = 0;
    int64_t entry = 0;
    auto operator<=>(const Turn&) const = default;
  };
  struct Entry {
    Turn turn;
    int32_t set = 0;       // of its flow
    int64_t end = kNoEnd;  // packet
  };
  struct Gate {
    int32_t stream = 0;
    std::size_t at_switch = 0;
    bool alternates = false;
    std::optional<Entry> moves = {};
    std::vector<Entry> waits = {};  // in turn
  };
  using Load = FlowSets::Load;
  // Gates, and what would pass with them of those that are after them in turn.
  using Waiting = std::map<std::pair<Turn, int32_t>, Load>;
  struct Switch {
    FlowSets sets;
    Load now = {};                            // those that are passing
    std::map<int32_t, int32_t> classes = {};  // of these: how many
    std::set<int32_t> passing = {};           // gates
    std::vector<int32_t> ended = {};          // of these, which will close
    Waiting waiting = {};
  };

  static constexpr int32_t kNobody = -1, kOtherClasses = 0;  // in place of a set that is refused

  static void change(Switch& one, Load& load, const Gate& gate, int32_t by);
  bool is_carried(Switch& one, const Gate& gate, int32_t& refused);
  bool leaves_room(Switch& one, Waiting::const_iterator waiting);
  void note_in_the_way(const Switch& one, const Turn& turn, int32_t refused);
  void open(std::size_t at_switch);
  static void pass(Switch& one, const Gate& gate, int32_t by);
  void begin(Switch& one, int32_t gate);
  void stop(Switch& one, int32_t gate);
  void forget(std::size_t at_switch);

  const bool one_class_;
  const int64_t most_known_;
  std::vector<Gate> gates_;
  std::vector<Switch> switches_;
  std::map<const SwitchCore*, std::size_t> numbers_;  // of switches
  int64_t entries_ = 0;
  std::vector<int32_t> changed_;
  std::vector<int32_t> in_the_way_;
};

}  // namespace pleach
