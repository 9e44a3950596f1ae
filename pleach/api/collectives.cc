#include "pleach/api/collectives.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "pleach/api/schedule_source.h"
#include "pleach/topology/shapes.h"

namespace pleach {
namespace {

// Whether a request counts the elements of the whole buffer, and not of one rank's part.
bool counts_whole(CollectiveKind collective) {
  return collective == CollectiveKind::kAllReduce || collective == CollectiveKind::kBroadcast ||
         collective == CollectiveKind::kReduce;
}

// One rank has nothing to send.
std::shared_ptr<const Schedule> schedule_of_one(CollectiveKind collective) {
  Schedule schedule;
  schedule.collective = collective;
  schedule.participants = {NodeId{0}};
  return std::make_shared<const Schedule>(std::move(schedule));
}

Result<std::shared_ptr<const Schedule>> plan(CollectiveKind collective, Rank root,
                                             int32_t rank_count) {
  if (rank_count == 1) {
    return schedule_of_one(collective);
  }
  PLEACH_ASSIGN(topology, parse_topology(fmt::format("fully_connected:{}", rank_count)));
  return obtain_schedule(topology, "direct", {.collective = collective, .root = root});
}

}  // namespace

Result<std::unique_ptr<Collectives>> Collectives::create(
    std::unique_ptr<Communicator> communicator) {
  std::unique_ptr<Collectives> collectives(new Collectives(std::move(communicator)));
  PLEACH_TRY(collectives->prepare());
  return collectives;
}

Status Collectives::prepare() {
  const int32_t rank_count = communicator_->rank_count();
  for (const CollectiveKind collective : kAllCollectives) {
    for (int32_t root = 0; root < (has_root(collective) ? rank_count : 1); ++root) {
      std::shared_ptr<const Schedule> schedule;
      if (communicator_->rank().value == 0) {
        PLEACH_SET(schedule, plan(collective, Rank{root}, rank_count));
      }
      PLEACH_ASSIGN(prepared, communicator_->prepare(schedule.get()));
      prepared_.emplace(Key{collective, root}, std::move(prepared));
    }
  }
  return ok();
}

Result<Collectives::Chosen> Collectives::choose(const CollectiveRequest& request) const {
  const int32_t rank_count = communicator_->rank_count();
  const auto refuse = [&](const std::string& why) {
    return invalid(
        fmt::format("rank {}, {}: {}", job_rank().value, to_text(request.collective), why));
  };
  if (has_root(request.collective) &&
      (request.root.value < 0 || request.root.value >= rank_count)) {
    return refuse(fmt::format("root {} is none of {} ranks", request.root.value, rank_count));
  }
  if (request.count < 0) {
    return refuse(fmt::format("a count of {} elements is negative", request.count));
  }
  int64_t whole = request.count;
  if (!counts_whole(request.collective) &&
      __builtin_mul_overflow(request.count, int64_t{rank_count}, &whole)) {
    return refuse(
        fmt::format("{} elements for each of {} ranks are too many", request.count, rank_count));
  }
  const int32_t root = has_root(request.collective) ? request.root.value : 0;
  return Chosen{prepared_.at(Key{request.collective, root}).get(),
                {.type = request.type,
                 .op = request.op,
                 .count = whole,
                 .input = request.input,
                 .output = request.output}};
}

Status Collectives::run(const CollectiveRequest& request) {
  PLEACH_ASSIGN(chosen, choose(request));
  return communicator_->run(*chosen.schedule, chosen.request);
}

Result<Operation> Collectives::start(const CollectiveRequest& request) {
  PLEACH_ASSIGN(chosen, choose(request));
  return communicator_->start(*chosen.schedule, chosen.request);
}

}  // namespace pleach
