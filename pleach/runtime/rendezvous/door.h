// Door: where ranks come in, and those who have come and not yet proved that they are of the job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/rendezvous/secret.h"

namespace pleach {

// Who holds the job's secret. It did claim that, but whether there is such a rank is not looked at.
struct Guest {
  Wire wire;
  Claim claim;
};

// Accepts all who connect and hears them; whoever holds the job's secret comes in, and of others
// nothing else is read. Whoever takes too long is shown out, and where there are too many, who has
// been silent longest: strangers cost no rank its place for good, as ranks that are not yet welcome
// come again. Used by one thread; its owner waits on the epoll.
class Door {
 public:
  struct Options {
    Descriptor listener;
    int epoll = -1;
    JobSecret secret;
    Purpose purpose = Purpose::kStore;
    Rank rank;  // whose door it is: nobody else is looked for here
    int32_t rank_count = 1;
    const Clock* clock = nullptr;
  };
  using Enter = std::function<void(Guest)>;
  // Why somebody who claims to be of the job stays out: as the Examination ended.
  using Refuse = std::function<void(const Claim&, Examination::State)>;
  // Watches the listener. `enter` is told of every guest; what it does not keep is shown out.
  // `refuse`, of every claim that ended in kFailed or kDiffers.
  Status open(Options options, Enter enter, Refuse refuse = nullptr);
  // Lets in who comes there, too.
  Status also_listen(Descriptor listener);

  // Tags of the epoll from here on are the door's; ranks have those below.
  static constexpr uint64_t kFirstTag = uint64_t{1} << 33;
  void handle(uint64_t tag);
  // When something is to be done at the latest, and what.
  TimePoint expiry() const;
  void tick(TimePoint now);
  // Errors: kInfeasible: for some time nobody could be let in, as this process has no descriptors
  // left.
  Status status(TimePoint now) const;

 private:
  struct Stranger {
    Descriptor socket;
    Examination examination = {};
    TimePoint expiry;
  };
  using Strangers = std::map<uint64_t, Stranger>;
  // While there are no descriptors for those who come.
  struct Rest {
    TimePoint since = TimePoint::max();  // max: there are
    TimePoint until = TimePoint::max();  // the listeners are not watched
    int error = 0;
  };
  bool accept_some(int listener);  // false: it rests, and no listener is watched
  bool makes_room(int error);
  void hear(uint64_t tag);
  void queue(Stranger stranger);
  void show_out_oldest();

  Options options_;  // without its listener
  std::vector<Descriptor> listeners_;
  Enter enter_;
  Refuse refuse_;
  Strangers strangers_;  // by tag: who has been silent longest first
  uint64_t next_tag_ = kFirstTag + 1;
  Rest rest_;
};

}  // namespace pleach
