#include "pleach/runtime/rendezvous/store_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/runtime/read_block.h"
#include "pleach/runtime/rendezvous/door.h"
#include "pleach/runtime/rendezvous/heartbeat.h"
#include "pleach/runtime/rendezvous/job_clock.h"
#include "pleach/runtime/rendezvous/membership.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/rendezvous/store_content.h"
#include "pleach/runtime/rendezvous/store_protocol.h"

namespace pleach {
namespace {

// Reads of one rank before the others have their turn.
constexpr int kMostReads = 16;
// A rank that does not take so much of what it has asked for is not heard until it does.
constexpr std::size_t kMostUnsent = std::size_t{32} << 20;
// Of what it has taken, so much or half is kept at most: who takes it slowly never takes all.
constexpr std::size_t kMostSent = std::size_t{1} << 20;
// A rank that has more unsent bytes is lost: what it has not asked for goes beyond kMostUnsent.
constexpr std::size_t kMostUntaken = std::size_t{64} << 20;
// Keys and epochs that a rank may wait for at once: each is a thread of it.
constexpr int32_t kMostWaits = 256;
// A message of those who are no ranks, which tells a failure.
constexpr std::size_t kMostVisitorBytes = kMaxStoreFailureBytes + 64;
// The rank of who may not stay, and has been told so: nothing that it says counts.
constexpr int32_t kTurnedAway = kNoRank - 1;
// Those who are no ranks: how many stay, and how long.
constexpr std::ptrdiff_t kMostVisitors = 64;
constexpr Duration kVisitTime = std::chrono::seconds(10);
// How long a server that stops after a failure serves those who have not heard of it.
constexpr Duration kTimeToHear = std::chrono::seconds(1);

// Why a rank was lost.
constexpr const char* kClosed = "its connection to the store closed";
constexpr const char* kBroken = "it broke the store's protocol";
constexpr const char* kOverflows = "it does not take what the store tells it";
constexpr const char* kFull = "this rank keeps too much there";
constexpr const char* kWaitsForMuch = "this rank waits for too many keys at once";

// The connection of a rank.
struct Client {
  Wire wire;
  int32_t rank = 0;
  StoreMessageReader reader = {};
  struct Out {
    std::string bytes = {};
    std::size_t sent = 0;
    bool is_overflowing = false;  // too much is unsent: the rank will be dropped
  };
  Out out = {};
  uint32_t watched = EPOLLIN;
  int32_t waits = 0;  // requests that are not answered
  TimePoint expiry = TimePoint::max();
  Duration silent = Duration::zero();
  bool said_goodbye = false;
  bool knows_failure = false;

  bool is_visitor() const { return rank < 0; }
  bool is_clogged() const { return out.is_overflowing || out.bytes.size() > kMostUnsent; }
};

// A get whose key does not exist yet, or who waits for the next epoch.
struct Waiter {
  int client = -1;  // descriptor
  uint64_t id = 0;
  std::string key;
  TimePoint deadline;
  bool wants_epoch = false;
};

}  // namespace

Duration ping_interval(Duration deadline) {
  return std::clamp<Duration>(deadline / 20, std::chrono::milliseconds(10),
                              std::chrono::seconds(1));
}

Duration clock_reach(Duration deadline) {
  return 3 * ping_interval(deadline);
}

Duration silence_limit(Duration deadline) {
  return deadline / 2;
}

class StoreServer::Loop {
 public:
  explicit Loop(StoreServerOptions options)
      : options_(std::move(options)), heartbeat_(ping_interval(options_.deadline)) {}

