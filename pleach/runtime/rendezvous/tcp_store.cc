#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/interruption.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/process_mark.h"
#include "pleach/runtime/read_block.h"
#include "pleach/runtime/rendezvous/handshake.h"
#include "pleach/runtime/rendezvous/interfaces.h"
#include "pleach/runtime/rendezvous/job_clock.h"
#include "pleach/runtime/rendezvous/rendezvous_file.h"
#include "pleach/runtime/rendezvous/store.h"
#include "pleach/runtime/rendezvous/store_answers.h"
#include "pleach/runtime/rendezvous/store_protocol.h"
#include "pleach/runtime/rendezvous/store_server.h"

namespace pleach {
namespace {

// Writes all of it. False: the connection is over, or takes nothing until the deadline.
bool send_all(Wire& wire, std::string_view bytes, TimePoint deadline) {
  while (true) {
    const ssize_t count = bytes.empty() ? 0 : wire.write(bytes);
    bytes.remove_prefix(at(std::max<ssize_t>(count, 0)));
    if (count >= 0 && bytes.empty() && wire.flush()) {
      return true;
    }
    if (count < 0 || bytes.empty()) {
      const bool is_blocked = errno == EAGAIN && wait_ready(wire.socket(), POLLOUT, deadline);
      if (!is_blocked && errno != EINTR) {
        return false;
      }
    }
  }
}

// A goodbye is answered at once.
constexpr Duration kLeastGoodbye = std::chrono::milliseconds(10);
// An answer that is on its way comes within this time.
constexpr Duration kGlance = std::chrono::seconds(1);
constexpr const char* kClosed = "its store closed the connection";

// The error of a server that violates the protocol.
Error broken(const Error& what) {
  return prefixed("its store broke the protocol", what);
}

// The failure with no more text than the server takes.
Failure cut(Failure failure) {
  failure.message.resize(std::min(failure.message.size(), kMaxStoreFailureBytes));
  return failure;
}

class TcpStore final : public Store {
 public:
  TcpStore(const TcpStoreOptions& options, Wire wire, StoreMessageReader reader,
           std::unique_ptr<StoreServer> server, std::vector<std::string> local_hosts,
           Descriptor stop)
      : options_(options),
        server_(std::move(server)),
        wire_(std::move(wire)),
        watch_{.stop = std::move(stop), .starter = watch_process(options_.starter_process)},
        reader_(std::move(reader)),
        local_hosts_(std::move(local_hosts)) {
    thread_ = std::thread(&TcpStore::work, this);
  }
  TcpStore(const TcpStore&) = delete;
  TcpStore& operator=(const TcpStore&) = delete;
  ~TcpStore() override;

  Status set(const std::string& key, std::string value) override;
  Result<std::string> get(const std::string& key, Duration deadline) override;
  Result<int64_t> increment(const std::string& key) override;
  Status erase(const std::string& prefix) override;
  std::shared_ptr<const Epoch> epoch() const override { return answers_->epoch(); }
  using Store::fail;
  void fail(const Epoch& epoch, const Failure& failure) override;
  Status recover(Rank self, Duration deadline) override;
  void leave(const Departure& departure, Duration patience) override;
  std::shared_ptr<const Epoch> scope(const std::string& name) override {
    return answers_->scope(name);
  }
  Result<std::string> get_until_departure(const std::string& key, Duration deadline,
                                          std::size_t known) override {
    return get_within(nullptr, key, deadline, known);
  }
  Result<std::string> get_within(const std::shared_ptr<const Epoch>& scope, const std::string& key,
                                 Duration deadline, std::optional<std::size_t> known) override;
  std::vector<std::string> local_addresses() const override { return local_hosts_; }
  const Clock& clock() const override { return watch_.clock; }
  const JobSecret& secret() const override { return options_.secret; }

 private:
  Result<StoreMessage> request(StoreMessage message, Duration wait, Until until = {});
  bool send(const StoreMessage& message);
  bool tell_failure(const Epoch& epoch, const Failure& failure);
  void work() {
    listen();
    watch_.clock.run_free();
  }
  void listen();
  Status receive();
  Status digest();
  Status obey(StoreMessage message);
  void lose_server(const std::string& why);

