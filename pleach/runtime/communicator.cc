#include "pleach/runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/collective/merge_chunks.h"
#include "pleach/collective/placement.h"
#include "pleach/collective/verify.h"
#include "pleach/runtime/barrier.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/run_buffers.h"

namespace pleach {

class PreparedSchedule {
 public:
  PreparedSchedule(Schedule schedule, Order order)
      : schedule_(std::move(schedule)), order_(std::move(order)), hash_(schedule_hash(schedule_)) {
    for (const Transfer& transfer : schedule_.transfers) {
      const int64_t weight =
          schedule_.chunks.cumulative(transfer.first_chunk + transfer.chunk_count) -
          schedule_.chunks.cumulative(transfer.first_chunk);
      most_weight_ = std::max(most_weight_, weight);
      most_chunks_ = std::max<int64_t>(most_chunks_, transfer.chunk_count);
    }
  }

  const Schedule& schedule() const { return schedule_; }
  uint64_t hash() const { return hash_; }

  // As many segments of whole messages as it takes, besides those asked for, until each fits a
  // place. The same on all ranks.
  //   errors  kUnsupported: a message of so many chunks fits none
  Result<int32_t> segments(const RunRequest& request, int64_t place_bytes) const;

  // For an operation of the program for these options, which is made once.
  Result<std::shared_ptr<OperationState>> take(const ProgramOptions& options) const;

 private:
  using Key = std::tuple<int64_t, int32_t, bool>;  // count, segments, in place

  Schedule schedule_;
  Order order_;
  uint64_t hash_;
  // The largest message, and the most chunks of one.
  int64_t most_weight_ = 0;
  int64_t most_chunks_ = 1;
  mutable std::mutex mutex_;
  mutable std::map<Key, OperationPool> pools_;  // a cache
};

Result<int32_t> PreparedSchedule::segments(const RunRequest& request, int64_t place_bytes) const {
  if (request.segment_count < 1 || request.segment_count > kMostSegments) {
    return invalid(
        fmt::format("{} segments are not in [1, {}]", request.segment_count, kMostSegments));
  }
  // No message is longer, whatever the rounding.
  const bool is_exchange = schedule_.collective == CollectiveKind::kAllToAll;
  const __int128 space =
      static_cast<__int128>(request.count) * (is_exchange ? schedule_.rank_count() : 1);
  const auto elements = static_cast<int64_t>(space * most_weight_ / schedule_.chunks.total()) + 1;
  const int64_t place = place_bytes / element_bytes(request.type);
  if (elements <= place) {
    return request.segment_count;
  }
  // Every chunk of a segment may be rounded up.
  const int64_t least =
      place > most_chunks_ ? (elements - 1) / (place - most_chunks_) + 1 : INT64_MAX;
  if (least > kMostSegments) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("a message of {} elements in {} chunks takes more than {} segments to "
                             "fit landing places of {} bytes",
                             elements - 1, most_chunks_, kMostSegments, place_bytes)};
  }
  return std::max(request.segment_count, static_cast<int32_t>(least));
}

Result<std::shared_ptr<OperationState>> PreparedSchedule::take(
    const ProgramOptions& options) const {
  constexpr std::size_t kMostKept = 64;
  const Key key{options.count, options.segment_count, options.in_place};
  const std::scoped_lock lock(mutex_);
  auto found = pools_.find(key);
  if (found == pools_.end()) {
    PLEACH_ASSIGN(program, lower(schedule_, order_, options));
    if (pools_.size() == kMostKept) {
      pools_.clear();
    }
    found = pools_.emplace(key, OperationPool(std::move(program))).first;
  }
  return found->second.take();
}

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
  bool is_open_ = false;  // the channel
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
  const std::scoped_lock lock(mutex_);
  if (poison_) {
    return *poison_;
  }
  if (is_closed_) {
    return invalid(fmt::format("communicator {} is closed", quoted(options_.name)));
  }
  if (const std::optional<Failure> failure = store().failure()) {
    poison_ = Error{ErrorCode::kPeerLost, failure->message};
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
  PLEACH_ASSIGN(buffers, check_buffers(schedule.schedule(), rank(), request));
  PLEACH_ASSIGN(segment_count, schedule.segments(request, options_.place_bytes));
  PLEACH_ASSIGN(state, schedule.take({.rank = rank(),
                                      .count = request.count,
                                      .segment_count = segment_count,
                                      .in_place = buffers.in_place}));
  Fingerprint fingerprint;
  fingerprint.add(schedule.hash());
  fingerprint.add(static_cast<int32_t>(request.type));
  fingerprint.add(static_cast<int32_t>(request.op));
  fingerprint.add(request.count);
  fingerprint.add(segment_count);
  Planned planned{std::move(state),
                  {.fingerprint = fingerprint.value(),
                   .type = request.type,
                   .op = request.op,
                   .input = buffers.input,
                   .output = buffers.output,
                   .deadline = endpoint_->deadline(),
                   .record = request.record,
                   .what = to_text(schedule.schedule().collective)}};
  if (request.op == ReduceOp::kAverage) {
    const ReducedPart part = reduced_part(schedule.schedule(), rank(), request, buffers);
    planned.spec.quotient = {part.begin, part.count, rank_count()};
  }
  return planned;
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