  Status open(Descriptor listener) {
    if (options_.failure) {
      fail(0, *options_.failure);
    }
    PLEACH_SET(doors_.epoll, make_epoll());
    PLEACH_TRY(watch_input(doors_.stop.get()));
    PLEACH_TRY(watch_input(doors_.stop_now.get()));
    PLEACH_TRY(doors_.door.open(
        {.listener = std::move(listener),
         .epoll = doors_.epoll.get(),
         .secret = options_.secret,
         .purpose = Purpose::kStore,
         .rank = Rank{0},
         .rank_count = options_.rank_count,
         .clock = &doors_.clock},
        [this](Guest guest) { enter(std::move(guest)); },
        [this](const Claim& claim, Examination::State why) { note_refusal(claim, why); }));
    thread_ = std::thread([this] {
      run();
      signal_event(doors_.ended.get());
    });
    return ok();
  }
  // How long it goes on after it was asked to stop.
  Duration patience() const {
    const Duration asked = std::min<Duration>(stop_.patience.load(), options_.deadline);
    return membership_.failure() ? std::min<Duration>(asked, kTimeToHear) : asked;
  }
  void stop(Duration patience, const std::optional<Failure>& failure = {}) {
    if (failure) {
      stop_.failure.set(*failure);
    }
    stop_.patience = patience;  // seen by who reads the event
    signal_event(doors_.stop.get());
    if (!thread_.joinable()) {
      return;
    }
    while (Interruption::present() != nullptr &&
           !wait_ready(doors_.ended.get(), POLLIN, SteadyClock().now() + kInterruptionInterval)) {
      if (is_interrupted()) {
        signal_event(doors_.stop_now.get());
        break;
      }
    }
    thread_.join();
  }
  std::optional<Failure> first_failure() const { return doors_.first_failure.get(); }

 private:
  Status watch_input(int descriptor) {
    return watch(doors_.epoll.get(), descriptor, EPOLLIN, static_cast<uint64_t>(descriptor));
  }
  void run();
  bool is_finished(TimePoint now) const;
  TimePoint next_deadline() const;
  void tick(TimePoint now);
  void enter(Guest guest);
  void show_out_visitors(TimePoint now);
  StoreMessage welcome(const Claim& claim) const;
  void note_refusal(const Claim& claim, Examination::State why);
  void serve(int descriptor, uint32_t events);
  Status receive(Client& client);
  Status obey_all(Client& client);
  Status obey(Client& client, StoreMessage message);
  Status obey_failure(Client& client, const StoreMessage& message);
  Status obey_goodbye(Client& client, const StoreMessage& message);
  void refuse(Client& client, const StoreMessage& request, const char* why);
  void answer_set(Client& client, StoreMessage message);
  void answer_get(Client& client, StoreMessage message);
  template <typename Concerns>
  void wake_waiters(const Concerns& concerns);
  TimePoint deadline_after(int64_t nanoseconds) const;
  void answer_recover(Client& client, const StoreMessage& message);
  void go_on();
  void give_up();
  void send(Client& client, const StoreMessage& message);
  bool flush(Client& client);
  void drop(int descriptor, const std::string& why);
  void drop_overflowing();
  void fail(int64_t epoch, const Failure& failure);
  void lose(Rank rank, const std::string& why);
  Status fail_scope(Rank teller, const StoreMessage& message, const Failure& failure);
  void tell_left(Rank rank, const std::string& departure);

  struct Doors {
    JobClock clock = {};
    Descriptor epoll = {};
    Door door = {};
    Descriptor stop = make_event();
    Descriptor stop_now = make_event();  // whatever others have heard
    Descriptor ended = make_event();     // the thread has nothing left to do
    SharedFailure first_failure = {};    // of the job, for other threads
  };
  bool is_here(int64_t rank) const {
    return std::ranges::any_of(clients_,
                               [&](const auto& entry) { return entry.second.rank == rank; });
  }

  Doors doors_;
  StoreServerOptions options_;
  Heartbeat heartbeat_;
  std::thread thread_;
  std::map<int, Client> clients_;  // by descriptor
  StoreContent content_;
  std::list<Waiter> waiters_;
  Membership membership_;
  struct Stop {
    std::optional<TimePoint> at = {};  // when it was asked to
    // Set by the thread that asks.
    std::atomic<Duration> patience = Duration::max();
    SharedFailure failure = {};  // of the job, which is the reason
  };
  Stop stop_;
  int32_t entered_ = 0;
};

void StoreServer::Loop::run() {
  JobClock& clock = doors_.clock;
  const Duration reach = clock_reach(options_.deadline);
  clock.beat(reach);
  std::array<epoll_event, 64> ready = {};
  heartbeat_.start(clock.now());
  while (!is_finished(clock.now())) {
    const int wait_ms = milliseconds_until(next_deadline(), clock.now());
    const int count =
        epoll_wait(doors_.epoll.get(), ready.data(), static_cast<int>(ready.size()), wait_ms);
    clock.beat(reach);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = ready[at(i)];
      const int descriptor = static_cast<int>(event.data.u64);
      if (event.data.u64 >= Door::kFirstTag) {
        doors_.door.handle(event.data.u64);
      } else if (descriptor == doors_.stop_now.get()) {
        stop_.at = clock.now() - options_.deadline;
        unwatch(doors_.epoll.get(), descriptor);
      } else if (descriptor != doors_.stop.get()) {
        serve(descriptor, event.events);
      } else {
        unwatch(doors_.epoll.get(), doors_.stop.get());
        stop_.at = stop_.at.value_or(clock.now());
        if (const std::optional<Failure> failure = stop_.failure.get()) {
          fail(membership_.epoch(), *failure);
        }
      }
    }
    tick(clock.now());
  }
  if (entered_ < options_.rank_count && options_.on_complete) {
    options_.on_complete();
  }
  if (!membership_.failure() && patience() < options_.deadline) {
    for (auto& [descriptor, client] : clients_) {
      send(client, {.verb = StoreVerb::kGoodbye});
    }
  }
}