  const TcpStoreOptions options_;
  std::unique_ptr<StoreServer> server_;  // rank 0; outlives the connection to it
  Wire wire_;
  // What the thread looks after.
  struct Watch {
    Descriptor stop = {};
    Descriptor starter = {};  // readable when it has ended
    JobClock clock = {};
  };
  Watch watch_;
  StoreMessageReader reader_;  // the thread's
  const std::vector<std::string> local_hosts_;
  std::mutex send_mutex_;
  std::unique_ptr<Answers> answers_ =
      std::make_unique<Answers>(watch_.clock, options_.rank, options_.rank_count);
  std::thread thread_;
  struct Presence {
    const ProcessMark process = {};
    std::atomic<bool> has_left = false;
  };
  Presence presence_;
};

TcpStore::~TcpStore() {
  if (!presence_.process.is_here()) {
    // The threads, and what they wait for, are those of the process that forked this one.
    thread_.detach();
    static_cast<void>(server_.release());
    static_cast<void>(answers_.release());
    return;
  }
  leave({.rank = options_.rank}, options_.deadline);
  signal_event(watch_.stop.get());
  thread_.join();
  wire_.close();
}

void TcpStore::leave(const Departure& departure, Duration patience) {
  if (!presence_.process.is_here() || presence_.has_left.exchange(true)) {
    return;
  }
  if (send({.verb = StoreVerb::kGoodbye, .value = write_departure(departure)})) {
    // So that the server reads the goodbye before it sees the connection close.
    answers_->wait_for_end(std::min<Duration>(
        {options_.deadline, std::chrono::seconds(1), std::max(patience, kLeastGoodbye)}));
  }
  if (server_ != nullptr) {
    server_->stop(patience);
    server_.reset();
  }
}

bool TcpStore::send(const StoreMessage& message) {
  const std::string bytes = write_store_message(message);
  const std::scoped_lock lock(send_mutex_);
  return send_all(wire_, bytes, SteadyClock().now() + options_.deadline);
}

Result<StoreMessage> TcpStore::request(StoreMessage message, Duration wait, Until until) {
  if (message.key.size() > kMaxStoreKeyBytes || message.value.size() > kMaxStoreValueBytes) {
    return invalid(fmt::format("store: key {} of {} bytes with a value of {} bytes is too large",
                               pleach::quoted(message.key), message.key.size(),
                               message.value.size()));
  }
  message.id = answers_->expect();
  if (until.epoch == nullptr) {
    until.epoch = epoch();
  }
  const std::shared_ptr<const Epoch> now = until.epoch;
  if (now->failure() && message.verb == StoreVerb::kGet && message.number == 0) {
    return answers_->wait_for(message, send(message), std::min<Duration>(wait, kGlance), {});
  }
  const bool is_sent = !now->failure() && send(message);
  return answers_->wait_for(message, is_sent, wait, until);
}

Status TcpStore::set(const std::string& key, std::string value) {
  PLEACH_TRY(
      request({.verb = StoreVerb::kSet, .key = key, .value = std::move(value)}, options_.deadline));
  return ok();
}

Result<std::string> TcpStore::get(const std::string& key, Duration deadline) {
  return get_within(nullptr, key, deadline, std::nullopt);
}

Result<std::string> TcpStore::get_within(const std::shared_ptr<const Epoch>& scope,
                                         const std::string& key, Duration deadline,
                                         std::optional<std::size_t> known) {
  // The server keeps the time; its answer may take a little longer.
  PLEACH_ASSIGN(reply, request({.verb = StoreVerb::kGet, .number = deadline.count(), .key = key},
                               deadline + options_.deadline, {scope, known}));
  return std::move(reply.value);
}

Result<int64_t> TcpStore::increment(const std::string& key) {
  PLEACH_ASSIGN(reply, request({.verb = StoreVerb::kIncrement, .key = key}, options_.deadline));
  return reply.number;
}

Status TcpStore::erase(const std::string& prefix) {
  PLEACH_TRY(request({.verb = StoreVerb::kErase, .key = prefix}, options_.deadline));
  return ok();
}

bool TcpStore::tell_failure(const Epoch& epoch, const Failure& failure) {
  return send(write_failure(StoreVerb::kFail, epoch.number(), cut(failure), epoch.scope()));
}

void TcpStore::fail(const Epoch& epoch, const Failure& failure) {
  if (epoch.failure()) {
    return;
  }
  if (tell_failure(epoch, failure)) {
    // The server decides which failure was first; without it this one stands.
    answers_->wait_for_failure(epoch, silence_limit(options_.deadline));
  }
  answers_->fail(epoch, failure);
}

Status TcpStore::recover(Rank /*self*/, Duration deadline) {
  const std::shared_ptr<const Epoch> now = epoch();
  StoreMessage message{.verb = StoreVerb::kRecover,
                       .id = answers_->expect(),
                       .number = deadline.count(),
                       .key = {},
                       .value = std::to_string(now->number())};
  const bool is_sent = send(message);
  // The server keeps the time; its answer may take a little longer.
  PLEACH_TRY(answers_->wait_for(message, is_sent, deadline + options_.deadline, {}));
  return ok();
}

void TcpStore::lose_server(const std::string& why) {
  answers_->end({Rank{0}, fmt::format("rank 0 was lost: {}", why)});
}

// The thread: answers pings, receives replies and the news of failures.
void TcpStore::listen() {
  const Duration interval = ping_interval(options_.deadline);
  const Duration reach = clock_reach(options_.deadline);
  watch_.clock.beat(reach);
  TimePoint heard = watch_.clock.now();
  Status heard_well = digest();  // what came with the welcome
  if (heard_well && wire_.has_unread()) {
    heard_well = receive();
  }
  if (!heard_well) {
    return lose_server(heard_well.error().message);
  }
  while (true) {
    std::array<pollfd, 3> waiting = {pollfd{wire_.socket(), POLLIN, 0},
                                     pollfd{watch_.stop.get(), POLLIN, 0},
                                     pollfd{watch_.starter.get(), POLLIN, 0}};
    poll(waiting.data(), waiting.size(), milliseconds_until(TimePoint() + interval, TimePoint()));
    watch_.clock.beat(reach);
    if (waiting[1].revents != 0) {
      return;
    }
    if (waiting[2].revents != 0) {
      watch_.starter = Descriptor();
      tell_failure(*epoch(),
                   {options_.rank,
                    fmt::format("rank {} was left alone: process {}, which started it, has ended",
                                options_.rank.value, options_.starter_process)});
    }
    if (waiting[0].revents != 0) {
      heard = watch_.clock.now();
      if (const Status status = receive(); !status) {
        return lose_server(status.error().message);
      }
    } else if (const Duration silent = watch_.clock.now() - heard;
               silent > silence_limit(options_.deadline)) {
      return lose_server(fmt::format("its store was silent for {:.2g} s", seconds_of(silent)));
    }
  }
}

// Errors: kIo: the connection is over: why.
Status TcpStore::receive() {
  const ReadBlock block;
  do {
    const ssize_t count = wire_.read(block.bytes());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return ok();
    }
    if (count <= 0) {
      return Error{ErrorCode::kIo, kClosed};
    }
    reader_.append({block.bytes().data(), at(count)});
    PLEACH_TRY(digest());
  } while (wire_.has_unread());
  return ok();
}

// Obeys the messages that have arrived. Errors: kIo: the connection is over: why.
Status TcpStore::digest() {
  while (true) {
    Result<std::optional<StoreMessage>> message = reader_.next();
    if (!message) {
      return broken(message.error());
    }
    if (!*message) {
      return ok();
    }
    PLEACH_TRY(obey(*std::move(message).value()));
  }
}

Status TcpStore::obey(StoreMessage message) {
  if (message.verb == StoreVerb::kPing) {
    return send({.verb = StoreVerb::kPong}) ? ok() : Status(Error{ErrorCode::kIo, kClosed});
  }
  if (message.verb == StoreVerb::kFailure && scope_of_failure(message).empty()) {
    static_cast<void>(send({.verb = StoreVerb::kAcknowledge}));
  }
  const Status status = answers_->hear(std::move(message));
  return status ? ok() : Status(broken(status.error()));
}

// What is left of the time to join, in which this process ran: a job that is stopped as a whole
// while its ranks join goes on. Its thread beats the clock, whatever the one that joins waits for.
//   server  on rank 0, its own: where that knows that the job has failed, the time is over
class TimeToJoin {
 public:
  explicit TimeToJoin(Duration deadline, const StoreServer* server = nullptr)
      : deadline_(deadline), server_(server) {
    clock_.beat(clock_reach(deadline));
    end_ = after(clock_.now(), deadline);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  bool is_over() const { return clock_.now() >= end_ || is_interrupted() || failure(); }
  std::optional<Failure> failure() const {
    return server_ == nullptr ? std::nullopt : server_->first_failure();
  }
  // False: it is over.
  bool wait_ready(int descriptor, short events) const {
    while (true) {
      pollfd waiting = {descriptor, events, 0};
      const TimePoint now = clock_.now();
      const int left_ms = milliseconds_until(end_, now);
      const int slice_ms = static_cast<int>(kInterruptionInterval.count());
      if (poll(&waiting, 1, std::min(left_ms, slice_ms)) > 0) {
        return true;
      }
      if (is_over()) {
        return false;
      }
    }
  }

 private:
  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      never.wait_for(lock, stop, ping_interval(deadline_), [] { return false; });
      clock_.beat(clock_reach(deadline_));
    }
  }

