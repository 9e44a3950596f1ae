#include "pleach/runtime/progress.h"

#include <algorithm>
#include <utility>

#include "pleach/base/check.h"
#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/runtime/rendezvous/store_answers.h"

namespace pleach {
namespace {

// Releases that are held back wait so long, and for so many polls, for a segment to travel with.
constexpr Duration kPatience = std::chrono::milliseconds(1);
constexpr int32_t kMostPatience = 4;

constexpr const char* kForked = "the operation is of another process, which forked this one";

}  // namespace

Status CollectiveState::begin(Traffic& traffic, uint64_t operation, TimePoint now) {
  spec.operation = operation;
  flight.begin(channel, operation, spec.fingerprint, index->sources());
  spec.flight = flight;
  what = spec.what;
  return static_cast<Channel&>(traffic).start(run, spec, now);
}

std::shared_ptr<CollectiveState> OperationPool::take() {
  for (const std::shared_ptr<CollectiveState>& state : states_) {
    if (state.use_count() == 1) {
      return state;
    }
  }
  return states_.emplace_back(std::make_shared<CollectiveState>(index_));
}

bool OperationPool::is_in_use() const {
  return std::ranges::any_of(states_, [](const auto& state) { return state.use_count() > 1; });
}

Progress::Progress(Transport& transport, const Clock& clock, int32_t rank_count, Rank rank)
    : transport_(transport),
      clock_(clock),
      flight_(rank, rank_count),
      peers_{std::vector<const char*>(at(rank_count)), std::vector<bool>(at(rank_count))} {
  transport_.set_sink(*this);
}

Progress::~Progress() {
  PLEACH_CHECK(open_.empty(), "channels are closed before what drives them ends");
  {
    const Lock lock(mutex_);
    background_.is_ending = true;
    background_.wake.notify_all();
    transport_.interrupt();
  }
  if (background_.thread.joinable()) {
    background_.thread.join();
  }
}

Progress::Open* Progress::find(uint64_t channel) {
  for (const auto& open : open_) {
    if (open->number == channel) {
      return open.get();
    }
  }
  return nullptr;
}

std::unique_ptr<Traffic> Progress::make_channel(const ChannelOptions& options, Transport& transport,
                                                std::vector<bool>& sending) {
  return std::make_unique<Channel>(options, transport, sending);
}

void Progress::follow(std::shared_ptr<const Epoch> epoch) {
  const Lock lock(mutex_);
  peers_.epoch = std::move(epoch);
}

Status Progress::open(const ChannelOptions& options, Failed failed, const MakeTraffic& make,
                      std::shared_ptr<const Epoch> scope) {
  const Lock lock(mutex_);
  if (find(options.number) != nullptr) {
    return invalid("a channel of that number is open on this rank");
  }
  PLEACH_TRY(transport_.open(options));
  open_.push_back(std::make_unique<Open>());
  open_.back()->number = options.number;
  open_.back()->traffic = make(options, transport_, peers_.sending);
  open_.back()->failed = std::move(failed);
  open_.back()->scope = std::move(scope);
  for (std::size_t rank = 0; rank < peers_.lost.size(); ++rank) {
    if (peers_.lost[rank] != nullptr) {
      static_cast<void>(open_.back()->traffic->handle({.kind = TransportEvent::Kind::kLost,
                                                       .peer = Rank{static_cast<int32_t>(rank)},
                                                       .reason = peers_.lost[rank]}));
    }
  }
  for (const Departure& left : peers_.departures) {
    if (const auto ended = left.ended.find(options.number); ended != left.ended.end()) {
      static_cast<void>(open_.back()->traffic->handle_departure(left.rank, ended->second));
    }
  }
  return ok();
}

std::map<uint64_t, uint64_t> Progress::ended() const {
  const Lock lock(mutex_);
  std::map<uint64_t, uint64_t> ended;
  for (const auto& open : open_) {
    uint64_t first = open->last_operation + 1;
    for (const std::shared_ptr<OperationState>& state : open->in_flight) {
      first = std::min(first, state->number);
    }
    ended[open->number] = first - 1;
  }
  return ended;
}

void Progress::drain(Duration time) {
  Lock lock(mutex_);
  const TimePoint end = after(clock_.now(), time);
  while (clock_.now() < end && !poller_.is_there) {
    poll(lock, end);
    hand_over();
    call_back(lock);
  }
}

Status Progress::introduce(Rank peer, std::string_view address) {
  const Lock lock(mutex_);
  return transport_.introduce(peer, address);
}

void Progress::close(uint64_t channel, const Error& error) {
  Lock lock(mutex_);
  Open* const open = find(channel);
  PLEACH_CHECK(open != nullptr, "a channel that is open is closed");
  turn_.wait(lock, [&] { return !open->is_failing; });
  open->error = open->error ? open->error : error;
  abandon(*open);
  end_all(*open);
  std::erase_if(open_, [&](const auto& other) { return other.get() == open; });
  call_back(lock);
  turn_.wait(lock, [&] { return !has_callback_elsewhere(channel); });
}

void Progress::fail_all(const Error& error) {
  Lock lock(mutex_);
  const auto is_well = [](const auto& open) { return !open->error; };
  for (auto next = open_.begin(); (next = std::ranges::find_if(open_, is_well)) != open_.end();) {
    fail(lock, (*next)->number, error);
  }
  transport_.interrupt();
  hand_over();
  call_back(lock);
}

// In a child of fork() another thread, which is not there, may hold it for ever.
Progress::Lock Progress::own_lock() const {
  return background_.process.is_here() ? Lock(mutex_) : Lock();
}

FlightLog Progress::flight_log() const {
  const Lock lock(mutex_);
  FlightLog log = flight_.log();
  log.now = clock_.now();
  return log;
}

void Progress::name_channel(uint64_t channel, FlightLog::Channel names) {
  const Lock lock(mutex_);
  flight_.name_channel(channel, std::move(names));
}

void Progress::name_schedule(uint64_t schedule_hash, const std::string& algorithm) {
  const Lock lock(mutex_);
  flight_.name_schedule(schedule_hash, algorithm);
}

bool Progress::is_background_thread() const {
  const Lock lock(mutex_);
  return background_.thread.get_id() == std::this_thread::get_id();
}

uint64_t Progress::begun(uint64_t channel) {
  const Lock lock(mutex_);
  return find(channel)->last_operation;
}

uint64_t Progress::history(uint64_t channel) {
  const Lock lock(mutex_);
  return find(channel)->traffic->history();
}

int64_t Progress::in_flight(uint64_t channel) {
  const Lock lock(mutex_);
  return std::ssize(find(channel)->in_flight);
}

// A poll that costs next to nothing where nothing has come.
Status Progress::look(Lock& lock, uint64_t channel) {
  poller_.is_there = true;
  poller_.events.clear();
  Status status = transport_.wait(TimePoint::min(), false);
  if (status) {
    status = transport_.progress(poller_.events);
  }
  if (!status || !poller_.events.empty()) {
    act(lock, status);
  }
  poller_.is_there = false;
  const Open* const open = find(channel);
  return open != nullptr && open->error ? Status(*open->error) : ok();
}

Status Progress::look(uint64_t channel) {
  Lock lock(mutex_);
  if (!poller_.is_there) {
    poll(lock, TimePoint::min());
    hand_over();
    call_back(lock);
  }
  Open* const open = find(channel);
  turn_.wait(lock, [&] { return !open->is_failing; });
  return open->error ? Status(*open->error) : ok();
}

// Begins it, and leaves nothing undone that another thread, which polls, would have to know of.
Status Progress::begin(Lock& lock, uint64_t channel, const std::shared_ptr<OperationState>& state) {
  Open* const open = find(channel);
  PLEACH_CHECK(open != nullptr, "operations begin on channels that are open");
  turn_.wait(lock, [&] { return !open->is_failing; });
  if (has_news()) {
    Failures failures;
    hear_news(failures);
    for (const auto& [number, error] : failures) {
      fail(lock, number, error);
    }
  }
  if (open->error) {
    return *open->error;
  }
  state->number = ++open->last_operation;
  state->channel = channel;
  state->is_done = false;
  state->result = ok();
  state->received = {};
  state->started = clock_.now();
  state->finished = {};
  flight_.set_now(state->started);
  state->flight = {&flight_, 0};
  open->in_flight.push_back(state);
  ++background_.in_flight;
  if (const Status status = state->begin(*open->traffic, state->number, state->started); !status) {
    fail(lock, channel, status.error());
    return state->result;
  }
  // What had come early ends it at once; and it may end what waited for it, as a message to itself.
  if (open->in_flight.size() > 1 || state->is_over()) {
    settle();
  }
  if (poller_.is_there) {
    if (transport_.has_events() || expiry() < poller_.until) {
      transport_.interrupt();
    }
  } else if (state->is_done && open->traffic->wants_news()) {
    return look(lock, channel);
  }
  return ok();
}

Status Progress::start(uint64_t channel, const std::shared_ptr<OperationState>& state) {
  Lock lock(mutex_);
  Status status = begin(lock, channel, state);
  hand_over();
  call_back(lock);
  return status;
}

Status Progress::run(uint64_t channel, const std::shared_ptr<OperationState>& state) {
  Lock lock(mutex_);
  Status status = begin(lock, channel, state);
  if (!status) {
    hand_over();
    call_back(lock);
    return status;
  }
  return Interruption::present() == nullptr ? wait_locked(lock, *state, TimePoint::max())
                                            : wait_asking(lock, channel, *state);
}

Status Progress::wait_asking(Lock& lock, uint64_t channel, OperationState& state) {
  while (true) {
    const Status status = wait_locked(lock, state, after(clock_.now(), kInterruptionInterval));
    if (state.is_done) {
      return status;
    }
    lock.unlock();
    const bool is_over = is_interrupted();
    lock.lock();
    if (is_over && !state.is_done) {
      fail(lock, channel, interrupted(), &state);
      hand_over();
      call_back(lock);
      throw Interrupted();
    }
  }
}

Status Progress::wait(OperationState& state, Duration timeout) {
  if (!background_.process.is_here()) {
    return invalid(kForked);
  }
  const TimePoint deadline = after(clock_.now(), timeout);
  Lock lock(mutex_);
  return wait_locked(lock, state, deadline);
}

Status Progress::wait_locked(Lock& lock, OperationState& state, TimePoint deadline) {
  const bool is_endless = deadline == TimePoint::max();
  ++poller_.waiting;
  while (!state.is_done && (is_endless || clock_.now() < deadline)) {
    if (!poller_.is_there) {
      poll(lock, deadline);
      continue;
    }
    if (poller_.is_background) {
      transport_.interrupt();
    }
    if (is_endless) {
      turn_.wait(lock);
    } else {
      turn_.wait_for(lock, deadline - clock_.now());  // it may be behind the steady clock
    }
  }
  --poller_.waiting;
  hand_over();
  call_back(lock);
  return state.is_done ? state.result
                       : Status(Error{ErrorCode::kTimeout, "the operation is not done yet"});
}

bool Progress::test(OperationState& state) {
  if (!background_.process.is_here()) {
    return true;  // nothing will come of it here: wait() says so
  }
  Lock lock(mutex_);
  if (!state.is_done && !poller_.is_there) {
    poll(lock, TimePoint::min());
    hand_over();
    call_back(lock);
  }
  return state.is_done;
}

void Progress::on_done(OperationState& state, std::function<void(const Status&)> callback) {
  if (!background_.process.is_here()) {
    return callback(invalid(kForked));
  }
  Lock lock(mutex_);
  if (!state.is_done) {
    state.callback.swap(callback);
    lock.unlock();  // what was there before ends outside: it may hold anything
    return;
  }
  const Status result = state.result;
  lock.unlock();
  callback(result);
}

TimePoint Progress::started(const OperationState& state) const {
  const Lock lock = own_lock();
  return state.started;
}

TimePoint Progress::finished(const OperationState& state) const {
  const Lock lock = own_lock();
  return state.finished;
}

TimePoint Progress::expiry() const {
  TimePoint first = transport_.expiry();
  for (const auto& open : open_) {
    first = std::min(first, open->traffic->expiry());
  }
  return first;
}

Received Progress::received(const OperationState& state) const {
  const Lock lock = own_lock();
  return state.received;
}

// One wait and what follows from it. The lock is open while it waits.
void Progress::poll(Lock& lock, TimePoint deadline) {
  poller_.is_there = true;
  poller_.until = std::min(deadline, expiry());
  Status status = ok();
  if (transport_.holds_back()) {
    if (poller_.patience++ < kMostPatience && deadline > TimePoint::min()) {
      poller_.until = std::min(poller_.until, clock_.now() + kPatience);
    } else {
      status = transport_.flush();
      poller_.patience = 0;
    }
  }
  if (status) {
    const bool is_background = poller_.is_background;
    poller_.until = transport_.has_events() ? TimePoint::min() : poller_.until;
    lock.unlock();
    status = transport_.wait(poller_.until, !is_background);
    lock.lock();
  }
  poller_.events.clear();
  if (status) {
    status = transport_.progress(poller_.events);
  }
  poller_.patience = poller_.events.empty() ? kMostPatience : poller_.patience;
  act(lock, status);
  poller_.is_there = false;
}

std::span<std::byte> Progress::home(Rank peer, uint64_t channel, SegmentTag tag,
                                    uint64_t fingerprint, std::size_t bytes) {
  const Open* const open = find(channel);
  if (open == nullptr || open->error) {
    return {};
  }
  const Homecoming coming{peer, channel, tag};
  if (std::ranges::find(poller_.homecomings, coming) != poller_.homecomings.end()) {
    return {};
  }
  const std::span<std::byte> memory = open->traffic->find_home(peer, tag, fingerprint, bytes);
  if (!memory.empty()) {
    poller_.homecomings.push_back(coming);
  }
  return memory;
}

// Tells a channel what has happened there, or all that a peer is lost.
void Progress::tell(const TransportEvent& event) {
  if (!poller_.homecomings.empty() && event.kind == TransportEvent::Kind::kArrived) {
    std::erase(poller_.homecomings, Homecoming{event.peer, event.channel, event.tag});
  }
  if (event.kind == TransportEvent::Kind::kLost) {
    std::erase_if(poller_.homecomings,
                  [&](const Homecoming& one) { return one.peer == event.peer; });
    peers_.lost[event.peer.index()] = event.reason;
    for (const auto& open : open_) {
      if (!open->error) {
        note(*open, open->traffic->handle(event));
      }
    }
    return;
  }
  if (event.kind == TransportEvent::Kind::kSent) {
    peers_.sending[event.peer.index()] = false;
  }
  if (const Open* const open = find(event.channel); open != nullptr && !open->error) {
    note(*open, open->traffic->handle(event));
  }
}

// Lets the channels do what follows from what has happened.
void Progress::act(Lock& lock, const Status& status) {
  poller_.failures.clear();
  const TimePoint now = clock_.now();
  flight_.set_now(now);
  for (const TransportEvent& event : poller_.events) {
    tell(event);
  }
  Failures news;  // which end nothing that is done
  if (has_news()) {
    hear_news(news);
  }
  // Each has its turn to be the first to send.
  const auto following = [&](std::size_t one) { return one + 1 < open_.size() ? one + 1 : 0; };
  std::size_t next = poller_.first_served = following(poller_.first_served);
  for (std::size_t i = 0; i < open_.size(); ++i, next = following(next)) {
    const Open& open = *open_[next];
    if (!open.error) {
      note(open, status ? open.traffic->proceed(now) : status);
    }
  }
  settle();
  for (std::size_t i = 0; i < poller_.failures.size(); ++i) {
    fail(lock, poller_.failures[i].first, poller_.failures[i].second);
  }
  poller_.failures.clear();
  for (const auto& [number, error] : news) {
    fail(lock, number, error);
  }
}

// Tells the channels who has left since, and ends those whose scope has failed.
void Progress::hear_news(Failures& failures) {
  peers_.known_news = peers_.epoch->news();
  const std::vector<Departure> departures = peers_.epoch->departures(peers_.departures.size());
  peers_.departures.insert(peers_.departures.end(), departures.begin(), departures.end());
  for (const Departure& left : departures) {
    transport_.note_departure(left.rank);
  }
  for (const auto& open : open_) {
    for (const Departure& left : departures) {
      const auto ended = left.ended.find(open->number);
      if (ended == left.ended.end() || open->error) {
        continue;
      }
      if (const Status status = open->traffic->handle_departure(left.rank, ended->second);
          !status) {
        failures.emplace_back(open->number, status.error());
        break;
      }
    }
    if (open->scope != nullptr && !open->error) {
      if (const Status status = open->scope->check(); !status) {
        failures.emplace_back(open->number, status.error());
      }
    }
  }
}

// Ends what is done.
void Progress::settle() {
  for (const auto& open : open_) {
    // A later operation that the same poll has ended fails with an earlier one.
    const auto is_its = [&](const auto& failure) { return failure.first == open->number; };
    if (std::ranges::any_of(poller_.failures, is_its)) {
      continue;
    }
    auto& states = open->in_flight;
    for (std::size_t i = 0; i < states.size();) {
      if (!states[i]->is_over()) {
        ++i;
        continue;
      }
      end(states[i], ok());
      states.erase(states.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void Progress::end(const std::shared_ptr<OperationState>& state, const Status& result) {
  state->result = result;
  state->is_done = true;
  state->finished = clock_.now();
  flight_.set_now(state->finished);
  state->flight.end(!result);
  --background_.in_flight;
  if (state->callback) {
    callbacks_.due.push_back(state);
  }
  turn_.notify_all();
}

void Progress::abandon(Open& open) {
  open.traffic->abandon();
  std::erase_if(poller_.homecomings,
                [&](const Homecoming& one) { return one.channel == open.number; });
}

void Progress::end_all(Open& open) {
  for (const std::shared_ptr<OperationState>& state : open.in_flight) {
    end(state, *open.error);
  }
  open.in_flight.clear();
}

// The channel's first error ends all that is in flight there. The lock is open while it is told.
void Progress::fail(Lock& lock, uint64_t channel, const Error& error, const OperationState* own) {
  Open* const open = find(channel);
  if (open == nullptr || open->error) {
    return;
  }
  Culprit culprit{open->traffic->failed_operation(), open->traffic->culprit(), {}};
  for (const std::shared_ptr<OperationState>& state : open->in_flight) {
    const bool may_be = own == nullptr ? culprit.operation == 0 : state.get() == own;
    if (may_be || state->number == culprit.operation) {
      culprit.operation = state->number;
      culprit.what = state->what;
      break;
    }
  }
  for (const std::shared_ptr<OperationState>& state : open->in_flight) {
    state->flight.end(true);  // as who is told may ask
  }
  open->error = error;
  open->is_failing = true;
  abandon(*open);
  lock.unlock();
  Error told = open->failed(error, culprit);
  lock.lock();
  open->error = std::move(told);
  open->is_failing = false;
  end_all(*open);
  turn_.notify_all();  // who waits for the failure to be told
}

// Calls back, in the order in which operations have ended. The lock is open meanwhile, and until
// the callback is gone: what it holds may end with it, a communicator too.
void Progress::call_back_all(Lock& lock) {
  while (!callbacks_.due.empty()) {
    std::shared_ptr<OperationState> state = std::move(callbacks_.due.front());
    callbacks_.due.pop_front();
    auto callback = std::exchange(state->callback, nullptr);
    const Status result = state->result;
    const uint64_t channel = state->channel;
    const std::thread::id self = std::this_thread::get_id();
    callbacks_.under_way.push_back({channel, self});
    lock.unlock();
    callback(result);
    callback = nullptr;
    state = nullptr;
    lock.lock();
    const auto own = std::ranges::find_if(callbacks_.under_way, [&](const auto& one) {
      return one.channel == channel && one.thread == self;
    });
    callbacks_.under_way.erase(own);
    turn_.notify_all();  // who closes the channel
  }
}

// A callback of the channel's operations is under way, in another thread.
bool Progress::has_callback_elsewhere(uint64_t channel) const {
  return std::ranges::any_of(callbacks_.under_way, [&](const Callbacks::UnderWay& one) {
    return one.channel == channel && one.thread != std::this_thread::get_id();
  });
}

// Lets another thread poll, if there is one that waits, or something to poll for.
void Progress::hand_over_to_another() {
  if (poller_.waiting > 0) {
    turn_.notify_all();
    return;
  }
  if (!background_.thread.joinable()) {
    background_.thread = std::thread([this] { work_in_background(); });
  }
  background_.wake.notify_one();
}

void Progress::work_in_background() {
  Lock lock(mutex_);
  while (!background_.is_ending) {
    if (background_.in_flight == 0 || poller_.waiting > 0 || poller_.is_there) {
      background_.wake.wait(lock);
      continue;
    }
    poller_.is_background = true;
    poll(lock, TimePoint::max());
    poller_.is_background = false;
    hand_over();  // to those who wait
    call_back(lock);
  }
}

bool Operation::test() const {
  return progress_->test(*state_);
}

Status Operation::wait(Duration timeout) const {
  return progress_->wait(*state_, timeout);
}

void Operation::on_done(std::function<void(const Status&)> callback) const {
  progress_->on_done(*state_, std::move(callback));
}

TimePoint Operation::started() const {
  return progress_->started(*state_);
}

TimePoint Operation::finished() const {
  return progress_->finished(*state_);
}

Received Operation::received() const {
  return progress_->received(*state_);
}

}  // namespace pleach