bool StoreServer::Loop::is_finished(TimePoint now) const {
  if (!stop_.at) {
    return false;
  }
  if (options_.failure) {
    return true;
  }
  const std::optional<Failure>& failure = membership_.failure();
  const bool all_gone = std::all_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
    const Client& client = entry.second;
    const bool is_served = client.knows_failure || !membership_.has(Rank{client.rank}) ||
                           (failure && failure->rank.value == client.rank);
    return is_served && client.out.bytes.empty();
  });
  // Who is on its way still shall hear of a failure.
  const bool all_came = !failure || entered_ >= options_.rank_count;
  return (all_gone && all_came) || now >= *stop_.at + patience();
}

TimePoint StoreServer::Loop::next_deadline() const {
  TimePoint next = std::min(heartbeat_.next(), doors_.door.expiry());
  if (stop_.at) {
    next = std::min(next, *stop_.at + patience());
  }
  for (const Waiter& waiter : waiters_) {
    next = std::min(next, waiter.deadline);
  }
  return next;
}

void StoreServer::Loop::tick(TimePoint now) {
  const Heartbeat::Beat beat = heartbeat_.tick(now);
  doors_.door.tick(now);
  show_out_visitors(now);
  if (const Status status = doors_.door.status(now); !status) {
    fail(membership_.epoch(), {Rank{0}, failure_text(Rank{0}, "store", status.error().message)});
  }
  for (auto& [descriptor, client] : clients_) {
    client.silent += beat.passed;
    const bool is_silent = client.silent > silence_limit(options_.deadline);
    if (is_silent && membership_.has(Rank{client.rank})) {
      const std::string why = fmt::format("silent for {:.2g} s", seconds_of(client.silent));
      lose(Rank{client.rank}, why);
      send(client, {.verb = StoreVerb::kOut,
                    .number = client.rank,
                    .value = fmt::format("rank {} is out of the job: the others took it for lost, "
                                         "{}",
                                         client.rank, why)});
    }
    if (beat.must_ping && !is_silent) {
      send(client, {.verb = StoreVerb::kPing});
    }
  }
  if (std::ranges::any_of(waiters_, [&](const Waiter& waiter) {
        return waiter.wants_epoch && waiter.deadline <= now;
      })) {
    give_up();
  }
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (waiter->deadline <= now) {
      Client& client = clients_.at(waiter->client);
      --client.waits;
      send(client, {.verb = StoreVerb::kTimedOut, .id = waiter->id});
      waiter = waiters_.erase(waiter);
    } else {
      ++waiter;
    }
  }
  drop_overflowing();
}

// Its first message says whether it may stay.
void StoreServer::Loop::enter(Guest guest) {
  const int descriptor = guest.wire.socket();
  const StoreMessage answer = welcome(guest.claim);
  const bool may_stay = answer.verb == StoreVerb::kWelcome;
  if (!watch_input(descriptor)) {
    return;
  }
  Client newcomer{.wire = std::move(guest.wire), .rank = may_stay ? guest.claim.rank : kTurnedAway};
  Client& client = clients_.emplace(descriptor, std::move(newcomer)).first->second;
  send(client, answer);
  if (client.is_visitor()) {
    client.said_goodbye = true;
    client.expiry = doors_.clock.now() + kVisitTime;
    client.reader = StoreMessageReader(kMostVisitorBytes);
    return show_out_visitors(doors_.clock.now());
  }
  content_.erase(refusal_key(Rank{client.rank}));
  membership_.join(Rank{client.rank});
  if (const std::optional<Failure>& failure = membership_.failure()) {
    send(client, write_failure(StoreVerb::kFailure, membership_.epoch(), *failure));
  }
  if (++entered_ == options_.rank_count && options_.on_complete) {
    options_.on_complete();
  }
}

