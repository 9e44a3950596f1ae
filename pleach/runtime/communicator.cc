#include "pleach/runtime/communicator.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/runtime/barrier.h"
#include "pleach/runtime/prepared_schedule.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/run_buffers.h"

namespace pleach {

namespace {

// What rank 0 sends: the schedule's bytes, or why there are none.
Result<std::string> write_for_all(const Schedule* schedule) {
  if (schedule == nullptr) {
    return invalid("rank 0 has no schedule to prepare");
  }
  PLEACH_ASSIGN(format, schedule_formats().find("binary"));
  return format->write(*schedule);
}

class ChannelCommunicator final : public Communicator {
 public:
  ChannelCommunicator(std::shared_ptr<Endpoint> endpoint, CommunicatorOptions options)
      : endpoint_(std::move(endpoint)), options_(std::move(options)), channel_(number(options_)) {}
  ChannelCommunicator(const ChannelCommunicator&) = delete;
  ChannelCommunicator& operator=(const ChannelCommunicator&) = delete;
  ~ChannelCommunicator() override;

  Status open();
  Rank rank() const override { return endpoint_->rank(); }
  int32_t rank_count() const override { return endpoint_->rank_count(); }
  Result<std::shared_ptr<const PreparedSchedule>> prepare(const Schedule* schedule) override;
  Status run(const PreparedSchedule& schedule, const RunRequest& request) override;
  Result<Operation> start(const PreparedSchedule& schedule, const RunRequest& request) override;
  Status barrier() override;
  Status close() override;

 private:
  // What an operation is to do, and with what.
  struct Planned {
    std::shared_ptr<OperationState> state;
    RunSpec spec;
  };

  static uint64_t number(const CommunicatorOptions& options);
  Store& store() const { return endpoint_->store(); }
  GroupOfRanks group() const { return {store(), rank(), rank_count(), endpoint_->deadline()}; }
  Status check_alive();
  Error poison(const Error& error, std::string_view where, Rank culprit);
  Status meet(std::string_view what);
  Result<std::shared_ptr<OperationState>> take_barrier();
  Result<Planned> plan(const PreparedSchedule& schedule, const RunRequest& request);
  Result<Planned> plan_checked(const PreparedSchedule& schedule, const RunRequest& request);

