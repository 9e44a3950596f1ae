// ConflictNotes: which jobs were in each other's way at which switch, and how often.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/network/admission.h"
#include "pleach/network/session.h"

namespace pleach {

class ConflictNotes {
 public:
  // A stream that has begun to wait.
  //   job_of  of a connection, its job as the session calls it
  template <typename JobOf>
  void note(const Admission& admission, int32_t connection, const Admission::Refusal& refusal,
            JobOf job_of) {
    std::vector<int32_t> jobs = {job_of(connection)};
    for (const int32_t other : refusal.in_the_way) {
      jobs.push_back(job_of(other));
    }
    std::ranges::sort(jobs);
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
    const std::pair key(refusal.node, jobs);
    if (const auto known = conflicts_.find(key); known != conflicts_.end()) {
      ++known->second.count;
    } else if (conflicts_.size() < AdmissionUse::kMostConflicts) {
      conflicts_[key] = {refusal.node, std::move(jobs), 1, admission.level_of(refusal)};
    }
  }
  // By switch and jobs.
  std::vector<SwitchConflict> list() const {
    std::vector<SwitchConflict> list;
    for (const auto& [key, conflict] : conflicts_) {
      list.push_back(conflict);
    }
    return list;
  }

 private:
  std::map<std::pair<NodeId, std::vector<int32_t>>, SwitchConflict> conflicts_;
};

}  // namespace pleach