// Those who have stayed too long; where there are too many, who came first.
void StoreServer::Loop::show_out_visitors(TimePoint now) {
  const auto first = [this] {
    return std::ranges::min_element(clients_, {},
                                    [](const auto& entry) { return entry.second.expiry; });
  };
  std::ptrdiff_t count =
      std::ranges::count_if(clients_, [](const auto& entry) { return entry.second.is_visitor(); });
  for (; count > 0 && (count > kMostVisitors || first()->second.expiry <= now); --count) {
    drop(first()->first, kClosed);
  }
}

StoreMessage StoreServer::Loop::welcome(const Claim& claim) const {
  if (claim.meeting != store_meeting(options_.secret, options_.job)) {
    return {.verb = StoreVerb::kOtherJob};
  }
  StoreMessage answer{.verb = StoreVerb::kRejected};
  const bool is_no_rank = claim.rank == kNoRank;
  if (claim.rank_count != options_.rank_count) {
    answer.value = fmt::format("it serves {} ranks, rank {} counts {}", options_.rank_count,
                               claim.rank, claim.rank_count);
  } else if (!is_no_rank && (claim.rank < 0 || claim.rank >= options_.rank_count)) {
    answer.value = fmt::format("rank {} is not one of {}", claim.rank, options_.rank_count);
  } else if (is_no_rank && options_.secret.is_none()) {
    answer.value = "who is no rank is heard in a job with a secret alone (PLEACH_SECRET)";
  } else if (!is_no_rank && is_here(claim.rank)) {
    answer.value = fmt::format("rank {} is there already", claim.rank);
  } else if (!is_no_rank && (membership_.epoch() > 0 || !membership_.may_join(Rank{claim.rank}))) {
    answer.value = fmt::format("rank {} was lost, and comes back too late", claim.rank);
  } else {
    answer.verb = StoreVerb::kWelcome;
  }
  return answer;
}

// Whoever it was: if that rank does not come, this may be why. Who holds the secret is that rank.
void StoreServer::Loop::note_refusal(const Claim& claim, Examination::State why) {
  if (why == Examination::State::kDiffers) {
    if (claim.meeting == store_meeting(options_.secret, options_.job) && claim.rank >= 0 &&
        claim.rank < options_.rank_count) {
      fail(membership_.epoch(),
           {Rank{claim.rank}, fmt::format("rank {} {}, and rank 0 {} (PLEACH_TLS)", claim.rank,
                                          claim.encrypts ? "encrypts" : "does not encrypt",
                                          claim.encrypts ? "does not" : "does")});
    }
    return;
  }
  if (claim.rank >= 0 && claim.rank < options_.rank_count && !is_here(claim.rank)) {
    content_.set(refusal_key(Rank{claim.rank}),
                 fmt::format("who claims to be rank {} does not hold this job's secret "
                             "(PLEACH_SECRET)",
                             claim.rank));
  }
}

void StoreServer::Loop::serve(int descriptor, uint32_t events) {
  const auto found = clients_.find(descriptor);
  if (found == clients_.end()) {
    return;  // dropped by an earlier event of the same batch
  }
  Client& client = found->second;
  const bool was_clogged = client.is_clogged();
  if ((events & EPOLLOUT) != 0 && !flush(client)) {
    return drop(descriptor, kClosed);
  }
  if (was_clogged && !client.is_clogged()) {
    wake_waiters([&](const Waiter& waiter) { return waiter.client == descriptor; });
    if (const Status status = obey_all(client); !status) {
      return drop(descriptor, status.error().message);
    }
  }
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 || client.wire.has_unread()) {
    const bool must_flush = client.wire.waits_to_read();
    if (const Status status = receive(client); !status) {
      return drop(descriptor, status.error().message);
    }
    if (must_flush && !flush(client)) {
      drop(descriptor, kClosed);
    }
  }
}

