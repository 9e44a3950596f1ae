// Door: where ranks come in, and those who have come and not yet said who they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/net.h"

namespace pleach {

// Somebody who has said its first words.
struct Guest {
  Descriptor socket;
  std::vector<std::byte> hello;
  std::vector<Descriptor> brought;  // came with them, over a socket that carries descriptors
};

// Accepts all who connect, and hears each until its hello is complete. Whoever takes too long for
// that is shown out, and the oldest where they are too many: strangers cost no rank its place.
// Used by one thread; its owner waits on the epoll.
class Door {
 public:
  struct Options {
    Descriptor listener;
    int epoll = -1;
    std::size_t hello_bytes = 0;
    int32_t rank_count = 1;
    const Clock* clock = nullptr;
  };
  // Watches the listener. `enter` is told of every guest; what it does not keep is shown out.
  Status open(Options options, std::function<void(Guest)> enter);
  int listener() const { return options_.listener.get(); }

  // Tags of the epoll from here on are the door's; ranks have those below.
  static constexpr uint64_t kFirstTag = uint64_t{1} << 33;
  void handle(uint64_t tag);
  // When somebody has been silent for too long, and what then happens.
  TimePoint expiry() const;
  void show_out(TimePoint now);

 private:
  struct Stranger {
    Guest guest;
    TimePoint expiry;  // to have said it
    std::size_t received = 0;
  };
  void accept_all();
  void hear(uint64_t tag);
  void show_out_oldest();

  Options options_;
  std::function<void(Guest)> enter_;
  std::map<uint64_t, Stranger> strangers_;  // by tag: the oldest first
  uint64_t next_tag_ = kFirstTag + 1;
};

}  // namespace pleach
