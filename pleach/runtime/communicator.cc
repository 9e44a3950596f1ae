#include "pleach/runtime/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"
#include "pleach/runtime/barrier.h"
#include "pleach/runtime/message_channel.h"
#include "pleach/runtime/prepared_schedule.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/request_fingerprint.h"
#include "pleach/runtime/run_buffers.h"

namespace pleach {

namespace {

constexpr std::string_view kFormatOnTheWay = "binary";
// What fails on a channel of collectives.
constexpr std::string_view kOperation = "operation";

// Of the channel for messages, which collectives do not use.
uint64_t number_for_messages(uint64_t channel) {
  Fingerprint number;
  number.add(channel);
  number.add("messages");
  return number.value();
}

class ChannelCommunicator final : public Communicator {
 public:
  // Options that are complete: with all the ranks.
  ChannelCommunicator(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<Wiring> wiring,
                      CommunicatorOptions options, Rank rank)
      : endpoint_(std::move(endpoint)),
        wiring_(std::move(wiring)),
        options_(std::move(options)),
        self_{.channel = number(*endpoint_, *wiring_->epoch, options_),
              .rank = rank,
              .job_ranks = options_.ranks,
              .place_bytes = options_.place_bytes},
        messages_({.wiring = wiring_,
                   .deadline = endpoint_->deadline(),
                   .channel = number_for_messages(self_.channel),
                   .rank = rank,
                   .job_ranks = options_.ranks,
                   .check_alive = [this] { return check_alive(); }}),
        realm_(options_.fails_alone ? realm_of_scope()
                                    : Realm{endpoint_->shared_store(), wiring_->epoch}) {}
  ChannelCommunicator(const ChannelCommunicator&) = delete;
  ChannelCommunicator& operator=(const ChannelCommunicator&) = delete;
  ~ChannelCommunicator() override;

  Status open();
  Rank rank() const override { return self_.rank; }
  int32_t rank_count() const override { return count_of(self_.job_ranks); }
  const std::vector<Rank>& job_ranks() const override { return self_.job_ranks; }
  Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key) override;
  Result<std::unique_ptr<Communicator>> shrink() override;
  Result<std::vector<std::shared_ptr<const PreparedSchedule>>> prepare_all(
      const Pack& pack, const Unpack& unpack) override;
  Status run(const PreparedSchedule& schedule, const RunRequest& request) override;
  Result<Operation> start(const PreparedSchedule& schedule, const RunRequest& request) override;
  Status barrier(std::optional<Duration> deadline) override;
  Messages& messages() override { return messages_; }
  Result<Operation> start_barrier(std::optional<Duration> deadline) override;
  Status close() override;
  void abort(std::string_view reason) override;

 private:
  using Planned = std::shared_ptr<CollectiveState>;

