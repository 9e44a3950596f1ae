#include "pleach/planning/file_planner.h"

#include <fmt/format.h>

#include <string>

#include "pleach/collective/bounds.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/verify.h"

namespace pleach {
namespace {

class FilePlanner final : public Planner {
 public:
  FilePlanner(const Topology& topology, std::string_view path, Schedule schedule,
              PlannerOptions options)
      : Planner(topology, std::move(options)),
        path_(path),
        schedule_(std::make_shared<Schedule>(std::move(schedule))) {}

  bool does(CollectiveKind collective) const override {
    return collective == schedule_->collective;
  }
  bool takes(const ScheduleRequest& request) const override {
    return check_asked(*schedule_, path_, request).has_value();
  }

 private:
  Result<std::shared_ptr<const Schedule>> schedule(const ScheduleRequest& request) override {
    PLEACH_TRY(check_asked(*schedule_, path_, request));
    if (!is_proved_) {
      PLEACH_TRY(prove());
      is_proved_ = true;
    }
    return std::shared_ptr<const Schedule>(schedule_);
  }

  Status prove() {
    PLEACH_TRY(check_proof(*schedule_, path_, &topology()));
    PLEACH_TRY(fill_routes(*schedule_, topology()));
    return options().wants_certificate  // a file's own may be of another topology
               ? certify(*schedule_, topology())
               : ok();
  }

  const std::string path_;
  const std::shared_ptr<Schedule> schedule_;
  bool is_proved_ = false;
};

}  // namespace

Status check_proof(const Schedule& schedule, const std::string& path, const Topology* topology) {
  const Verification verification = verify(schedule, topology);
  return verification.correct ? ok()
                              : invalid(path, first_violation(verification, schedule, topology));
}

Status check_asked(const Schedule& schedule, const std::string& path,
                   const ScheduleRequest& request) {
  if (request.collective && request.collective != schedule.collective) {
    return invalid(path, fmt::format("a schedule of {}, not of {}", to_text(schedule.collective),
                                     to_text(*request.collective)));
  }
  if (!request.participants.empty() && request.participants != schedule.participants) {
    return invalid(path, "its participants are not those asked for");
  }
  if (request.root && *request.root != schedule.root) {
    return invalid(path,
                   fmt::format("its root is {}, not {}", schedule.root.value, request.root->value));
  }
  return ok();
}

Result<std::unique_ptr<Planner>> make_file_planner(const Topology& topology, std::string_view path,
                                                   PlannerOptions options) {
  PLEACH_ASSIGN(schedule, read_schedule(std::string(path)));
  return std::unique_ptr<Planner>(
      std::make_unique<FilePlanner>(topology, path, std::move(schedule), std::move(options)));
}

}  // namespace pleach
