// FairShares: max-min fair rates of flows on links, class after class, kept up to date as flows
// come and go.
//
// An allocation is max-min fair when no flow can gain without a slower or equal one losing. It is
// unique, and progressive filling finds it: let all rates grow together; when a link is full, its
// flows keep the rate they have, and the rest go on.
//     rate(f) = min over links l of f of  (capacity(l) − Σ rates fixed before on l) / (flows left
//     on l)
// Flows of the lowest class are filled so as if there were no others, those of the next one with
// what these leave of every link, and so on: strict priority. A flow whose links leave it nothing
// has rate 0. Less than 1e-9 of a link is nothing, as that is what rounding leaves.
// The capacity of a link may depend on the links by which its active flows come, of any class.
// A change reaches only flows that share links with it, directly or through others: those alone are
// solved again. Of one class of flows fewer: an allocation is max-min fair when every flow has a
// link that is full, on which nobody is faster. So first only flows are looked at that a changed
// link limits, then those that links of theirs limit, and so on; all others keep what they have,
// and have a link as before. If one of them is then faster than some link of the part gives, it
// takes part too, and the part is solved anew. A flow that stops and starts again between two
// solutions is no change. Source: Bertsekas & Gallager, Data Networks, sec. 6.5.2.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/index.h"

namespace pleach {

class FairShares {
 public:
  struct Change {
    int32_t flow;
    double rate_bytes_per_s;
  };

  struct Capacity {
    double bytes_per_s;  // of one flow, > 0
    // Of flows that come by k links: bytes_per_s / (1 + crowding · (1 − 1/k)); ≥ 0.
    double crowding = 0;
    // Flows come to a link by one that ends where it begins; those that come by none, by one more.
    NodeId source = {};
    NodeId target = {};
  };

  //   capacities  by LinkId
  //   flow_links  by flow number: the links it uses; must outlive this
  FairShares(std::vector<Capacity> capacities, std::vector<std::span<const LinkId>> flow_links);

  // The next flow number gets these links, which must outlive this.
  void add_flow(std::span<const LinkId> links);
  void start(int32_t flow, int32_t flow_class = 0);  // not active yet
  static constexpr int32_t kSuspended = INT32_MAX;   // a class that gets nothing
  void stop(int32_t flow);                           // active
  // Solves what start and stop touched; returns the active flows whose rate is new, by number;
  // those that have started since, whatever they have.
  // Cost: O((links + Σ route lengths) · log) of the connected part, the links for each class there;
  // of one class usually of a small part of it.
  std::span<const Change> solve();

 private:
  struct Link {
    std::vector<int32_t> flows;  // active
    // While it is in the part:
    double left = 0;      // [bytes/s]
    int32_t unfixed = 0;  // flows
    bool is_in_part = false;
    bool has_others = false;  // flows that are not
    bool is_changed = false;  // by the last link that was filled
  };
  struct Flow {
    double bytes_per_s = 0;  // 0: nothing, or not active; -1: has just started
    double fixed = 0;        // 0 until fixed in this part; -1 while in the part
    int32_t flow_class = 0;  // since it started
    LinkId limit = {};       // that gives it no more
    bool is_in_part = false;
    bool is_active = false;
    bool is_stopping = false;   // unless it starts again, in its class, before the next solve()
    bool is_restarted = false;  // it did
  };
  struct Share {
    double rate;
    LinkId link;
    auto operator<=>(const Share&) const = default;
  };
  void leave_links(int32_t flow);
  void solve_part();
  void collect_part(bool is_whole);
  void add_to_part(LinkId link);
  void add_to_part(int32_t flow);
  void spread_part(std::size_t first_link, bool is_whole);
  void extend_part(bool is_whole);
  void fill_part();
  std::size_t prepare_class(int32_t flow_class);
  void fill_class(int32_t flow_class);
  void fill_link(LinkId fullest, int32_t flow_class, double share);
  double share_beside_others(LinkId link);
  double capacity(LinkId link) const;
  int32_t class_of(int32_t flow) const { return flows_[at(flow)].flow_class; }
  std::span<const LinkId> links_of(int32_t flow) const { return flow_links_[at(flow)]; }

  std::vector<Capacity> capacities_;
  std::vector<std::span<const LinkId>> flow_links_;
  std::vector<Link> links_;
  std::vector<Flow> flows_;
  std::map<int32_t, int32_t> classes_;  // how many active flows each has
  struct {
    std::vector<LinkId> touched;
    std::vector<int32_t> stopping;   // flows; they may repeat
    std::vector<int32_t> restarted;  // flows; they may repeat
  } since_;                          // the last solve()
  struct {                           // being solved
    std::vector<LinkId> links;
    std::vector<int32_t> flows;
    std::vector<int32_t> overtaken;  // others, that have more than a filled link of theirs gives
    std::vector<Share> heap;
    std::vector<LinkId> changed;  // by the last link that was filled
    std::vector<double> fixed;    // room to sort
  } part_;
  std::vector<Change> changes_;
};

}  // namespace pleach
