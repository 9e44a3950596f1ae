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
// solved again. Source: Bertsekas & Gallager, Data Networks, sec. 6.5.2.
#pragma once

#include <cstdint>
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
  // Cost: O((links + Σ route lengths) · log) of the connected part, the links for each class there.
  std::span<const Change> solve();

 private:
  struct Rate {
    double bytes_per_s = 0;  // 0: nothing, or not active; -1: has just started
    int32_t flow_class = 0;  // since it started
  };
  struct Filling {        // of a link
    double left = 0;      // [bytes/s]
    int32_t unfixed = 0;  // flows
    bool is_in_part = false;
    bool is_changed = false;
  };
  struct Share {
    double rate;
    LinkId link;
    auto operator<=>(const Share&) const = default;
  };
  void collect_part();
  void fill_part();
  // Of the part; it has no other where it is the only one.
  void fill_class(int32_t flow_class, bool is_only);
  std::size_t prepare_class(int32_t flow_class, bool is_only);
  double capacity(LinkId link) const;
  int32_t class_of(int32_t flow) const { return rates_[at(flow)].flow_class; }
  std::span<const LinkId> links_of(int32_t flow) const { return flow_links_[at(flow)]; }

  std::vector<Capacity> capacities_;
  std::vector<std::span<const LinkId>> flow_links_;
  std::vector<std::vector<int32_t>> active_;  // by link: its active flows
  std::vector<Rate> rates_;                   // by flow
  std::vector<LinkId> touched_;
  std::vector<Filling> filling_;  // by link
  std::vector<double> fixed_;     // by flow: 0 until fixed in this part; -1 while in the part
  struct {                        // being solved
    std::vector<LinkId> links;
    std::vector<int32_t> flows;
    std::vector<Share> heap;
    std::vector<LinkId> changed;  // by the last link that was filled
  } part_;
  std::vector<Change> changes_;
};

}  // namespace pleach