  const Duration deadline_;
  const StoreServer* const server_;
  JobClock clock_;
  TimePoint end_;
  std::jthread thread_;
};

// One try to connect and be welcome.
struct Attempt {
  Wire wire = {};
  StoreMessageReader reader = {};
  std::string problem = {};                  // empty: welcome
  std::optional<ErrorCode> final_code = {};  // asking again does not help
};

constexpr const char* kNoStore = "what listens there is no pleach store";
// Its system accepts for it.
constexpr const char* kSilent =
    "rank 0 does not answer there: it has not come so far or is stopped, or it is no pleach store";

// Waits until the wire is ready to be written to. False: it breaks, or never is.
bool begin(Wire& wire, const TimeToJoin& time) {
  while (!wire.flush()) {
    if (errno != EAGAIN || !time.wait_ready(wire.socket(), POLLIN)) {
      return false;
    }
  }
  return true;
}

// Proves to each other that both are of the job.
void prove_membership(const TcpStoreOptions& options, Descriptor socket, Attempt& attempt,
                      const TimeToJoin& time) {
  Introduction introduction(options.secret,
                            {.purpose = Purpose::kStore,
                             .rank = options.rank.value,
                             .acceptor = 0,
                             .rank_count = options.rank_count,
                             .meeting = store_meeting(options.secret, options.job)});
  attempt.problem = kNoStore;
  switch (introduce(socket.get(), introduction,
                    [&] { return time.wait_ready(socket.get(), POLLIN); })) {
    case Introduction::State::kWelcome:
      attempt.wire = introduction.wire(std::move(socket));
      if (begin(attempt.wire, time)) {
        attempt.problem.clear();
      }
      break;
    case Introduction::State::kStranger:
      attempt.problem = options.secret.is_none()
                            ? fmt::format("it has a secret, and rank {} has none (PLEACH_SECRET)",
                                          options.rank.value)
                            : fmt::format(
                                  "it does not hold this job's secret, or rank {} does "
                                  "not (PLEACH_SECRET)",
                                  options.rank.value);
      break;
    case Introduction::State::kDiffers:
      attempt.problem = fmt::format("rank {} {}, and it {} (PLEACH_TLS)", options.rank.value,
                                    options.secret.encrypts() ? "encrypts" : "does not encrypt",
                                    options.secret.encrypts() ? "does not" : "does");
      attempt.final_code = ErrorCode::kInvalidArgument;
      break;
    case Introduction::State::kWaits:
      attempt.problem = kSilent;
      break;
    case Introduction::State::kClosed:
      break;
  }
}