  const std::shared_ptr<Endpoint> endpoint_;
  const CommunicatorOptions options_;
  const uint64_t channel_;
  bool is_open_ = false;              // the channel
  std::atomic<bool> is_well_ = true;  // neither closed nor poisoned
  mutable std::mutex mutex_;
  // Guarded by it:
  std::optional<Error> poison_;
  bool is_closed_ = false;
  int64_t prepare_count_ = 0;
  std::optional<OperationPool> barriers_;
};

std::string operation_text(uint64_t operation, std::string_view what) {
  return fmt::format("operation {} ({})", operation, what);
}

// The same on all ranks, and distinct as the names are.
uint64_t ChannelCommunicator::number(const CommunicatorOptions& options) {
  Fingerprint number;
  number.add(options.name);
  return number.value();
}

ChannelCommunicator::~ChannelCommunicator() {
  if (!is_closed_ && !poison_) {
    store().fail({rank(), fmt::format("rank {} left without closing communicator {}", rank().value,
                                      quoted(options_.name))});
  }
  if (is_open_) {
    endpoint_->progress().close(channel_, {ErrorCode::kPeerLost, "its communicator was destroyed"});
  }
}

Status ChannelCommunicator::check_alive() {
  if (is_well_.load(std::memory_order_acquire) && !store().failure()) {
    return ok();
  }
  const std::scoped_lock lock(mutex_);
  if (poison_) {
    return *poison_;
  }
  if (is_closed_) {
    return invalid(fmt::format("communicator {} is closed", quoted(options_.name)));
  }
  if (const std::optional<Failure> failure = store().failure()) {
    poison_ = Error{ErrorCode::kPeerLost, failure->message};
    is_well_ = false;
    return *poison_;
  }
  return ok();
}

// Ends the job for all ranks with its first failure, which this error may be, or may bring.
Error ChannelCommunicator::poison(const Error& error, std::string_view where, Rank culprit) {
  const std::optional<Failure> failure = store().failure();
  Error first =
      failure && failure->message == error.message
          ? error
          : fail_job(store(), error.code, {culprit, failure_text(rank(), where, error.message)});
  const std::scoped_lock lock(mutex_);
  poison_ = first;
  is_well_ = false;
  return first;
}

// A barrier at the store: before the channel is open on all ranks, and after its last operation.
Status ChannelCommunicator::meet(std::string_view what) {
  const Status status = pleach::barrier(group(), fmt::format("{}/{}", options_.name, what));
  return status ? ok() : poison(status.error(), what, rank());
}

Status ChannelCommunicator::open() {
  const auto failed = [this](const Error& error, const Progress::Culprit& culprit) {
    return poison(error, operation_text(culprit.operation, culprit.what),
                  culprit.rank.value < 0 ? rank() : culprit.rank);
  };
  const ChannelOptions channel{
      .number = channel_, .places = options_.landing_places, .place_bytes = options_.place_bytes};
  if (Status opened = endpoint_->progress().open(channel, failed); !opened) {
    is_closed_ = true;  // a mistake that harms nobody
    return opened;
  }
  is_open_ = true;
  return meet("create");
}

Status ChannelCommunicator::barrier() {
  PLEACH_TRY(check_alive());
  PLEACH_ASSIGN(state, take_barrier());
  Fingerprint fingerprint;
  fingerprint.add("barrier");
  fingerprint.add(rank_count());
  return endpoint_->progress().run(
      channel_, state,
      {.fingerprint = fingerprint.value(), .deadline = endpoint_->deadline(), .what = "barrier"});
}

Result<std::shared_ptr<OperationState>> ChannelCommunicator::take_barrier() {
  const std::scoped_lock lock(mutex_);
  if (!barriers_) {
    const Schedule schedule = barrier_schedule(rank_count());
    PLEACH_ASSIGN(program, lower(schedule, Order::build(schedule), {.rank = rank()}));
    barriers_.emplace(std::move(program));
  }
  return barriers_->take();
}

Status ChannelCommunicator::close() {
  PLEACH_TRY(check_alive());
  if (const int64_t count = endpoint_->progress().in_flight(channel_); count > 0) {
    return invalid(
        fmt::format("communicator {} has {} operations in flight", quoted(options_.name), count));
  }
  PLEACH_TRY(meet("close"));
  endpoint_->progress().close(channel_, {ErrorCode::kPeerLost, "its communicator was closed"});
  is_open_ = false;
  const std::scoped_lock lock(mutex_);
  is_closed_ = true;
  is_well_ = false;
  return ok();
}

Result<std::shared_ptr<const PreparedSchedule>> ChannelCommunicator::prepare(
    const Schedule* schedule) {
  PLEACH_TRY(check_alive());
  const auto count = [&] {
    const std::scoped_lock lock(mutex_);
    return prepare_count_++;
  };
  const std::string name = fmt::format("{}/prepare/{}", options_.name, count());
  const auto produce = [&] { return write_for_all(schedule); };
  const Result<Result<std::string>> bytes = broadcast(group(), name + "/schedule", produce);
  if (!bytes) {
    return poison(bytes.error(), "prepare", rank());
  }
  Result<std::shared_ptr<const PreparedSchedule>> prepared =
      *bytes ? PreparedSchedule::prove(**bytes, rank_count()) : bytes->error();
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

Result<ChannelCommunicator::Planned> ChannelCommunicator::plan(const PreparedSchedule& schedule,
                                                               const RunRequest& request) {
  PLEACH_TRY(check_alive());
  Result<Planned> planned = plan_checked(schedule, request);
  if (!planned) {
    const uint64_t next = endpoint_->progress().begun(channel_) + 1;
    return poison(planned.error(), operation_text(next, to_text(schedule.schedule().collective)),
                  rank());
  }
  return planned;
}

Result<ChannelCommunicator::Planned> ChannelCommunicator::plan_checked(
    const PreparedSchedule& schedule, const RunRequest& request) {
  PLEACH_ASSIGN(planned, schedule.plan(rank(), request, options_.place_bytes));
  RunSpec spec{.fingerprint = planned.fingerprint,
               .type = request.type,
               .op = request.op,
               .input = planned.buffers.input,
               .output = planned.buffers.output,
               .deadline = endpoint_->deadline(),
               .record = request.record,
               .what = to_text(schedule.schedule().collective)};
  if (request.op == ReduceOp::kAverage) {
    const ReducedPart part = reduced_part(schedule.schedule(), rank(), request, planned.buffers);
    spec.quotient = {part.begin, part.count, rank_count()};
  }
  return Planned{std::move(planned.state), spec};
}

Status ChannelCommunicator::run(const PreparedSchedule& schedule, const RunRequest& request) {
  PLEACH_ASSIGN(planned, plan(schedule, request));
  return endpoint_->progress().run(channel_, planned.state, planned.spec);
}

Result<Operation> ChannelCommunicator::start(const PreparedSchedule& schedule,
                                             const RunRequest& request) {
  PLEACH_ASSIGN(planned, plan(schedule, request));
  PLEACH_TRY(endpoint_->progress().start(channel_, planned.state, planned.spec));
  return Operation(std::move(planned.state), endpoint_->progress());
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Endpoint> endpoint,
                                                           CommunicatorOptions options) {
  if (options.landing_places < 1 || options.place_bytes < 1 ||
      options.place_bytes > kMostPlaceBytes) {
    return invalid(fmt::format("{} landing places of {} bytes are not as many as 1 of [1, {}]",
                               options.landing_places, options.place_bytes, kMostPlaceBytes));
  }
  auto communicator =
      std::make_unique<ChannelCommunicator>(std::move(endpoint), std::move(options));
  PLEACH_TRY(communicator->open());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace pleach
