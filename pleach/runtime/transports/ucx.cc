// ucx: messages over UCX, which takes shared memory, TCP or what else there is. Built where its
// headers are.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/base/registry.h"
#include "pleach/base/text.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/transport.h"
#include "pleach/runtime/transports/create_listening.h"
#include "pleach/runtime/transports/patience.h"
#include "pleach/runtime/transports/place_pool.h"
#include "pleach/runtime/transports/seen_events.h"

namespace pleach {
namespace {

using EventKind = TransportEvent::Kind;

// UCX's functions that are used here. Its libraries watch a process's signals and memory from when
// they are loaded on, so they are when somebody asks for this transport.
#define PLEACH_UCX(of_each, argument)                                                            \
  PLEACH_FOR_EACH(of_each, argument, ucp_init_version, ucp_cleanup, ucp_config_read,             \
                  ucp_config_release, ucp_worker_create, ucp_worker_destroy, ucp_worker_get_efd, \
                  ucp_worker_get_address, ucp_worker_release_address, ucp_worker_flush_nbx,      \
                  ucp_worker_progress, ucp_worker_arm, ucp_ep_create, ucp_ep_close_nbx,          \
                  ucp_tag_send_nbx, ucp_tag_probe_nb, ucp_tag_msg_recv_nbx, ucp_request_free,    \
                  ucp_request_check_status, ucs_status_string)
// NOLINTNEXTLINE(bugprone-macro-parentheses): what is declared
#define PLEACH_UCX_POINTER(unused, name) decltype(&::name) name = nullptr;
#define PLEACH_UCX_FIND(library, name)                                                  \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #name));   \
  if (functions.name == nullptr) {                                                      \
    return Error{ErrorCode::kUnsupported, fmt::format("transport ucx: {}", dlerror())}; \
  }

struct Functions {
  PLEACH_UCX(PLEACH_UCX_POINTER, )
};

Result<Functions> load_functions() {
  void* const library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorCode::kUnsupported, fmt::format("transport ucx: {}", dlerror())};
  }
  Functions functions;
  PLEACH_UCX(PLEACH_UCX_FIND, library)
  return functions;
}

const Result<Functions>& loaded() {
  static const Result<Functions> functions = load_functions();
  return functions;
}

const Functions& ucx() {
  return *loaded();
}

enum class Kind : uint32_t { kBegin = 1, kData = 2, kRelease = 3, kLeft = 4 };

// What a message begins with; a segment's bytes follow.
struct Header {
  Kind kind = Kind::kBegin;
  uint32_t length = 0;
  uint64_t channel = 0;
  uint64_t operation = 0;
  uint64_t fingerprint = 0;
  int32_t stream = 0;
  int32_t segment = 0;

  SegmentTag tag() const { return {operation, stream, segment}; }
};

// A message's tag: whom it is for, by a number that only the job's ranks know, and its sender.
constexpr int kRankBits = 24;
constexpr uint64_t kForMask = ~uint64_t{0} << kRankBits;

// epoll tags.
constexpr uint64_t kWorker = 0;
constexpr uint64_t kAlarm = 1;
constexpr uint64_t kFailure = 2;

// Messages that UCX still holds are looked after so often.
constexpr Duration kRetry = std::chrono::milliseconds(1);
// In a row, before others have their turn.
constexpr int kMostSteps = 64;

Status checked(std::string_view what, ucs_status_t status) {
  if (status == UCS_OK) {
    return ok();
  }
  return Error{ErrorCode::kIo,
               fmt::format("transport ucx: {}: {}", what, ucx().ucs_status_string(status))};
}

struct End {
  void operator()(ucp_context_h context) const { ucx().ucp_cleanup(context); }
  void operator()(ucp_worker_h worker) const { ucx().ucp_worker_destroy(worker); }
};

// Of one message; UCX reads or writes it until it is done.
struct Message {
  std::vector<std::byte> bytes;
  bool is_done = false;
  bool is_sound = false;