  // The endpoint's, or a scope and its view of the store.
  struct Realm {
    std::shared_ptr<Store> store;
    std::shared_ptr<const Epoch> epoch;
  };
  Realm realm_of_scope() const;
  static uint64_t number(Endpoint& endpoint, const Epoch& epoch,
                         const CommunicatorOptions& options);
  Progress::Failed tell_failure(std::string_view kind);
  Status open_channels();
  void close_channels(std::string_view why);
  Status meet();
  Store& store() const { return *realm_.store; }
  const Epoch& epoch() const { return *realm_.epoch; }
  std::shared_ptr<const Epoch> scope() const {
    return options_.fails_alone ? realm_.epoch : nullptr;
  }
  Progress& progress() const { return *wiring_->progress; }
  GroupOfRanks group() const {
    return {store(), rank(), rank_count(), endpoint_->deadline(), self_.job_ranks};
  }
  // This rank in the job, as messages name it.
  Rank job_rank() const { return endpoint_->rank(); }
  std::string key(std::string_view what) const;
  std::string next_key(std::string_view what);
  Status check_alive();
  Error poison(const Error& error, std::string_view where, Rank culprit);
  Error end_epoch(const Failure& failure);
  Result<Planned> plan_barrier(std::optional<Duration> deadline);
  Result<Operation> start(const Planned& planned);
  Result<Planned> plan(const PreparedSchedule& schedule, const RunRequest& request);

  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<Wiring> wiring_;
  const CommunicatorOptions options_;
  const Preparer self_;
  Messages messages_;
  const Realm realm_;
  bool is_open_ = false;              // the channels
  std::atomic<bool> is_well_ = true;  // neither closed nor poisoned
  mutable std::mutex mutex_;
  struct Guarded {
    std::optional<Error> poison = {};  // why nothing may be asked of it
    int64_t agreements = 0;            // so far, over the store
    std::optional<OperationPool> barriers = {};
  } guarded_;  // by the mutex
};

std::string operation_text(uint64_t operation, std::string_view what) {
  return fmt::format("operation {} ({})", operation, what);
}

// The same on all ranks, and distinct as the names and the groups are, and from those of a
// communicator that was closed: what is still said of it must not be taken for this one's.
uint64_t ChannelCommunicator::number(Endpoint& endpoint, const Epoch& epoch,
                                     const CommunicatorOptions& options) {
  Fingerprint number;
  number.add(options.name);
  number.add(epoch.number());
  for (const Rank rank : options.ranks) {
    number.add(rank.value);
  }
  number.add(endpoint.openings().count(number.value()));
  return number.value();
}

ChannelCommunicator::Realm ChannelCommunicator::realm_of_scope() const {
  const std::shared_ptr<Store> store =
      make_scoped_store(endpoint_->shared_store(), fmt::format("{:x}", self_.channel));
  return {store, store->epoch()};
}

// Groups of one name meet under keys of their own.
std::string ChannelCommunicator::key(std::string_view what) const {
  return fmt::format("{}@{:x}/{}", options_.name, self_.channel, what);
}

std::string ChannelCommunicator::next_key(std::string_view what) {
  const std::scoped_lock lock(mutex_);
  return key(fmt::format("{}/{}", what, guarded_.agreements++));
}

ChannelCommunicator::~ChannelCommunicator() {
  if (!wiring_->process.is_here()) {
    return;
  }
  if (is_well_) {
    store().fail(epoch(),
                 {job_rank(), fmt::format("rank {} left without closing communicator {}",
                                          job_rank().value, pleach::quoted(options_.name))});
  }
  if (is_open_) {
    const std::optional<Failure> failure = epoch().failure();
    close_channels(failure ? failure->message : "its communicator was destroyed");
  }
}

void ChannelCommunicator::close_channels(std::string_view why) {
  for (const uint64_t channel : {self_.channel, messages_.channel()}) {
    progress().close(channel, {ErrorCode::kPeerLost, std::string(why)});
  }
  is_open_ = false;
}

Status ChannelCommunicator::check_alive() {
  if (!wiring_->process.is_here()) {
    return invalid(fmt::format("communicator {} is of another process, which forked this one",
                               pleach::quoted(options_.name)));
  }
  if (is_well_.load(std::memory_order_acquire) && !epoch().failure()) {
    return ok();
  }
  const std::scoped_lock lock(mutex_);
  if (guarded_.poison) {
    return *guarded_.poison;
  }
  if (const Status ended = epoch().check(); !ended) {
    wiring_->flight->fail(ended.error().message);
    guarded_.poison = ended.error();
    is_well_ = false;
    return *guarded_.poison;
  }
  return ok();
}

Error ChannelCommunicator::poison(const Error& error, std::string_view where, Rank culprit) {
  return end_epoch(
      failure_of({error.code, failure_text(job_rank(), where, error.message)}, culprit));
}

// Ends the epoch for all ranks with its first failure, which this may be.
Error ChannelCommunicator::end_epoch(const Failure& failure) {
  Error first = fail_epoch(store(), epoch(), failure);
  wiring_->flight->fail(first.message);
  const std::scoped_lock lock(mutex_);
  guarded_.poison = first;
  is_well_ = false;
  return first;
}

// How a channel's first error is told, which was met in something of that kind.
Progress::Failed ChannelCommunicator::tell_failure(std::string_view kind) {
  return [this, kind](const Error& error, const Progress::Culprit& culprit) {
    if (error.code == ErrorCode::kInvalidArgument && kind == kOperation) {
      // What two ranks run: whoever says so.
      return end_epoch(
          failure_of({error.code, fmt::format("{} {}: {}", kind, culprit.operation, error.message)},
                     culprit.rank));
    }
    const std::string where =
        culprit.operation == 0 ? fmt::format("transport {}", transport_name(endpoint_->transport()))
                               : fmt::format("{} {} ({})", kind, culprit.operation, culprit.what);
    return poison(error, where, culprit.rank.value < 0 ? job_rank() : culprit.rank);
  };
}

Status ChannelCommunicator::open_channels() {
  PLEACH_TRY(progress().open({.number = self_.channel,
                              .places = options_.landing_places,
                              .place_bytes = options_.place_bytes},
                             tell_failure(kOperation), Progress::make_channel, scope()));
  const auto make = [&](const ChannelOptions& channel, Transport& transport,
                        std::vector<bool>& sending) {
    const MessageGroup group{job_rank(), self_.job_ranks, endpoint_->deadline()};
    return std::make_unique<MessageChannel>(group, channel, transport, sending);
  };
  Status opened = progress().open({.number = messages_.channel(),
                                   .places = options_.message_places,
                                   .place_bytes = options_.message_place_bytes},
                                  tell_failure("message"), make, scope());
  if (!opened) {
    progress().close(self_.channel, opened.error());
  }
  return opened;
}

Status ChannelCommunicator::open() {
  if (Status opened = open_channels(); !opened) {
    guarded_.poison = opened.error();  // a mistake that harms nobody
    is_well_ = false;
    return opened;
  }
  is_open_ = true;
  endpoint_->openings().note_opened();
  for (const uint64_t channel : {self_.channel, messages_.channel()}) {
    progress().name_channel(channel, {options_.name, options_.ranks});
  }
  const Status met = meet();
  return met ? ok() : poison(met.error(), "create", job_rank());
}

// When it returns, all ranks have opened the channels, with as many places, and as large ones, and
// know how to reach each other: nothing that follows asks the store.
Status ChannelCommunicator::meet() {
  const std::string places = fmt::format(
      "transport={} landing_places={} place_bytes={} message_places={} message_place_bytes={}",
      transport_name(endpoint_->transport()), options_.landing_places, options_.place_bytes,
      options_.message_places, options_.message_place_bytes);
  const auto places_in = [](std::string_view word) { return word.substr(0, word.find('\n')); };
  const auto take = [&](const std::vector<std::string>& words) -> Status {
    for (int32_t rank = 0; rank < rank_count(); ++rank) {
      PLEACH_TRY(compare(group(), Rank{rank}, places_in(words[at(rank)]), places_in(words[0]),
                         "rank {0} has {1}, rank {3} has {2}"));
    }
    for (int32_t rank = 0; rank < rank_count(); ++rank) {
      const std::string_view word = words[at(rank)];
      const std::size_t address = std::min(places_in(word).size() + 1, word.size());
      if (rank != this->rank().value) {
        PLEACH_TRY(progress().introduce(job_ranks()[at(rank)], word.substr(address)));
      }
    }
    return ok();
  };
  return exchange(group(), key("create"), places + "\n" + wiring_->transport->address(), take);
}

Status ChannelCommunicator::barrier(std::optional<Duration> deadline) {
  PLEACH_ASSIGN(planned, plan_barrier(deadline));
  return progress().run(self_.channel, planned);
}

Result<Operation> ChannelCommunicator::start_barrier(std::optional<Duration> deadline) {
  PLEACH_ASSIGN(planned, plan_barrier(deadline));
  return start(planned);
}

Result<ChannelCommunicator::Planned> ChannelCommunicator::plan_barrier(
    std::optional<Duration> deadline) {
  PLEACH_TRY(check_alive());
  const std::scoped_lock lock(mutex_);
  if (!guarded_.barriers) {
    const Schedule schedule = barrier_schedule(rank_count());
    PLEACH_ASSIGN(program, lower(schedule, Order::build(schedule), {.rank = rank()}));
    program.rename_ranks(self_.job_ranks);
    guarded_.barriers.emplace(std::move(program));
  }
  return guarded_.barriers->take({.fingerprint = request_fingerprint({}),
                                  .deadline = deadline.value_or(endpoint_->deadline()),
                                  .what = "barrier"});
}

// Compares the ranks' numbers of operations and their histories, on rank 0.
Result<std::string> compare_operations(const GroupOfRanks& group,
                                       const std::vector<std::string>& all) {
  const std::vector<std::string_view> first = pleach::split(all.front(), ' ');
  for (int32_t rank = 0; rank < count_of(all); ++rank) {
    const std::vector<std::string_view> theirs = pleach::split(all[at(rank)], ' ');
    if (theirs.size() != first.size()) {
      return invalid(fmt::format("rank {} closes something else", group.name_of(rank)));
    }
    PLEACH_TRY(compare(group, Rank{rank}, theirs.front(), first.front(),
                       "rank {0} ran {1} operations, rank {3} ran {2}"));
    PLEACH_TRY(compare(group, Rank{rank}, theirs.back(), first.back(),
                       "rank {0} ran other operations than rank {3}"));
  }
  return std::string();
}

Status ChannelCommunicator::close() {
  PLEACH_TRY(check_alive());
  for (const auto& [what, channel] :
       {std::pair("operations", self_.channel), std::pair("messages", messages_.channel())}) {
    if (const int64_t count = progress().in_flight(channel); count > 0) {
      return invalid(fmt::format("communicator {} has {} {} in flight",
                                 pleach::quoted(options_.name), count, what));
    }
  }
  // Of two ranks that only sent, and ran something else, the later one to come here hears of it.
  PLEACH_TRY(progress().look(self_.channel));
  // At the store: nothing travels on the channels any more. Who only sends hears of nobody.
  const Result<Result<std::string>> agreed = settle(
      group(), key("close"),
      fmt::format("{} {:x}", progress().begun(self_.channel), progress().history(self_.channel)),
      [&](const std::vector<std::string>& all) { return compare_operations(group(), all); });
  if (!agreed) {
    return poison(agreed.error(), "close", job_rank());
  }
  if (!*agreed) {
    PLEACH_TRY(progress().look(self_.channel));  // by now it may say which operation it is
    const std::string& differs = agreed->error().message;
    return end_epoch(failure_of(
        {agreed->error().code,
         fmt::format("close of communicator {}: {}", pleach::quoted(options_.name), differs)},
        job_rank()));
  }
  close_channels("its communicator was closed");
  endpoint_->openings().note_closed();
  const std::scoped_lock lock(mutex_);
  guarded_.poison =
      invalid(fmt::format("communicator {} is closed", pleach::quoted(options_.name)));
  is_well_ = false;
  return ok();
}

void ChannelCommunicator::abort(std::string_view reason) {
  if (check_alive()) {
    store().fail(epoch(),
                 {job_rank(), fmt::format("rank {} aborted communicator {}: {}", job_rank().value,
                                          pleach::quoted(options_.name), reason)});
  }
}

Result<std::vector<std::shared_ptr<const PreparedSchedule>>> ChannelCommunicator::prepare_all(
    const Pack& pack, const Unpack& unpack) {
  PLEACH_TRY(check_alive());
  const std::string name = next_key("prepare");
  const Result<Result<std::string>> bytes = broadcast(group(), name + "/schedule", pack);
  if (!bytes) {
    return poison(bytes.error(), "prepare", job_rank());
  }
  std::vector<std::shared_ptr<const PreparedSchedule>> all;
  const auto prove = [&]() -> Result<std::string> {
    if (!*bytes) {
      return bytes->error();
    }
    PLEACH_ASSIGN(schedules, unpack(**bytes));
    Fingerprint hash;
    for (const auto& schedule : schedules) {
      PLEACH_ASSIGN(prepared, PreparedSchedule::prove(*schedule, self_));
      hash.add(prepared->hash());
      all.push_back(std::move(prepared));
    }
    return fmt::format("{:016x}", hash.value());
  };
  Result<Status> agreed =
      agree(group(), name + "/verdict", prove(), "rank {0} holds {1}, rank {3} holds {2}");
  if (!agreed) {
    return poison(agreed.error(), "prepare", job_rank());
  }
  PLEACH_TRY(std::move(*agreed));
  for (const auto& prepared : all) {
    progress().name_schedule(prepared->hash(), prepared->schedule().provenance.algorithm);
  }
  return all;
}

Result<ChannelCommunicator::Planned> ChannelCommunicator::plan(const PreparedSchedule& schedule,
                                                               const RunRequest& request) {
  PLEACH_TRY(check_alive());
  const bool is_own = schedule.preparer().channel == self_.channel;
  Result<Planned> planned =
      is_own ? schedule.plan(request)
             : Result<Planned>(invalid("the schedule was prepared by another communicator"));
  if (!planned) {
    const uint64_t next = progress().begun(self_.channel) + 1;
    return poison(planned.error(), operation_text(next, to_text(schedule.schedule().collective)),
                  job_rank());
  }
  (*planned)->spec.deadline = request.deadline.value_or(endpoint_->deadline());
  return planned;
}

Status ChannelCommunicator::run(const PreparedSchedule& schedule, const RunRequest& request) {
  PLEACH_ASSIGN(planned, plan(schedule, request));
  return progress().run(self_.channel, planned);
}

Result<Operation> ChannelCommunicator::start(const PreparedSchedule& schedule,
                                             const RunRequest& request) {
  PLEACH_ASSIGN(planned, plan(schedule, request));
  return start(planned);
}

Result<Operation> ChannelCommunicator::start(const Planned& planned) {
  PLEACH_TRY(progress().start(self_.channel, planned));
  return Operation(planned, std::shared_ptr<Progress>(wiring_, &progress()));
}

// The ranks of a colour in their new order, from the colour and key of every rank in turn.
Result<std::vector<int32_t>> ranks_of_color(std::string_view table, int32_t color) {
  const std::vector<std::string_view> words = split(table, ' ');
  std::vector<std::pair<int64_t, int32_t>> members;  // by key and rank
  for (std::size_t word = 0; word + 1 < words.size(); word += 2) {
    PLEACH_ASSIGN(theirs, parse_integer(words[word], "color of a rank", INT32_MIN, INT32_MAX));
    PLEACH_ASSIGN(key, parse_integer(words[word + 1], "key of a rank", INT32_MIN, INT32_MAX));
    if (theirs == color) {
      members.emplace_back(key, static_cast<int32_t>(word / 2));
    }
  }
  std::ranges::sort(members);
  std::vector<int32_t> ranks;
  ranks.reserve(members.size());
  for (const auto& [key, rank] : members) {
    ranks.push_back(rank);
  }
  return ranks;
}

Result<std::unique_ptr<Communicator>> ChannelCommunicator::split(int32_t color, int32_t key) {
  PLEACH_TRY(check_alive());
  const std::string name = next_key("split");
  const Result<Result<std::string>> table = settle(
      group(), name, fmt::format("{} {}", color, key),
      [](const std::vector<std::string>& all) { return Result<std::string>(join(all, " ")); });
  if (!table) {
    return poison(table.error(), "split", job_rank());
  }
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  if (!*table) {
    return table->error();
  }
  PLEACH_ASSIGN(ranks, ranks_of_color(**table, color));
  CommunicatorOptions options = options_;
  options.name = fmt::format("{}.{}", name, color);  // not beneath what settle() removes
  options.ranks.clear();
  for (const int32_t rank : ranks) {
    options.ranks.push_back(self_.job_ranks[at(rank)]);
  }
  return Communicator::create(endpoint_, std::move(options));
}

Result<std::unique_ptr<Communicator>> ChannelCommunicator::shrink() {
  const Status alive = check_alive();
  if (alive) {
    return invalid(
        fmt::format("communicator {}: nothing has failed, there is nobody to go on without",
                    pleach::quoted(options_.name)));
  }
  if (!wiring_->process.is_here() || !epoch().failure()) {
    return alive.error();
  }
  if (options_.fails_alone && !wiring_->epoch->failure()) {
    return Error{ErrorCode::kUnsupported,
                 fmt::format("communicator {} fails alone: it cannot be shrunk",
                             pleach::quoted(options_.name))};
  }
  PLEACH_TRY(endpoint_->renew());
  const std::vector<Rank>& left = endpoint_->wiring()->epoch->members();
  CommunicatorOptions options = options_;
  std::erase_if(options.ranks, [&](Rank rank) { return !std::ranges::binary_search(left, rank); });
  return Communicator::create(endpoint_, std::move(options));
}

// This rank in the group, which is named whole.
Result<Rank> find_rank(const CommunicatorOptions& options, const Endpoint& endpoint) {
  std::vector<bool> is_member(at(endpoint.rank_count()));
  Rank own;
  for (std::size_t rank = 0; rank < options.ranks.size(); ++rank) {
    const Rank member = options.ranks[rank];
    if (member.value < 0 || member.value >= endpoint.rank_count()) {
      return invalid(fmt::format("communicator {}: rank {} is none of the job's {}",
                                 pleach::quoted(options.name), member.value,
                                 endpoint.rank_count()));
    }
    if (is_member[member.index()]) {
      return invalid(fmt::format("communicator {} has rank {} twice", pleach::quoted(options.name),
                                 member.value));
    }
    is_member[member.index()] = true;
    own = member == endpoint.rank() ? Rank{static_cast<int32_t>(rank)} : own;
  }
  if (own.value < 0) {
    return invalid(fmt::format("rank {} is no member of communicator {}", endpoint.rank().value,
                               pleach::quoted(options.name)));
  }
  return own;
}

Status check_places(int32_t places, int64_t place_bytes) {
  const bool fits =
      places >= 1 && places <= kMostPlaces && place_bytes >= 1 && place_bytes <= kMostPlaceBytes;
  return fits ? ok()
              : invalid(fmt::format("{} landing places of {} bytes are not [1, {}] of [1, {}]",
                                    places, place_bytes, kMostPlaces, kMostPlaceBytes));
}

}  // namespace

