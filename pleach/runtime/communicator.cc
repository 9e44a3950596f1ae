#include "pleach/runtime/communicator.h"

#include <fmt/format.h>

#include <map>
#include <tuple>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/verify.h"
#include "pleach/runtime/executor.h"
#include "pleach/runtime/kernels.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/run_buffers.h"

namespace pleach {

class PreparedSchedule {
 public:
  PreparedSchedule(Schedule schedule, Order order)
      : schedule_(std::move(schedule)), order_(std::move(order)), hash_(schedule_hash(schedule_)) {}

  const Schedule& schedule() const { return schedule_; }
  uint64_t hash() const { return hash_; }

  // The executor of the program for these options, made once.
  Result<Executor*> executor(const ProgramOptions& options) const {
    constexpr std::size_t kMostKept = 64;
    const Key key{options.count, options.segment_count, options.in_place};
    if (const auto found = executors_.find(key); found != executors_.end()) {
      return &found->second;
    }
    PLEACH_ASSIGN(program, lower(schedule_, order_, options));
    if (executors_.size() == kMostKept) {
      executors_.clear();
    }
    return &executors_.emplace(key, Executor(std::move(program))).first->second;
  }

 private:
  using Key = std::tuple<int64_t, int32_t, bool>;  // count, segments, in place

  Schedule schedule_;
  Order order_;
  uint64_t hash_;
  mutable std::map<Key, Executor> executors_;  // a cache; one thread, as the communicator
};

const Schedule& schedule_of(const PreparedSchedule& prepared) {
  return prepared.schedule();
}

namespace {

// What rank 0 sends: the schedule's bytes, or why there are none.
Result<std::string> write_for_all(const Schedule* schedule) {
  if (schedule == nullptr) {
    return invalid("rank 0 has no schedule to prepare");
  }
  PLEACH_ASSIGN(format, schedule_formats().find("binary"));
  return format->write(*schedule);
}

// Reads and proves a schedule; every rank comes to the same conclusion.
Result<std::shared_ptr<const PreparedSchedule>> prove(std::string_view bytes, int32_t rank_count) {
  for (const ScheduleFormat* format : schedule_formats()) {
    if (!format->recognises(bytes)) {
      continue;
    }
    PLEACH_ASSIGN(schedule, format->read(bytes, "schedule of rank 0"));
    if (schedule.rank_count() != rank_count) {
      return invalid(fmt::format("the schedule is for {} ranks, the job has {}",
                                 schedule.rank_count(), rank_count));
    }
    const Verification proof = verify(schedule, nullptr);
    if (!proof.correct) {
      return invalid("the schedule is wrong: " +
                     (proof.violations.empty() ? "no proof" : proof.violations.front()));
    }
    if (std::optional<MergedChunks> merged = merge_alike_chunks(schedule)) {
      schedule = std::move(merged->schedule);
    }
    PLEACH_TRY(check_switchless(schedule));
    Order order = Order::build(schedule);
    return std::shared_ptr<const PreparedSchedule>(
        std::make_shared<PreparedSchedule>(std::move(schedule), std::move(order)));
  }
  return invalid("rank 0 sent bytes in no known schedule format");
}

class CommunicatorOverTransport final : public Communicator {
 public:
  explicit CommunicatorOverTransport(CommunicatorOptions options)
      : options_(std::move(options)),
        clock_(options_.clock != nullptr ? *options_.clock : steady_clock_),
        transport_(std::move(options_.transport_override)) {}
  CommunicatorOverTransport(const CommunicatorOverTransport&) = delete;
  CommunicatorOverTransport& operator=(const CommunicatorOverTransport&) = delete;
  ~CommunicatorOverTransport() override {
    if (!is_closed_ && !poison_) {
      options_.store->fail({rank(), fmt::format("rank {} left without closing communicator {}",
                                                rank().value, quoted(options_.name))});
    }
  }

  Status open();
  Rank rank() const override { return options_.rank; }
  int32_t rank_count() const override { return options_.rank_count; }
  Result<std::shared_ptr<const PreparedSchedule>> prepare(const Schedule* schedule) override;
  Status run(const PreparedSchedule& schedule, const RunRequest& request) override;
  Status barrier() override;
  Status close() override;

 private:
  GroupOfRanks group() const { return {*options_.store, rank(), rank_count(), options_.deadline}; }
  Status check_alive();
  Error poison(const Error& error, std::string_view where, Rank culprit);
  Status enter_barrier(std::string_view what);
  Status run_checked(const PreparedSchedule& schedule, const RunRequest& request, Rank& culprit);