  // Empty: it is none.
  std::optional<Header> header() const {
    Header header;
    if (!is_sound || bytes.size() < sizeof(header)) {
      return std::nullopt;
    }
    std::memcpy(&header, bytes.data(), sizeof(header));
    return header.length == bytes.size() - sizeof(header) ? std::optional(header) : std::nullopt;
  }
  std::span<const std::byte> payload() const { return std::span(bytes).subspan(sizeof(Header)); }
};

// Messages are copied where they are sent, as UCX cannot be told to keep its hands off memory that
// goes, and stay where they are received until they are released.
class UcxTransport final : public Transport {
 public:
  explicit UcxTransport(const TransportContext& context)
      : context_(context),
        nonce_(make_nonce() << kRankBits),
        places_(context.rank_count),
        peers_(at(context.rank_count) + 1),
        patience_(Patience::for_ranks(context.ranks_on_host())) {}
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;
  ~UcxTransport() override;

  Status listen();
  void set_sink(Sink& /*sink*/) override {}
  Status open(const ChannelOptions& channel) override {
    places_.open(channel);
    return ok();
  }
  void abandon(uint64_t channel) override;
  void close(uint64_t channel) override;
  std::string address() const override { return address_; }
  Status introduce(Rank rank, std::string_view address) override;
  Status connect(Rank peer) override;
  Status tell_begun(Rank peer, uint64_t channel, uint64_t operation, uint64_t fingerprint) override;
  Result<bool> send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                    std::span<const std::span<const std::byte>> pieces) override;
  Status release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) override;
  bool holds_back() const override { return false; }
  Status flush() override { return ok(); }
  bool has_events() const override {
    const Lock lock(ucx_.mutex);
    return !kept_.sent.empty();
  }
  TimePoint expiry() const override;
  void interrupt() override { signal_event(wakeup_.alarm.get()); }
  Status wait(TimePoint deadline, bool is_eager) override;
  Status progress(std::vector<TransportEvent>& events) override;
  uint64_t moved_bytes() const override { return moved_bytes_; }

 private:
  using Lock = std::scoped_lock<std::mutex>;
  using Library = std::unique_ptr<std::remove_pointer_t<ucp_context_h>, End>;
  using Worker = std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, End>;
  struct Ucx {
    mutable std::mutex mutex;  // of all that it does: who waits is in another thread
    Library library;
    Worker worker;
  };
  struct Peer {
    ucp_ep_h endpoint = nullptr;
    uint64_t nonce = 0;
    std::string address = {};                       // empty: it has not been introduced
    std::deque<std::unique_ptr<Message>> arriving;  // in the order in which they were sent
    const char* lost_reason = nullptr;
    bool is_told = false;  // that it is lost
  };
  struct Sending {
    UcxTransport* transport = nullptr;
    std::vector<std::byte> bytes;
    std::optional<TransportEvent> event = {};  // of a segment, when it has left
    std::list<Sending>::iterator self;
  };
  struct Held {
    uint64_t channel = 0;
    Rank peer;
    int32_t place = 0;
    std::unique_ptr<Message> message;
  };
  // Messages on their way, and those that wait for their release.
  struct Kept {
    std::list<Sending> sending;
    std::vector<TransportEvent> sent;
    std::vector<Held> held;
  };
  struct Wakeup {
    Descriptor epoll, alarm;
  };

  Status reach(Rank rank);
  bool post(Rank rank, const Header& header,
            std::span<const std::span<const std::byte>> pieces = {});
  void note_sent(Sending& sending);
  void advance();
  bool has_something() const;
  void receive();
  void open_messages(Rank rank, std::vector<TransportEvent>& events);
  const char* open_message(Rank rank, std::unique_ptr<Message> message,
                           std::vector<TransportEvent>& events);
  void end_connection(Peer& peer);
  static void finish(ucs_status_ptr_t request);

  TransportContext context_;
  const uint64_t nonce_;
  std::string address_;
  PlacePool places_;
  std::vector<Peer> peers_;  // by rank; the last is nobody, whose messages are dropped
  const Patience patience_;
  Kept kept_;
  Wakeup wakeup_;
  uint64_t moved_bytes_ = 0;
  Ucx ucx_;  // ends first
};