Status check_wire(CollectiveKind collective, ElementType type, ElementType wire) {
  const bool is_wide = wire == ElementType::kFloat32 && is_half(type);
  if (wire == type || (is_wide && reduces(collective))) {
    return ok();
  }
  return invalid(
      fmt::format("{} of {} cannot travel as {}: only float16 and bfloat16 that are "
                  "reduced can, as float32",
                  to_text(collective), to_text(type), to_text(wire)));
}

Result<std::shared_ptr<const PreparedSchedule>> Communicator::prepare(const Schedule* schedule) {
  PLEACH_ASSIGN(format, schedule_formats().find(kFormatOnTheWay));
  const auto pack = [&]() -> Result<std::string> {
    return schedule != nullptr ? format->write(*schedule)
                               : invalid("rank 0 has no schedule to prepare");
  };
  const auto unpack =
      [&](const std::string& bytes) -> Result<std::vector<std::shared_ptr<const Schedule>>> {
    PLEACH_ASSIGN(sent, format->read(bytes, "schedule of rank 0"));
    return std::vector{
        std::shared_ptr<const Schedule>(std::make_shared<const Schedule>(std::move(sent)))};
  };
  PLEACH_ASSIGN(prepared, prepare_all(pack, unpack));
  return std::move(prepared.front());
}

Result<std::unique_ptr<Communicator>> Communicator::create(std::shared_ptr<Endpoint> endpoint,
                                                           CommunicatorOptions options) {
  PLEACH_TRY(check_places(options.landing_places, options.place_bytes));
  PLEACH_TRY(check_places(options.message_places, options.message_place_bytes));
  std::shared_ptr<Wiring> wiring = endpoint->wiring();
  if (!wiring->process.is_here()) {
    return invalid(fmt::format("rank {}: the endpoint is of another process, which forked this one",
                               endpoint->rank().value));
  }
  PLEACH_TRY(wiring->epoch->check());
  if (options.ranks.empty()) {
    options.ranks = wiring->epoch->members();
  }
  if (options.ranks.empty()) {
    for (int32_t rank = 0; rank < endpoint->rank_count(); ++rank) {
      options.ranks.push_back(Rank{rank});
    }
  }
  PLEACH_ASSIGN(rank, find_rank(options, *endpoint));
  auto communicator = std::make_unique<ChannelCommunicator>(std::move(endpoint), std::move(wiring),
                                                            std::move(options), rank);
  PLEACH_TRY(communicator->open());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace pleach
