#include "pleach/runtime/endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/runtime/net.h"

namespace pleach {
namespace {

// Time in which the others hear of a departure and send nothing any more.
constexpr Duration kLastWords = std::chrono::milliseconds(20);

// The last reference may go with a callback, in the thread that the end of the wiring waits for:
// then it ends in another.
void destroy(Wiring* wiring) {
  if (!wiring->process.is_here()) {
    return;  // its threads, and what they hold, are the parent's
  }
  const auto end = [wiring] { delete wiring; };  // NOLINT(cppcoreguidelines-owning-memory)
  if (wiring->progress != nullptr && wiring->progress->is_background_thread()) {
    std::thread(end).detach();
  } else {
    end();
  }
}

}  // namespace

Result<std::shared_ptr<Endpoint>> Endpoint::create(EndpointOptions options) {
  if (options.store == nullptr) {
    return invalid("a rank's end of a job needs a store");
  }
  if (options.rank_count < 1 || options.rank.value < 0 ||
      options.rank.value >= options.rank_count) {
    return invalid(fmt::format("rank {} is not one of {}", options.rank.value, options.rank_count));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::shared_ptr<Endpoint> endpoint(new Endpoint(std::move(options)));
  if (!endpoint->options_.flight) {
    PLEACH_SET(endpoint->options_.flight, flight_options_from_environment());
  }
  if (!endpoint->options_.host_name) {
    PLEACH_SET(endpoint->options_.host_name, given_host_name());
  }
  PLEACH_TRY(endpoint->find_transport());
  PLEACH_SET(endpoint->wiring_, endpoint->wire());
  PLEACH_TRY(endpoint->store().attach(endpoint->rank()));
  endpoint->is_attached_ = true;
  return endpoint;
}

Status Endpoint::find_transport() {
  if (options_.transport == kAutoTransport && options_.transport_override == nullptr) {
    const GroupOfRanks all{store(), rank(), rank_count(), options_.deadline};
    PLEACH_ASSIGN(choice, choose_transport(all, options_.name + "/transport", kAutoTransport,
                                           options_.host_name));
    options_.transport = choice.transport;
    options_.hosts = std::move(choice.hosts);
  }
  return ok();
}

Endpoint::~Endpoint() {
  if (is_attached_ && wiring_ != nullptr && wiring_->process.is_here()) {
    store().detach(rank());
  }
}

void Endpoint::leave(Duration patience) {
  const std::shared_ptr<Wiring> present = wiring();
  if (present != nullptr && present->process.is_here()) {
    store().leave({.rank = rank(), .ended = present->progress->ended()}, patience);
    present->progress->drain(kLastWords);
  }
}

std::shared_ptr<Wiring> Endpoint::wiring() const {
  const std::scoped_lock lock(mutex_);
  return wiring_;
}

Status Endpoint::write_flight(const std::string& path) const {
  const std::shared_ptr<Wiring> now = wiring();
  if (!now->process.is_here()) {
    return invalid(fmt::format("rank {}: the endpoint is of another process, which forked this one",
                               rank().value));
  }
  return write_file(path, flight_text(now->progress->flight_log(), options_.name, {"request", ""}));
}

int64_t Openings::count(uint64_t kind) {
  const std::scoped_lock lock(mutex_);
  return by_kind_[kind]++;
}

void Openings::note_opened() {
  const std::scoped_lock lock(mutex_);
  ++open_;
}

void Openings::note_closed() {
  const std::scoped_lock lock(mutex_);
  --open_;
  if (leaving_ == nullptr) {
    leaving_ = std::make_unique<AtExit>([this] {
      std::unique_lock open(mutex_);
      const bool is_in_order = open_ == 0;
      open.unlock();
      if (is_in_order) {
        store_->leave({}, Duration::max());
      }
    });
  }
}

Result<std::shared_ptr<Wiring>> Endpoint::wire() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): it may end in another thread
  std::shared_ptr<Wiring> wiring(new Wiring{.epoch = store().epoch(), .openings = openings_},
                                 destroy);
  const Clock& clock = options_.clock != nullptr ? *options_.clock : store().clock();
  wiring->transport = std::move(options_.transport_override);
  if (wiring->transport == nullptr) {
    const int64_t epoch = wiring->epoch->number();
    const std::vector<int32_t>& hosts = options_.hosts;
    const auto ranks_here =
        rank().index() < hosts.size() ? std::ranges::count(hosts, hosts[rank().index()]) : 0;
    PLEACH_SET(
        wiring->transport,
        create_transport(
            options_.transport,
            {.rank = options_.rank,
             .rank_count = options_.rank_count,
             .store = options_.store,
             .epoch = wiring->epoch,
             .clock = &clock,
             .key_prefix = epoch == 0 ? options_.name : fmt::format("{}#{}", options_.name, epoch),
             .deadline = options_.deadline,
             .host = {*options_.host_name, static_cast<int32_t>(ranks_here)}}));
  }
  wiring->progress =
      std::make_unique<Progress>(*wiring->transport, clock, options_.rank_count, rank());
  wiring->progress->follow(wiring->epoch);
  wiring->watch = Epoch::Watch(wiring->epoch,
                               [transport = wiring->transport.get()] { transport->interrupt(); });
  FlightOptions flight = *options_.flight;
  flight.keeps = wiring->epoch->number() > 0;
  const auto text = [progress = wiring->progress.get(),
                     job = options_.name](const FlightReason& reason) {
    return flight_text(progress->flight_log(), job, reason);
  };
  PLEACH_SET(wiring->flight, FlightWriter::create(flight, rank(), text));
  return wiring;
}

Status Endpoint::renew() {
  const std::scoped_lock one_at_a_time(renewing_);
  const std::shared_ptr<Wiring> old = wiring();
  const Status ended = old->epoch->check();
  if (ended) {
    return ok();
  }
  old->progress->fail_all(ended.error());
  if (store().epoch()->failure()) {
    PLEACH_TRY(store().recover(rank(), options_.deadline));
  }
  Result<std::shared_ptr<Wiring>> renewed = wire();
  if (!renewed) {
    const std::string cause = failure_text(rank(), "shrink", renewed.error().message);
    return fail_epoch(store(), *store().epoch(), failure_of({renewed.error().code, cause}, rank()));
  }
  const std::scoped_lock lock(mutex_);
  wiring_ = std::move(renewed).value();
  openings_->forget_all();  // what was open has failed, and is never closed
  return ok();
}

}  // namespace pleach