  CommunicatorOptions options_;
  SteadyClock steady_clock_;
  const Clock& clock_;
  std::unique_ptr<Transport> transport_;
  std::optional<Error> poison_;
  bool is_closed_ = false;
  uint64_t sequence_ = 0;       // of operations
  uint64_t barrier_count_ = 0;  // of barriers
  uint64_t prepare_count_ = 0;
};

Status CommunicatorOverTransport::check_alive() {
  if (poison_) {
    return *poison_;
  }
  if (is_closed_) {
    return invalid(fmt::format("communicator {} is closed", quoted(options_.name)));
  }
  if (const std::optional<Failure> failure = options_.store->failure()) {
    poison_ = Error{ErrorCode::kPeerLost, failure->message};
    return *poison_;
  }
  return ok();
}

// Ends the job for all ranks with its first failure, which this error may be, or may bring.
Error CommunicatorOverTransport::poison(const Error& error, std::string_view where, Rank culprit) {
  const std::optional<Failure> failure = options_.store->failure();
  poison_ = failure && failure->message == error.message
                ? error
                : fail_job(*options_.store, error.code,
                           {culprit, failure_text(rank(), where, error.message)});
  return *poison_;
}

Status CommunicatorOverTransport::enter_barrier(std::string_view what) {
  const std::string name = fmt::format("{}/{}/{}", options_.name, what, barrier_count_++);
  const Status status = pleach::barrier(group(), name);
  return status ? ok() : poison(status.error(), what, rank());
}

Status CommunicatorOverTransport::open() {
  if (transport_ == nullptr) {
    PLEACH_ASSIGN(kind, transports().find(options_.transport));
    PLEACH_SET(transport_, kind->create({.rank = rank(),
                                         .rank_count = rank_count(),
                                         .store = options_.store,
                                         .clock = &clock_,
                                         .key_prefix = options_.name,
                                         .deadline = options_.deadline}));
  }
  return enter_barrier("create");
}

Status CommunicatorOverTransport::barrier() {
  PLEACH_TRY(check_alive());
  return enter_barrier("barrier");
}

Status CommunicatorOverTransport::close() {
  PLEACH_TRY(check_alive());
  PLEACH_TRY(enter_barrier("close"));
  is_closed_ = true;
  transport_.reset();
  return ok();
}

Result<std::shared_ptr<const PreparedSchedule>> CommunicatorOverTransport::prepare(
    const Schedule* schedule) {
  PLEACH_TRY(check_alive());
  const std::string name = fmt::format("{}/prepare/{}", options_.name, prepare_count_++);
  const auto produce = [&] { return write_for_all(schedule); };
  const Result<Result<std::string>> bytes = broadcast(group(), name + "/schedule", produce);
  if (!bytes) {
    return poison(bytes.error(), "prepare", rank());
  }
  Result<std::shared_ptr<const PreparedSchedule>> prepared =
      *bytes ? prove(**bytes, rank_count()) : bytes->error();
  const Result<std::string> hash =
      prepared ? Result(fmt::format("{:016x}", (*prepared)->hash())) : prepared.error();
  Result<Status> agreed =
      agree(group(), name + "/verdict", hash, "rank {} holds {}, rank 0 holds {}");
  if (!agreed) {
    return poison(agreed.error(), "prepare", rank());
  }
  PLEACH_TRY(std::move(*agreed));
  return prepared;
}

Status CommunicatorOverTransport::run(const PreparedSchedule& schedule, const RunRequest& request) {
  PLEACH_TRY(check_alive());
  ++sequence_;
  Rank culprit = rank();
  const Status status = run_checked(schedule, request, culprit);
  return status ? ok()
                : poison(status.error(),
                         fmt::format("operation {} ({})", sequence_,
                                     to_text(schedule.schedule().collective)),
                         culprit);
}

Status CommunicatorOverTransport::run_checked(const PreparedSchedule& schedule,
                                              const RunRequest& request, Rank& culprit) {
  if (request.segment_count < 1 || request.segment_count > kMostSegments) {
    return invalid(
        fmt::format("{} segments are not in [1, {}]", request.segment_count, kMostSegments));
  }
  if (options_.landing_places < 1) {
    return invalid(fmt::format("{} landing places are too few", options_.landing_places));
  }
  PLEACH_ASSIGN(buffers, check_buffers(schedule.schedule(), rank(), request));
  PLEACH_ASSIGN(executor, schedule.executor({.rank = rank(),
                                             .count = request.count,
                                             .segment_count = request.segment_count,
                                             .in_place = buffers.in_place}));
  Fingerprint fingerprint;
  fingerprint.add(schedule.hash());
  fingerprint.add(static_cast<int32_t>(request.type));
  fingerprint.add(static_cast<int32_t>(request.op));
  fingerprint.add(request.count);
  fingerprint.add(request.segment_count);
  PLEACH_TRY(executor->run({*transport_, clock_}, {.sequence = sequence_,
                                                   .fingerprint = fingerprint.value(),
                                                   .type = request.type,
                                                   .op = request.op,
                                                   .input = buffers.input,
                                                   .output = buffers.output,
                                                   .landing_places = options_.landing_places,
                                                   .deadline = options_.deadline,
                                                   .record = request.record,
                                                   .culprit = &culprit}));
  if (request.op == ReduceOp::kAverage) {
    const ReducedPart part = reduced_part(schedule.schedule(), rank(), request, buffers);
    divide(request.type, part.begin, part.count, rank_count());
  }
  return ok();
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(CommunicatorOptions options) {
  if (options.store == nullptr) {
    return invalid("a communicator needs a store");
  }
  if (options.rank_count < 1 || options.rank.value < 0 ||
      options.rank.value >= options.rank_count) {
    return invalid(fmt::format("rank {} is not one of {}", options.rank.value, options.rank_count));
  }
  auto communicator = std::make_unique<CommunicatorOverTransport>(std::move(options));
  PLEACH_TRY(communicator->open());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace pleach