Status UcxTransport::listen() {
  ucp_params_t wanted = {};
  wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
  wanted.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  ucp_config_t* config = nullptr;
  PLEACH_TRY(checked("read its configuration", ucx().ucp_config_read(nullptr, nullptr, &config)));
  ucp_context_h library = nullptr;
  const ucs_status_t made =
      ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &wanted, config, &library);
  ucx().ucp_config_release(config);
  PLEACH_TRY(checked("start", made));
  ucx_.library.reset(library);
  ucp_worker_params_t alone = {};
  alone.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  alone.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucp_worker_h worker = nullptr;
  PLEACH_TRY(checked("make a worker", ucx().ucp_worker_create(library, &alone, &worker)));
  ucx_.worker.reset(worker);
  int descriptor = -1;
  PLEACH_TRY(checked("make its descriptor", ucx().ucp_worker_get_efd(worker, &descriptor)));
  PLEACH_SET(wakeup_.epoll, make_epoll());
  wakeup_.alarm = make_event();
  PLEACH_TRY(watch(wakeup_.epoll.get(), descriptor, EPOLLIN, kWorker));
  PLEACH_TRY(watch(wakeup_.epoll.get(), wakeup_.alarm.get(), EPOLLIN, kAlarm));
  PLEACH_TRY(watch(wakeup_.epoll.get(), context_.epoch->descriptor(), EPOLLIN, kFailure));
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  PLEACH_TRY(checked("tell its address", ucx().ucp_worker_get_address(worker, &address, &length)));
  address_ = fmt::format("{} ", nonce_);
  address_.append(reinterpret_cast<const char*>(address), length);
  ucx().ucp_worker_release_address(worker, address);
  return ok();
}

// Says so to all who may wait for it. Who does not take it in time finds out otherwise.
UcxTransport::~UcxTransport() {
  constexpr Duration kPatience = std::chrono::seconds(1);
  if (ucx_.worker == nullptr) {
    return;
  }
  for (int32_t rank = 0; rank < context_.rank_count; ++rank) {
    post(Rank{rank}, {.kind = Kind::kLeft});
  }
  const Lock lock(ucx_.mutex);
  const SteadyClock clock;
  const ucp_request_param_t plain = {};
  ucs_status_ptr_t flushed = ucx().ucp_worker_flush_nbx(ucx_.worker.get(), &plain);
  const TimePoint last = clock.now() + kPatience;
  while (UCS_PTR_IS_PTR(flushed) && ucx().ucp_request_check_status(flushed) == UCS_INPROGRESS &&
         clock.now() < last) {
    advance();
    receive();
  }
  finish(flushed);
  for (Peer& peer : peers_) {
    end_connection(peer);
  }
  advance();
  receive();
}

// What is under way ends by itself, or with the worker.
void UcxTransport::finish(ucs_status_ptr_t request) {
  if (UCS_PTR_IS_PTR(request)) {
    ucx().ucp_request_free(request);
  }
}

void UcxTransport::end_connection(Peer& peer) {
  if (peer.endpoint != nullptr) {
    ucp_request_param_t at_once = {};
    at_once.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    at_once.flags = UCP_EP_CLOSE_FLAG_FORCE;
    finish(ucx().ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &at_once));
  }
}

// What is on its way has been copied.
void UcxTransport::abandon(uint64_t channel) {
  const Lock lock(ucx_.mutex);
  for (Sending& sending : kept_.sending) {
    if (sending.event && sending.event->channel == channel) {
      note_sent(sending);
    }
  }
}

void UcxTransport::close(uint64_t channel) {
  abandon(channel);
  places_.close(channel);
  std::erase_if(kept_.held, [&](const Held& held) { return held.channel == channel; });
}

