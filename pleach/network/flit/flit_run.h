// FlitRun: jobs on routers of some kind, all known before the first begins.
#pragma once

#include <cstdint>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/collective/record.h"
#include "pleach/network/lowered_schedule.h"
#include "pleach/network/session.h"

namespace pleach {

struct FlitJob {
  LoweredJob lowered;
  int64_t start_ps = 0;
  int32_t traffic_class = 0;
};

class FlitRun {
 public:
  virtual ~FlitRun() = default;

  virtual int32_t job_count() const = 0;
  virtual bool is_idle() const = 0;
  // When something happens next; only while jobs are running.
  virtual int64_t next_ps() const = 0;
  // Advances to the first time at which jobs finish, at most to `until_ps`.
  //   errors  kInvalidArgument: the arrival that never commits, where a schedule is wrong; time
  //           passes kLongestPs. kInfeasible: packets wait for each other in a circle
  virtual Status advance(int64_t until_ps) = 0;
  // Those that have finished since, by number, and when.
  virtual std::vector<NetworkSession::Finish> take_finished() = 0;
  virtual Record take_record(int32_t job) = 0;
  // When all jobs have finished: what has happened, until the last credit is home.
  virtual NetworkUse use() = 0;
};

}  // namespace pleach