// Hears whether this rank may stay.
void await_welcome(const TcpStoreOptions& options, Attempt& attempt, const TimeToJoin& time) {
  attempt.problem = kSilent;
  const ReadBlock block;
  while (time.wait_ready(attempt.wire.socket(), POLLIN)) {
    const ssize_t count = attempt.wire.read(block.bytes());
    if (count < 0 && errno == EAGAIN) {
      continue;
    }
    if (count <= 0) {
      attempt.problem = kNoStore;
      return;
    }
    attempt.reader.append({block.bytes().data(), at(count)});
    const Result<std::optional<StoreMessage>> answer = attempt.reader.next();
    if (answer && !*answer) {
      continue;
    }
    attempt.problem = kNoStore;
    if (answer && (*answer)->verb == StoreVerb::kWelcome) {
      attempt.problem.clear();
    } else if (answer && (*answer)->verb == StoreVerb::kRejected) {
      attempt.problem = one_line((*answer)->value.substr(0, kMaxStoreToldBytes));
      attempt.final_code = ErrorCode::kInvalidArgument;
    } else if (answer && (*answer)->verb == StoreVerb::kOtherJob) {
      attempt.problem = fmt::format("it serves another job than {}", pleach::quoted(options.job));
    }
    return;
  }
}

Attempt say_hello(const TcpStoreOptions& options, int port, const TimeToJoin& time) {
  Attempt attempt;
  Result<Descriptor> socket = start_connect({options.host, port});
  if (!socket) {
    attempt.problem = socket.error().message;
    if (!make_event().is_open() && errno == EMFILE) {  // this process keeps those that it has
      attempt.final_code = socket.error().code;
    }
    return attempt;
  }
  if (!time.wait_ready(socket->get(), POLLOUT) || connect_error(socket->get()) != 0) {
    attempt.problem = "it does not accept connections";
    return attempt;
  }
  set_no_delay(socket->get());
  prove_membership(options, std::move(socket).value(), attempt, time);
  if (attempt.problem.empty()) {
    await_welcome(options, attempt, time);
  }
  return attempt;
}