Status UcxTransport::introduce(Rank rank, std::string_view address) {
  const char* const end = address.data() + address.size();
  uint64_t nonce = 0;
  const auto [rest, error] = std::from_chars(address.data(), end, nonce);
  if (error != std::errc() || end - rest < 2 || *rest != ' ') {
    return no_address(rank, address);
  }
  peers_[rank.index()].nonce = nonce;
  peers_[rank.index()].address.assign(rest + 1, end);
  return ok();
}

// Makes the way to a peer, unless there is one.
Status UcxTransport::reach(Rank rank) {
  Peer& peer = peers_[rank.index()];
  if (peer.endpoint != nullptr || peer.lost_reason != nullptr) {
    return ok();
  }
  PLEACH_CHECK(!peer.address.empty(), "a peer that nobody has introduced");
  const Lock lock(ucx_.mutex);
  const auto lose = [](void* lost, ucp_ep_h /*endpoint*/, ucs_status_t /*status*/) {
    static_cast<Peer*>(lost)->lost_reason = "its connection closed";
  };
  ucp_ep_params_t to = {};
  to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                  UCP_EP_PARAM_FIELD_ERR_HANDLER;
  to.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  to.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  to.err_handler = {lose, &peer};
  return checked(fmt::format("connect to rank {}", rank.value),
                 ucx().ucp_ep_create(ucx_.worker.get(), &to, &peer.endpoint));
}

void UcxTransport::note_sent(Sending& sending) {
  if (sending.event) {
    kept_.sent.push_back(*std::exchange(sending.event, std::nullopt));
  }
}

// To a peer that has been reached and is not lost. Returns whether it has left.
bool UcxTransport::post(Rank rank, const Header& header,
                        std::span<const std::span<const std::byte>> pieces) {
  const Lock lock(ucx_.mutex);
  Peer& peer = peers_[rank.index()];
  if (peer.endpoint == nullptr || peer.lost_reason != nullptr) {
    return false;
  }
  Sending& sending = kept_.sending.emplace_front();
  sending.transport = this;
  sending.self = kept_.sending.begin();
  const std::span<const std::byte> head = std::as_bytes(std::span(&header, 1));
  sending.bytes.reserve(head.size() + header.length);
  sending.bytes.assign(head.begin(), head.end());
  for (const std::span<const std::byte> piece : pieces) {
    sending.bytes.insert(sending.bytes.end(), piece.begin(), piece.end());
  }
  const auto sent = [](void* request, ucs_status_t /*status*/, void* what) {
    auto* const done = static_cast<Sending*>(what);
    done->transport->note_sent(*done);
    done->transport->kept_.sending.erase(done->self);
    ucx().ucp_request_free(request);
  };
  ucp_request_param_t how = {};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.cb.send = sent;
  how.user_data = &sending;
  const ucs_status_ptr_t request =
      ucx().ucp_tag_send_nbx(peer.endpoint, sending.bytes.data(), sending.bytes.size(),
                             peer.nonce | at(context_.rank.value), &how);
  moved_bytes_ += header.length;
  if (UCS_PTR_IS_PTR(request)) {
    if (header.kind == Kind::kData) {
      sending.event = {
          .kind = EventKind::kSent, .peer = rank, .channel = header.channel, .tag = header.tag()};
    }
    return false;
  }
  kept_.sending.erase(sending.self);
  if (request != nullptr && peer.lost_reason == nullptr) {
    peer.lost_reason = "its connection broke";
  }
  return request == nullptr;
}

Status UcxTransport::connect(Rank peer) {
  return reach(peer);
}

Status UcxTransport::tell_begun(Rank peer, uint64_t channel, uint64_t operation,
                                uint64_t fingerprint) {
  PLEACH_TRY(reach(peer));
  post(peer, {.kind = Kind::kBegin,
              .channel = channel,
              .operation = operation,
              .fingerprint = fingerprint});
  return ok();
}