// Reads and obeys what is there. Errors: the connection is over: why.
Status StoreServer::Loop::receive(Client& client) {
  const ReadBlock block;
  for (int reads = 0; (reads < kMostReads || client.wire.has_unread()) && !client.is_clogged();
       ++reads) {
    const ssize_t count = client.wire.read(block.bytes());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0 && errno == EAGAIN) {
      break;
    }
    if (count <= 0) {
      return Error{ErrorCode::kIo, kClosed};
    }
    client.silent = Duration::zero();
    client.reader.append({block.bytes().data(), at(count)});
    PLEACH_TRY(obey_all(client));
  }
  return ok();
}

// Obeys what has come, as long as it takes what it asks for. Errors: it may not say that.
Status StoreServer::Loop::obey_all(Client& client) {
  while (!client.is_clogged()) {
    Result<std::optional<StoreMessage>> message = client.reader.next();
    if (!message) {
      return prefixed(kBroken, message.error());
    }
    if (!*message) {
      break;
    }
    if (const Status status = obey(client, *std::move(message).value()); !status) {
      return prefixed(kBroken, status.error());
    }
  }
  return ok();
}

Status StoreServer::Loop::obey(Client& client, StoreMessage message) {
  const bool may_speak = message.verb == StoreVerb::kPong || message.verb == StoreVerb::kGoodbye ||
                         message.verb == StoreVerb::kAcknowledge;
  const bool is_herald = client.rank == kNoRank && message.verb == StoreVerb::kFail;
  if (!membership_.has(Rank{client.rank}) && !may_speak && !is_herald) {
    return ok();  // it is out, and has been told or will be
  }
  switch (message.verb) {
    case StoreVerb::kSet:
      answer_set(client, std::move(message));
      return ok();
    case StoreVerb::kGet:
      answer_get(client, std::move(message));
      return ok();
    case StoreVerb::kIncrement:
      if (const auto now = content_.increment(message.key, Rank{client.rank})) {
        send(client, {.verb = StoreVerb::kDone, .id = message.id, .number = *now});
      } else {
        refuse(client, message, kFull);
      }
      return ok();
    case StoreVerb::kErase:
      content_.erase(message.key);
      send(client, {.verb = StoreVerb::kDone, .id = message.id});
      return ok();
    case StoreVerb::kRecover:
      answer_recover(client, message);
      return ok();
    case StoreVerb::kFail:
      return obey_failure(client, message);
    case StoreVerb::kGoodbye:
      return obey_goodbye(client, message);
    case StoreVerb::kAcknowledge:
      client.knows_failure = true;
      return ok();
    case StoreVerb::kPong:
      return ok();
    default:
      return Error{ErrorCode::kIo,
                   fmt::format("a message with verb {}", static_cast<int>(message.verb))};
  }
}

Status StoreServer::Loop::obey_failure(Client& client, const StoreMessage& message) {
  PLEACH_ASSIGN(failure, read_failure(message, options_.rank_count));
  // It comes from a rank, and goes to terminals.
  failure.message = one_line(std::string_view(failure.message).substr(0, kMaxStoreFailureBytes));
  if (scope_of_failure(message).empty()) {
    fail(static_cast<int64_t>(message.id), failure);
    return ok();
  }
  return fail_scope(Rank{client.rank}, message, failure);
}

Status StoreServer::Loop::obey_goodbye(Client& client, const StoreMessage& message) {
  PLEACH_TRY(read_departure(Rank{client.rank}, message.value));
  client.said_goodbye = true;
  tell_left(Rank{client.rank}, message.value);
  send(client, {.verb = StoreVerb::kGoodbye});
  membership_.leave(Rank{client.rank});
  go_on();
  return ok();
}

void StoreServer::Loop::refuse(Client& client, const StoreMessage& request, const char* why) {
  send(client, {.verb = StoreVerb::kRefused,
                .id = request.id,
                .value = fmt::format("store, {}: {}", pleach::quoted(request.key), why)});
}

void StoreServer::Loop::answer_set(Client& client, StoreMessage message) {
  if (!content_.set(message.key, std::move(message.value), Rank{client.rank})) {
    return refuse(client, message, kFull);
  }
  send(client, {.verb = StoreVerb::kDone, .id = message.id});
  wake_waiters([&](const Waiter& waiter) { return waiter.key == message.key; });
}