// Connects, again and again until the deadline: the server may be later than this rank.
//   server  on rank 0, its own
Result<Attempt> join_store(const TcpStoreOptions& options, int port, const StoreServer* server) {
  const TimeToJoin time(options.deadline, server);
  std::string problem;
  while (true) {
    const std::optional<int> found = port > 0 ? port : read_rendezvous(options.rendezvous_file);
    if (found) {
      Attempt attempt = say_hello(options, *found, time);
      if (attempt.problem.empty()) {
        return attempt;
      }
      // The try that the deadline cuts short knows less than the one before.
      if (problem.empty() || !time.is_over()) {
        problem =
            fmt::format("store at {}: {}", to_text(Address{options.host, *found}), attempt.problem);
      }
      if (attempt.final_code) {
        return Error{*attempt.final_code, problem};
      }
    } else {
      problem = fmt::format("rank 0 has not published its store in {}", options.rendezvous_file);
    }
    if (is_interrupted()) {
      return interrupted();
    }
    if (const std::optional<Failure> failure = time.failure()) {
      return Error{failure->code, failure->message};
    }
    if (time.is_over()) {
      return Error{ErrorCode::kTimeout, problem};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A name of this machine's own interface is listened on alone, any other on all interfaces.
std::string listening_host(const std::string& host) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_loopback(host) ? host : is_ipv6 ? "::" : "0.0.0.0";
}

// Where the others reach this rank: by the interface that reaches the store. By the loopback only
// in a job that says so: its own name often means that to a host.
Result<std::string> reachable_address(const TcpStoreOptions& options, int socket) {
  PLEACH_ASSIGN(address, local_address(socket));
  if (is_loopback(options.host) || !is_loopback(address.host)) {
    return address.host;
  }
  const auto others = choose_addresses(list_interfaces(), "", address.host);
  return others ? others->front() : address.host;  // a host without a network is all there is
}

// What it was handed, if that is what it should be: a program between a rank and its starter may
// have closed it, and its number may be a file's now.
Result<Descriptor> obtain_listener(const TcpStoreOptions& options) {
  const int handed = options.listen_descriptor;
  if (handed >= 0 && is_listening(handed)) {
    const Result<Address> address = local_address(handed);
    if (address && (options.port == 0 || address->port == options.port)) {
      PLEACH_TRY(set_nonblocking(handed));
      return Descriptor(handed);
    }
  }
  Result<Descriptor> listener = listen_on({listening_host(options.host), options.port});
  if (!listener && handed >= 0) {
    return prefixed(fmt::format("descriptor {}, which the starter hands over "
                                "(PLEACH_LISTEN_DESCRIPTOR), does not listen at port {} in this "
                                "process, and nothing else can",
                                handed, options.port),
                    listener.error());
  }
  return listener;
}

}  // namespace

Result<std::unique_ptr<Store>> make_tcp_store(const TcpStoreOptions& options) {
  if (options.rank_count < 1 || options.rank.value < 0 ||
      options.rank.value >= options.rank_count) {
    return invalid(fmt::format("rank {} is not one of {}", options.rank.value, options.rank_count));
  }
  raise_descriptor_limit();
  std::vector<std::string> local_hosts;
  if (!options.interface.empty()) {
    PLEACH_SET(local_hosts, choose_addresses(list_interfaces(), options.interface, options.host));
  }
  Descriptor stop = make_event();
  if (!stop.is_open()) {
    return out_of_descriptors("wait for events", errno);
  }
  std::unique_ptr<StoreServer> server;
  int port = options.port;
  if (options.rank.value == 0) {
    PLEACH_ASSIGN(listener, obtain_listener(options));
    PLEACH_ASSIGN(address, local_address(listener.get()));
    port = address.port;
    StoreServerOptions server_options{.rank_count = options.rank_count,
                                      .job = options.job,
                                      .secret = options.secret,
                                      .deadline = options.deadline};
    if (!options.rendezvous_file.empty()) {
      PLEACH_ASSIGN(file, write_rendezvous(options.rendezvous_file, port));
      server_options.on_complete = [path = options.rendezvous_file, port,
                                    held = std::make_shared<Descriptor>(std::move(file))] {
        remove_rendezvous(path, port);
        held->close();
      };
    }
    PLEACH_SET(server, StoreServer::start(std::move(listener), std::move(server_options)));
  } else if (port == 0 && options.rendezvous_file.empty()) {
    return invalid(fmt::format(
        "rank {} does not know the port of the store (PLEACH_STORE, or store_port in C)",
        options.rank.value));
  }
  Result<Attempt> joined = join_store(options, port, server.get());
  if (!joined) {
    if (server != nullptr) {
      server->fail({options.rank, failure_text(options.rank, "store", joined.error().message)});
    }
    return joined.error();
  }
  if (options.interface.empty()) {
    PLEACH_ASSIGN(reachable, reachable_address(options, joined->wire.socket()));
    local_hosts = {reachable};
  }
  return std::unique_ptr<Store>(
      std::make_unique<TcpStore>(options, std::move(joined->wire), std::move(joined->reader),
                                 std::move(server), std::move(local_hosts), std::move(stop)));
}

void fail_from_outside(const TcpStoreOptions& where, const Failure& failure) {
  TcpStoreOptions options = where;
  options.rank = Rank{kNoRank};
  Attempt attempt = say_hello(options, options.port, TimeToJoin(options.deadline));
  if (attempt.problem.empty()) {
    static_cast<void>(send_all(
        attempt.wire, write_store_message(write_failure(StoreVerb::kFail, 0, cut(failure))),
        SteadyClock().now() + options.deadline));
  }
}

}  // namespace pleach