Result<bool> UcxTransport::send(Rank peer, uint64_t channel, SegmentTag tag, uint64_t fingerprint,
                                std::span<const std::span<const std::byte>> pieces) {
  PLEACH_TRY(reach(peer));
  Header header{.kind = Kind::kData,
                .channel = channel,
                .operation = tag.operation,
                .fingerprint = fingerprint,
                .stream = tag.stream,
                .segment = tag.segment};
  for (const std::span<const std::byte> piece : pieces) {
    header.length += static_cast<uint32_t>(piece.size());
  }
  return post(peer, header, pieces);
}

Status UcxTransport::release(Rank peer, uint64_t channel, SegmentTag tag, int32_t place) {
  places_.release(channel, peer, place);
  std::erase_if(kept_.held, [&](const Held& held) {
    return held.channel == channel && held.peer == peer && held.place == place;
  });
  PLEACH_TRY(reach(peer));
  post(peer, {.kind = Kind::kRelease,
              .channel = channel,
              .operation = tag.operation,
              .stream = tag.stream,
              .segment = tag.segment});
  return ok();
}

// ---- Receiving. With the lock.

void UcxTransport::advance() {
  for (int steps = 0; steps < kMostSteps && ucx().ucp_worker_progress(ucx_.worker.get()) != 0;
       ++steps) {
  }
}

bool UcxTransport::has_something() const {
  ucp_tag_recv_info_t info = {};
  return !kept_.sent.empty() ||
         ucx().ucp_tag_probe_nb(ucx_.worker.get(), nonce_, kForMask, 0, &info) != nullptr ||
         std::ranges::any_of(peers_, [](const Peer& peer) {
           return (!peer.arriving.empty() && peer.arriving.front()->is_done) ||
                  (peer.lost_reason != nullptr && !peer.is_told);
         });
}

// Takes what has come, in memory of its own.
void UcxTransport::receive() {
  ucp_tag_recv_info_t info = {};
  for (int taken = 0; taken < kMostSteps; ++taken) {
    ucp_tag_message_h const next =
        ucx().ucp_tag_probe_nb(ucx_.worker.get(), nonce_, kForMask, 1, &info);
    if (next == nullptr) {
      return;
    }
    const std::size_t from = std::min(at(info.sender_tag & ~kForMask), peers_.size() - 1);
    Message& message = *peers_[from].arriving.emplace_back(std::make_unique<Message>());
    message.bytes.resize(info.length);
    const auto received = [](void* request, ucs_status_t status, const ucp_tag_recv_info_t* /*of*/,
                             void* what) {
      static_cast<Message*>(what)->is_done = true;
      static_cast<Message*>(what)->is_sound = status == UCS_OK;
      ucx().ucp_request_free(request);
    };
    ucp_request_param_t how = {};
    how.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    how.cb.recv = received;
    how.user_data = &message;
    const ucs_status_ptr_t request = ucx().ucp_tag_msg_recv_nbx(
        ucx_.worker.get(), message.bytes.data(), message.bytes.size(), next, &how);
    if (!UCS_PTR_IS_PTR(request)) {
      message.is_done = true;
      message.is_sound = request == nullptr;
    }
  }
}

