// Streams that enter switches, leave them, and ask again at once, as an Admission lets them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/network/admission.h"

namespace pleach::support {

class AskingStreams {
 public:
  // All of them ask, in order; by stream its class of traffic. Borrows the admission, to which they
  // have been added.
  AskingStreams(Admission& admission, const std::vector<int32_t>& classes)
      : admission_(admission), turns_(classes.size()) {
    for (int32_t stream = 0; stream < count_of(classes); ++stream) {
      turns_[at(stream)].traffic_class = classes[at(stream)];
      ask_anew(stream);
    }
  }
  // One that is inside; those whom that wakes ask in turn, and then it does.
  void leave(int32_t stream) {
    std::vector<int32_t> woken;
    admission_.leave(stream, woken);
    std::ranges::sort(woken, {}, [&](int32_t one) { return turns_[at(one)]; });
    woken.erase(std::unique(woken.begin(), woken.end()), woken.end());
    for (const int32_t one : woken) {
      ask(one);
    }
    ask_anew(stream);
  }
  const std::set<int32_t>& outside() const { return outside_; }

 private:
  void ask_anew(int32_t stream) {
    turns_[at(stream)].asked_ps = now_++;
    ask(stream);
  }
  void ask(int32_t stream) {
    outside_.insert(stream);
    if (admission_.enter(stream, turns_[at(stream)])) {
      outside_.erase(stream);
    }
  }

  Admission& admission_;
  std::vector<Admission::Turn> turns_;
  std::set<int32_t> outside_;
  int64_t now_ = 0;
};

}  // namespace pleach::support