// A year: no clock overflows, nobody waits longer.
TimePoint StoreServer::Loop::deadline_after(int64_t nanoseconds) const {
  constexpr int64_t kLongest = int64_t{366} * 24 * 3600 * 1'000'000'000;
  return doors_.clock.now() + Duration(std::clamp<int64_t>(nanoseconds, 0, kLongest));
}

void StoreServer::Loop::answer_get(Client& client, StoreMessage message) {
  if (const std::string* found = content_.find(message.key)) {
    send(client, {.verb = StoreVerb::kDone, .id = message.id, .value = *found});
  } else if (message.number <= 0) {
    send(client, {.verb = StoreVerb::kTimedOut, .id = message.id});
  } else if (client.waits == kMostWaits) {
    refuse(client, message, kWaitsForMuch);
  } else {
    ++client.waits;
    waiters_.push_back(
        {client.wire.socket(), message.id, std::move(message.key), deadline_after(message.number)});
  }
}

// Answers those who wait for a key, or of a rank, if what they wait for is there. A rank that does
// not take its answers gets the next when it does.
template <typename Concerns>
void StoreServer::Loop::wake_waiters(const Concerns& concerns) {
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    Client& client = clients_.at(waiter->client);
    const std::string* const value =
        !waiter->wants_epoch && concerns(*waiter) && !client.is_clogged()
            ? content_.find(waiter->key)
            : nullptr;
    if (value == nullptr) {
      ++waiter;
      continue;
    }
    --client.waits;
    send(client, {.verb = StoreVerb::kDone, .id = waiter->id, .value = *value});
    waiter = waiters_.erase(waiter);
  }
}

void StoreServer::Loop::answer_recover(Client& client, const StoreMessage& message) {
  const Result<int64_t> epoch = parse_integer(message.value, "epoch", 0, INT64_MAX);
  if (!epoch || !membership_.ask(Rank{client.rank}, *epoch)) {
    send(client, {.verb = StoreVerb::kRefused,
                  .id = message.id,
                  .value = fmt::format("epoch {} has not failed", pleach::quoted(message.value))});
    return;
  }
  if (client.waits == kMostWaits) {
    return refuse(client, message, kWaitsForMuch);
  }
  ++client.waits;
  waiters_.push_back({.client = client.wire.socket(),
                      .id = message.id,
                      .key = {},
                      .deadline = deadline_after(message.number),
                      .wants_epoch = true});
  go_on();
}

// Begins the next epoch, if all want it.
void StoreServer::Loop::go_on() {
  if (!membership_.advance()) {
    return;
  }
  const std::string members = write_ranks(membership_.members());
  for (auto& [descriptor, client] : clients_) {
    if (membership_.has(Rank{client.rank})) {
      client.knows_failure = false;
      send(client, {.verb = StoreVerb::kEpoch, .number = membership_.epoch(), .value = members});
    }
  }
  std::erase_if(waiters_, [this](const Waiter& waiter) {
    if (waiter.wants_epoch) {
      Client& client = clients_.at(waiter.client);
      --client.waits;
      send(client, {.verb = StoreVerb::kDone, .id = waiter.id});
    }
    return waiter.wants_epoch;
  });
}

// Tells those who want the next epoch who does not.
void StoreServer::Loop::give_up() {
  const std::string why = did_not_come(membership_.missing());
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (waiter.wants_epoch) {
      Client& client = clients_.at(waiter.client);
      --client.waits;
      send(client, {.verb = StoreVerb::kTimedOut, .id = waiter.id, .value = why});
    }
    return waiter.wants_epoch;
  });
  membership_.give_up();
}

void StoreServer::Loop::send(Client& client, const StoreMessage& message) {
  if (client.out.is_overflowing) {
    return;
  }
  client.out.bytes += write_store_message(message);
  // A broken connection is found, and its rank reported, when it is read.
  static_cast<void>(flush(client));
  if (client.out.bytes.size() - client.out.sent > kMostUntaken) {
    client.out = {.is_overflowing = true};
  }
}

