// Progress: moves what is in flight on a transport, with one thread at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/result.h"
#include "pleach/runtime/channel.h"
#include "pleach/runtime/clock.h"
#include "pleach/runtime/collective_run.h"
#include "pleach/runtime/flight_recorder.h"
#include "pleach/runtime/operation.h"
#include "pleach/runtime/process_mark.h"
#include "pleach/runtime/program_index.h"
#include "pleach/runtime/traffic.h"
#include "pleach/runtime/transport.h"

namespace pleach {

// One operation, of its first to its last moment; then of another of the same kind.
struct OperationState {
  virtual ~OperationState() = default;
  // Begins it, as the operation of that number of what drives its channel.
  virtual Status begin(Traffic& traffic, uint64_t number, TimePoint now) = 0;
  // Whether there is nothing left to do.
  virtual bool is_over() const = 0;

  // Guarded by Progress.
  uint64_t channel = 0;
  uint64_t number = 0;    // of its channel: 1, 2, ...
  std::string_view what;  // for errors; a literal
  FlightNote flight;      // begin() begins it, if it is to be noted
  TimePoint started, finished;
  bool is_done = true;
  Status result = ok();
  Received received;
  std::function<void(const Status&)> callback;
};

struct CollectiveState final : OperationState {
  explicit CollectiveState(std::shared_ptr<const ProgramIndex> program)
      : index(std::move(program)), run(*index) {}
  Status begin(Traffic& traffic, uint64_t operation, TimePoint now) override;
  bool is_over() const override { return run.is_done(); }

  const std::shared_ptr<const ProgramIndex> index;
  CollectiveRun run;
  RunSpec spec;
  std::unique_ptr<float[]> wide;  // what a half type that travels as float32 runs in
};

// The states of one program, each used again when nobody holds it: a first operation of its kind
// allocates, later ones do not. Used by one thread at a time.
class OperationPool {
 public:
  explicit OperationPool(Program program)
      : index_(std::make_shared<const ProgramIndex>(std::move(program))) {}
  const Program& program() const { return index_->program(); }
  std::shared_ptr<CollectiveState> take();
  // To run that.
  std::shared_ptr<CollectiveState> take(const RunSpec& spec) {
    std::shared_ptr<CollectiveState> state = take();
    state->spec = spec;
    return state;
  }
  // Whether somebody holds one.
  bool is_in_use() const;

 private:
  std::shared_ptr<const ProgramIndex> index_;
  std::vector<std::shared_ptr<CollectiveState>> states_;
};

// Thread safe. Whoever waits polls, one of them at a time; a thread of its own polls only while
// operations are in flight and no call waits, and sleeps otherwise. A blocking call wakes no
// thread, unless it may be interrupted and waits for longer than kInterruptionInterval: while it
// asks that, the thread polls.
class Progress final : public Sink {
 public:
  // Borrows both. The transport then asks it where segments belong.
  //   rank  this one, for the flight recorder
  Progress(Transport& transport, const Clock& clock, int32_t rank_count, Rank rank = Rank{0});
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What a channel's first error is about.
  struct Culprit {
    uint64_t operation = 0;
    Rank rank;              // -1: this one
    std::string_view what;  // the operation's
  };
  // Told the first error, outside of any lock; returns it as all its operations will end.
  using Failed = std::function<Error(const Error& error, const Culprit& culprit)>;
  // Makes what drives a channel that has been opened on the transport, and closes it there.
  //   sending  of all channels, by rank: a segment is on its way there
  using MakeTraffic = std::function<std::unique_ptr<Traffic>(
      const ChannelOptions& options, Transport& transport, std::vector<bool>& sending)>;
  // Makes the traffic of collectives.
  static std::unique_ptr<Traffic> make_channel(const ChannelOptions& options, Transport& transport,
                                               std::vector<bool>& sending);
  // Opens a channel, of collectives unless told otherwise.
  //   errors  kInvalidArgument: one of that number is open
  //   scope  whose failure is the channel's; null: none
  Status open(const ChannelOptions& options, Failed failed, const MakeTraffic& make = make_channel,
              std::shared_ptr<const Epoch> scope = nullptr);
  // Sets the epoch whose news it acts on: departures, failures of scopes. Before a channel is open.
  void follow(std::shared_ptr<const Epoch> epoch);
  // By channel, the operation up to which all are over.
  std::map<uint64_t, uint64_t> ended() const;
  // Hears what comes within that time, for an endpoint that leaves: unread bytes in a socket that
  // is closed would destroy what it has still to deliver.
  void drain(Duration time);
  // Tells the transport where a peer is: before anything is started with it. Errors: its own.
  Status introduce(Rank peer, std::string_view address);
  // Ends what is in flight there with `error`, and closes the channel. Callbacks of its operations
  // have then returned, but one that calls this.
  void close(uint64_t channel, const Error& error);
  // Ends what is in flight on every channel, where nothing has ended it yet.
  void fail_all(const Error& error);
  // What the last operations were, and what the flight recorder is to call things.
  FlightLog flight_log() const;
  void name_channel(uint64_t channel, FlightLog::Channel names);
  void name_schedule(uint64_t schedule_hash, const std::string& algorithm);
  // Whether this thread is the one that polls while nobody waits.
  bool is_background_thread() const;
  // Operations that have begun there, and those of them that are in flight.
  uint64_t begun(uint64_t channel);
  int64_t in_flight(uint64_t channel);

