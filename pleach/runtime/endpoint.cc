#include "pleach/runtime/endpoint.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

namespace pleach {

Result<std::shared_ptr<Endpoint>> Endpoint::create(EndpointOptions options) {
  if (options.store == nullptr) {
    return invalid("a rank's end of a job needs a store");
  }
  if (options.rank_count < 1 || options.rank.value < 0 ||
      options.rank.value >= options.rank_count) {
    return invalid(fmt::format("rank {} is not one of {}", options.rank.value, options.rank_count));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the constructor is private
  std::shared_ptr<Endpoint> endpoint(new Endpoint(std::move(options)), destroy);
  PLEACH_TRY(endpoint->open());
  return endpoint;
}

// The last reference may go with a callback, in the thread that the end of the endpoint waits for:
// then it ends in another.
void Endpoint::destroy(Endpoint* endpoint) {
  const auto end = [endpoint] { delete endpoint; };  // NOLINT(cppcoreguidelines-owning-memory)
  if (endpoint->progress_ != nullptr && endpoint->progress_->is_background_thread()) {
    std::thread(end).detach();
  } else {
    end();
  }
}

int64_t Endpoint::count_opening(uint64_t kind) {
  const std::scoped_lock lock(mutex_);
  return openings_[kind]++;
}

Status Endpoint::open() {
  const Clock& clock = options_.clock != nullptr ? *options_.clock : steady_clock_;
  transport_ = std::move(options_.transport_override);
  if (transport_ == nullptr) {
    PLEACH_ASSIGN(kind, transports().find(options_.transport));
    PLEACH_SET(transport_, kind->create({.rank = options_.rank,
                                         .rank_count = options_.rank_count,
                                         .store = options_.store,
                                         .clock = &clock,
                                         .key_prefix = options_.name,
                                         .deadline = options_.deadline}));
  }
  progress_ = std::make_unique<Progress>(*transport_, clock, options_.rank_count);
  return ok();
}

}  // namespace pleach