// False: the connection is over.
bool StoreServer::Loop::flush(Client& client) {
  while (client.out.sent < client.out.bytes.size()) {
    const ssize_t count =
        client.wire.write(std::string_view(client.out.bytes).substr(client.out.sent));
    client.out.sent += at(std::max<ssize_t>(count, 0));
    if (count < 0 && errno != EINTR) {
      break;
    }
  }
  const bool is_done = client.out.sent == client.out.bytes.size() && client.wire.flush();
  const bool is_blocked = !is_done && errno == EAGAIN;
  if (!is_blocked) {
    client.out.bytes.clear();
    client.out.sent = 0;
  } else if (client.out.sent > std::max(kMostSent, client.out.bytes.size() / 2)) {
    client.out.bytes.erase(0, std::exchange(client.out.sent, 0));
  }
  if (!is_done && !is_blocked) {
    return false;
  }
  const bool wants_out = is_blocked && !client.wire.waits_to_read();
  const uint32_t events = (client.is_clogged() ? 0U : EPOLLIN) | (wants_out ? EPOLLOUT : 0U);
  if (std::exchange(client.watched, events) == events) {
    return true;
  }
  return watch(doors_.epoll.get(), client.wire.socket(), events,
               static_cast<uint64_t>(client.wire.socket()))
      .has_value();
}

void StoreServer::Loop::drop(int descriptor, const std::string& why) {
  const auto found = clients_.find(descriptor);
  const Client client = std::move(found->second);
  clients_.erase(found);
  waiters_.remove_if([&](const Waiter& waiter) { return waiter.client == descriptor; });
  if (!client.said_goodbye) {
    lose(Rank{client.rank}, why);
  }
}

// Drops one after another: other ranks are told of each, which may make them overflow, too.
void StoreServer::Loop::drop_overflowing() {
  const auto overflows = [](const auto& entry) { return entry.second.out.is_overflowing; };
  for (auto found = std::ranges::find_if(clients_, overflows); found != clients_.end();
       found = std::ranges::find_if(clients_, overflows)) {
    drop(found->first, kOverflows);
  }
}

void StoreServer::Loop::lose(Rank rank, const std::string& why) {
  membership_.lose(rank);
  fail(membership_.epoch(), {rank, fmt::format("rank {} was lost: {}", rank.value, why)});
  go_on();
}

//   failure  its message is one line, and not long
void StoreServer::Loop::fail(int64_t epoch, const Failure& failure) {
  if (!membership_.fail(epoch, failure)) {
    return;
  }
  doors_.first_failure.set(failure);
  for (auto& [descriptor, client] : clients_) {
    if (membership_.has(Rank{client.rank})) {
      send(client, write_failure(StoreVerb::kFailure, epoch, failure));
    }
  }
}

// The first failure of a scope stands, as an epoch's does.
Status StoreServer::Loop::fail_scope(Rank teller, const StoreMessage& message,
                                     const Failure& failure) {
  if (!membership_.has(teller)) {
    return Error{ErrorCode::kIo, "the failure of a scope, from who is no rank"};
  }
  const std::string scope(scope_of_failure(message));
  const StoreMessage told =
      write_failure(StoreVerb::kFailure, static_cast<int64_t>(message.id), failure, scope);
  PLEACH_ASSIGN(is_news, membership_.fail_scope(static_cast<int64_t>(message.id), scope, teller,
                                                scope_failure_bytes(told)));
  for (auto& [descriptor, client] : clients_) {
    if (is_news && membership_.has(Rank{client.rank})) {
      send(client, told);
    }
  }
  return ok();
}

// Before the rank hears its goodbye: its connections close after that.
void StoreServer::Loop::tell_left(Rank rank, const std::string& departure) {
  for (auto& [descriptor, client] : clients_) {
    if (client.rank != rank.value && membership_.has(rank) && membership_.has(Rank{client.rank})) {
      send(client, {.verb = StoreVerb::kLeft, .number = rank.value, .value = departure});
    }
  }
}

StoreServer::StoreServer() = default;

Result<std::unique_ptr<StoreServer>> StoreServer::start(Descriptor listener,
                                                        StoreServerOptions options) {
  std::unique_ptr<StoreServer> server(new StoreServer);
  server->loop_ = std::make_unique<Loop>(std::move(options));
  PLEACH_TRY(server->loop_->open(std::move(listener)));
  return server;
}

StoreServer::~StoreServer() {
  stop(Duration::max());
}

void StoreServer::stop(Duration patience) {
  if (loop_) {
    loop_->stop(patience);
  }
}

std::optional<Failure> StoreServer::first_failure() const {
  return loop_->first_failure();
}

void StoreServer::fail(const Failure& failure) {
  loop_->stop(Duration::max(), failure);
}

}  // namespace pleach