  // Traffic's, of the channel.
  uint64_t history(uint64_t channel);

  // Hears what has come, without waiting for more. Errors: the channel's first error.
  Status look(uint64_t channel);

  // Begins an operation, numbered here, as the channel's next.
  //   errors  the channel's first error
  Status start(uint64_t channel, const std::shared_ptr<OperationState>& state);
  // As Operation's.
  Status wait(OperationState& state, Duration timeout);
  // start() and then wait() for as long as it takes.
  [[gnu::flatten]] Status run(uint64_t channel, const std::shared_ptr<OperationState>& state);
  bool test(OperationState& state);
  void on_done(OperationState& state, std::function<void(const Status&)> callback);
  TimePoint started(const OperationState& state) const;
  TimePoint finished(const OperationState& state) const;
  Received received(const OperationState& state) const;

 private:
  std::span<std::byte> home(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                            std::size_t bytes) override;

  struct Open {
    uint64_t number = 0;
    std::unique_ptr<Traffic> traffic;
    Failed failed;
    std::shared_ptr<const Epoch> scope;
    uint64_t last_operation = 0;
    std::vector<std::shared_ptr<OperationState>> in_flight;
    std::optional<Error> error;
    bool is_failing = false;  // `failed` has been called and has not returned
  };
  using Lock = std::unique_lock<std::mutex>;

  Lock own_lock() const;
  Open* find(uint64_t channel);
  Status begin(Lock& lock, uint64_t channel, const std::shared_ptr<OperationState>& state);
  Status wait_locked(Lock& lock, OperationState& state, TimePoint deadline);
  // Waits for as long as it takes. Throws Interrupted, after the channel has failed.
  Status wait_asking(Lock& lock, uint64_t channel, OperationState& state);
  [[gnu::noinline]] Status look(Lock& lock, uint64_t channel);
  void poll(Lock& lock, TimePoint deadline);
  void act(Lock& lock, const Status& status);
  using Failures = std::vector<std::pair<uint64_t, Error>>;  // by channel
  [[gnu::cold, gnu::noinline]] void hear_news(Failures& failures);
  bool has_news() const {
    return peers_.epoch != nullptr && peers_.epoch->news() != peers_.known_news;
  }
  void tell(const TransportEvent& event);
  void note(const Open& open, const Status& outcome) {
    if (!outcome) {
      poller_.failures.emplace_back(open.number, outcome.error());
    }
  }
  void settle();
  void end(const std::shared_ptr<OperationState>& state, const Status& result);
  void abandon(Open& open);
  void end_all(Open& open);
  [[gnu::cold, gnu::noinline]] void fail(Lock& lock, uint64_t channel, const Error& error,
                                         const OperationState* own = nullptr);
  void call_back(Lock& lock) {
    if (!callbacks_.due.empty()) {
      call_back_all(lock);
    }
  }
  [[gnu::noinline]] void call_back_all(Lock& lock);
  bool has_callback_elsewhere(uint64_t channel) const;
  TimePoint expiry() const;
  void work_in_background();
  void hand_over() {
    if (!poller_.is_there && (poller_.waiting > 0 || background_.in_flight > 0)) {
      hand_over_to_another();
    }
  }
  [[gnu::noinline]] void hand_over_to_another();

  // A segment that is written to where it belongs, or has been and has not been told of: another of
  // its tag, which no rank sends, would be written to memory that may be somebody else's by then.
  struct Homecoming {
    Rank peer;
    uint64_t channel = 0;
    SegmentTag tag;
    bool operator==(const Homecoming&) const = default;
  };

  // Who polls, and for how long; guarded as all the rest is.
  struct Poller {
    bool is_there = false;
    bool is_background = false;
    int32_t waiting = 0;                      // threads in wait() or run(), it among them
    TimePoint until = TimePoint::min();       // it waits at most
    int32_t patience = 0;                     // polls since releases are held back
    std::size_t first_served = 0;             // of the open channels, when it polled last
    std::vector<TransportEvent> events = {};  // of one poll
    std::vector<Homecoming> homecomings = {};
    std::vector<std::pair<uint64_t, Error>> failures = {};  // of one poll, by channel
  };
  struct Background {
    std::condition_variable wake = {};
    bool is_ending = false;
    std::thread thread = {};
    int32_t in_flight = 0;  // operations: it polls only while there are some
    ProcessMark process = {};
  };

  Transport& transport_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable turn_;  // for those who wait while another polls
  Poller poller_;
  Background background_;
  FlightRecorder flight_;
  std::vector<std::unique_ptr<Open>> open_;
  struct Peers {
    // By rank: why it is lost, or null; whether a segment is on its way there.
    std::vector<const char*> lost;
    std::vector<bool> sending;
    std::shared_ptr<const Epoch> epoch = nullptr;  // whose news are acted on
    uint64_t known_news = 0;
    std::vector<Departure> departures = {};
  };
  Peers peers_;
  // Callbacks that are due, the first first, and those that are under way.
  struct Callbacks {
    struct UnderWay {
      uint64_t channel = 0;
      std::thread::id thread;
    };
    std::deque<std::shared_ptr<OperationState>> due;
    std::vector<UnderWay> under_way;
  };
  Callbacks callbacks_;
};

}  // namespace pleach
