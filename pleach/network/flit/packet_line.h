// PacketLine: a link that packets pass one after the other, and who waits for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pleach/base/check.h"
#include "pleach/base/units.h"
#include "pleach/network/flit/packet_fifo.h"
#include "pleach/network/session.h"
#include "pleach/topology/topology.h"

namespace pleach {

// Times are whole picoseconds, but packets that follow one another keep the exact rate.
struct PacketLine {
  static constexpr int32_t kIdle = -1, kControl = -2;
  static constexpr int32_t kNoLine = -1;

  int64_t bytes_per_s = 1;
  int64_t hop_ps = 0;   // to the other end, and through the switch that it leaves
  int64_t back_ps = 0;  // of a credit
  // By virtual channel, the most urgent first: legs with a packet that may leave, in turn.
  std::vector<std::vector<int32_t>> queues = {};
  struct {
    int32_t leg = kIdle;
    int64_t packet = 0;
    int32_t round = 0;
  } active = {};
  struct {
    PacketFifo<int32_t> queue = {};  // control packets, which go first
    int32_t back = kNoLine;          // the line the other way
    int32_t places = 1, used = 0;    // behind it
    int64_t waits_ps = -1;           // since when they wait for one
  } control = {};
  struct {
    int64_t time_ps = 0;  // when the last packet has left, rounded up
    int64_t early = 0;    // by how much sooner that is exactly, in picoseconds / bytes_per_s
  } free = {};
  int64_t waits_ps = -1;  // since when packets wait that have no place behind it
  LinkUse use = {};
  bool is_touched = false;

  int64_t time_ps(int64_t bytes) const {
    return (bytes * kPicosecondsPerSecond + bytes_per_s - 1) / bytes_per_s;
  }
  // A packet begins, no earlier than free.time_ps. Returns when its last byte has left.
  int64_t begin(int64_t bytes, int64_t now_ps) {
    PLEACH_CHECK(now_ps >= free.time_ps, "a packet begins before the last one has left");
    const int64_t work = bytes * kPicosecondsPerSecond - (now_ps == free.time_ps ? free.early : 0);
    const int64_t lasts_ps = (work + bytes_per_s - 1) / bytes_per_s;
    free = {now_ps + lasts_ps, lasts_ps * bytes_per_s - work};
    use.busy_ps += lasts_ps;
    use.wire_bytes += bytes;
    return free.time_ps;
  }
};

}  // namespace pleach
