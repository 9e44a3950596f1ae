// FairShares: max-min fair rates of flows on links, kept up to date as flows come and go.
//
// An allocation is max-min fair when no flow can gain without a slower or equal one losing. It is
// unique, and progressive filling finds it: let all rates grow together; when a link is full, its
// flows keep the rate they have, and the rest go on.
//     rate(f) = min over links l of f of  (capacity(l) − Σ rates fixed before on l) / (flows left
//     on l)
// The capacity of a link may depend on the links by which its active flows come.
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
  void start(int32_t flow);  // not active yet
  void stop(int32_t flow);   // active
  // Solves what start and stop touched; returns the active flows whose rate is new, by number.
  // Cost: O((links + Σ route lengths) · log) of the connected part.
  std::span<const Change> solve();

 private:
  void collect_part();
  void fill_part();
  double capacity(LinkId link) const;
  std::span<const LinkId> links_of(int32_t flow) const { return flow_links_[at(flow)]; }

  std::vector<Capacity> capacities_;
  std::vector<std::span<const LinkId>> flow_links_;
  std::vector<std::vector<int32_t>> active_;  // by link: its active flows
  std::vector<double> rates_;                 // by flow; 0: not active
  std::vector<LinkId> touched_;
  // The part being solved.
  std::vector<LinkId> part_links_;
  std::vector<int32_t> part_flows_;
  std::vector<int32_t> place_;  // by link: its index in part_links_, or -1
  std::vector<double> fixed_;   // by flow: 0 until fixed in this part; -1 while in the part
  std::vector<Change> changes_;
};

}  // namespace pleach