// Null: it is well. Else why its sender is lost.
const char* UcxTransport::open_message(Rank rank, std::unique_ptr<Message> message,
                                       std::vector<TransportEvent>& events) {
  constexpr const char* kBroken = "it broke the transport's protocol";
  const std::optional<Header> header = message->header();
  if (!header) {
    return message->is_sound ? kBroken : "its connection broke";
  }
  TransportEvent event{.peer = rank,
                       .channel = header->channel,
                       .tag = header->tag(),
                       .fingerprint = header->fingerprint};
  const bool is_open = places_.is_open(header->channel);
  switch (header->kind) {
    case Kind::kLeft:
      return "its connection closed";
    case Kind::kBegin:
    case Kind::kRelease:
      event.kind = header->kind == Kind::kBegin ? EventKind::kBegun : EventKind::kReleased;
      if (is_open) {  // else it was, and the last that was said of it came late
        events.push_back(event);
      }
      return header->length == 0 ? nullptr : kBroken;
    case Kind::kData:
      break;
    default:
      return kBroken;
  }
  if (!is_open) {
    return places_.was_open(header->channel) ? nullptr : kBroken;
  }
  const std::optional<int32_t> place = places_.take(header->channel, rank, header->length);
  if (!place) {
    return kBroken;
  }
  moved_bytes_ += header->length;
  event.kind = EventKind::kArrived;
  event.place = *place;
  event.payload = message->payload();
  events.push_back(event);
  kept_.held.push_back({header->channel, rank, *place, std::move(message)});
  return nullptr;
}

void UcxTransport::open_messages(Rank rank, std::vector<TransportEvent>& events) {
  Peer& peer = peers_[rank.index()];
  while (!peer.arriving.empty() && peer.arriving.front()->is_done) {
    std::unique_ptr<Message> message = std::move(peer.arriving.front());
    peer.arriving.pop_front();
    if (!peer.is_told) {
      const char* const reason = open_message(rank, std::move(message), events);
      peer.lost_reason = peer.lost_reason == nullptr ? reason : peer.lost_reason;
    }
  }
  if (peer.lost_reason != nullptr && !peer.is_told) {
    peer.is_told = true;
    events.push_back({.kind = EventKind::kLost, .peer = rank, .reason = peer.lost_reason});
    end_connection(peer);
  }
}

Status UcxTransport::progress(std::vector<TransportEvent>& events) {
  PLEACH_TRY(context_.epoch->check());
  const Lock lock(ucx_.mutex);
  advance();
  receive();
  for (int32_t rank = 0; rank < context_.rank_count; ++rank) {
    open_messages(Rank{rank}, events);
  }
  events.insert(events.end(), kept_.sent.begin(), kept_.sent.end());
  kept_.sent.clear();
  std::erase_if(peers_.back().arriving, [](const auto& message) { return message->is_done; });
  return ok();
}

// ---- Waiting.

TimePoint UcxTransport::expiry() const {
  const Lock lock(ucx_.mutex);
  return kept_.sending.empty() ? TimePoint::max() : context_.clock->now() + kRetry;
}

Status UcxTransport::wait(TimePoint deadline, bool is_eager) {
  const auto look = [this]() -> Result<bool> {
    const Lock lock(ucx_.mutex);
    advance();
    return has_something();
  };
  const bool may_spin = is_eager && deadline > TimePoint::min();
  PLEACH_ASSIGN(is_here, may_spin ? patience_.look_until(look) : look());
  ucs_status_t armed = UCS_ERR_BUSY;
  while (!is_here && armed == UCS_ERR_BUSY) {
    PLEACH_SET(is_here, look());
    const Lock lock(ucx_.mutex);
    armed = ucx().ucp_worker_arm(ucx_.worker.get());
  }
  if (is_here) {
    return ok();
  }
  PLEACH_TRY(checked("fall asleep", armed));
  SeenEvents seen;
  PLEACH_TRY(seen.look(wakeup_.epoll.get(), milliseconds_until(deadline, context_.clock->now())));
  for (const epoll_event& event : seen.take()) {
    if (event.data.u64 == kAlarm) {
      clear_event(wakeup_.alarm.get());
    }
  }
  return ok();
}

Result<std::unique_ptr<Transport>> create_ucx(const TransportContext& context) {
  if (!loaded()) {
    return loaded().error();
  }
  return create_listening<UcxTransport>(context);
}

}  // namespace

extern const TransportKind kUcxTransport = {
    .name = "ucx",
    .summary = "messages over UCX, by the ways that it finds",
    .spans_processes = true,
    .spans_hosts = true,
    .create = create_ucx,
};

}  // namespace pleach
