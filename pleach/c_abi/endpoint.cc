#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "pleach/c_abi/call.h"
#include "pleach/runtime/launch/launch.h"
#include "pleach/runtime/net.h"
#include "pleach/runtime/rendezvous/agreement.h"
#include "pleach/runtime/transport_choice.h"

namespace pleach::c_abi {
namespace {

constexpr Duration kDefaultDeadline = std::chrono::seconds(30);

std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

// Who this rank is, as the options or else the starter tell.
Result<LaunchEnvironment> find_place(const pleach_endpoint_options& options) {
  if (options.rank_count == 0) {
    PLEACH_ASSIGN(launch, detect_launch(process_environment));
    if (!launch) {
      return invalid(
          "pleach_endpoint_create: rank_count is 0, and no starter has told which rank this is");
    }
    return *std::move(launch);
  }
  if (options.store_port < 0 || options.store_port > UINT16_MAX) {
    return invalid(
        fmt::format("pleach_endpoint_create: store_port {} is no port", options.store_port));
  }
  LaunchEnvironment place;
  place.rank = Rank{options.rank};
  place.rank_count = options.rank_count;
  place.store_host = text_or(options.store_host, "127.0.0.1");
  place.store_port = options.store_port;
  place.listen_descriptor = options.listen_descriptor > 0 ? options.listen_descriptor : -1;
  place.key_prefix = text_or(options.job, "");
  if (options.secret == nullptr) {
    PLEACH_SET(place.secret, find_secret(process_environment));
  } else {
    PLEACH_ASSIGN(given, JobSecret::parse(options.secret, "pleach_endpoint_options.secret"));
    PLEACH_SET(place.secret, with_tls(process_environment, std::move(given)));
  }
  place.interface = process_environment("PLEACH_SOCKET_IFNAME").value_or("");
  return place;
}

Status create(const pleach_endpoint_options* given, pleach_endpoint** endpoint) {
  *endpoint = nullptr;
  PLEACH_ASSIGN(options, complete(given, "pleach_endpoint_options"));
  PLEACH_ASSIGN(wanted_deadline, c_abi::deadline("pleach_endpoint_create", options.deadline_ms));
  const Duration deadline = wanted_deadline.value_or(kDefaultDeadline);
  const std::string wanted = text_or(options.transport, kAutoTransport);
  PLEACH_TRY(check_transport(wanted));  // before anybody is met
  PLEACH_ASSIGN(place, find_place(options));
  PLEACH_ASSIGN(store, make_store(place, deadline));
  const GroupOfRanks ranks = {*store, place.rank, place.rank_count, deadline};
  PLEACH_ASSIGN(choice, choose_transport(ranks, place.key_prefix + "/transport", wanted));
  EndpointOptions opened;
  opened.rank = place.rank;
  opened.rank_count = place.rank_count;
  opened.transport = choice.transport;
  opened.hosts = std::move(choice.hosts);
  opened.store = std::move(store);
  opened.name = place.key_prefix.empty() ? opened.name : place.key_prefix;
  opened.deadline = deadline;
  if (options.flight_folder != nullptr) {
    PLEACH_SET(opened.flight, flight_options_from_environment());
    opened.flight->folder = options.flight_folder;
  }
  PLEACH_ASSIGN(created, Endpoint::create(std::move(opened)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  *endpoint = new pleach_endpoint{std::move(created)};
  return ok();
}

}  // namespace
}  // namespace pleach::c_abi

using pleach::Status;
using pleach::c_abi::call;

pleach_status pleach_listen(const char* host, int32_t* port, int32_t* descriptor) {
  return call("pleach_listen", {{port, "port"}, {descriptor, "descriptor"}}, [&]() -> Status {
    if (*port < 0 || *port > UINT16_MAX) {
      return pleach::invalid(fmt::format("pleach_listen: port {} is no port", *port));
    }
    PLEACH_ASSIGN(listener, pleach::listen_on({host == nullptr ? "127.0.0.1" : host, *port}));
    PLEACH_ASSIGN(address, pleach::local_address(listener.get()));
    // 0 would say that there is none.
    pleach::Descriptor copy(fcntl(listener.get(), F_DUPFD_CLOEXEC, 3));
    if (!copy.is_open()) {
      return pleach::system_error("pleach_listen");
    }
    *port = address.port;
    *descriptor = copy.release();
    return pleach::ok();
  });
}

pleach_status pleach_endpoint_create(const pleach_endpoint_options* options,
                                     pleach_endpoint** endpoint) {
  return call("pleach_endpoint_create", {{endpoint, "endpoint"}},
              [&] { return pleach::c_abi::create(options, endpoint); });
}

pleach_status pleach_endpoint_write_flight(const pleach_endpoint* endpoint, const char* path) {
  return call("pleach_endpoint_write_flight", {{endpoint, "endpoint"}, {path, "path"}},
              [&] { return endpoint->endpoint->write_flight(path); });
}

pleach_status pleach_endpoint_leave(pleach_endpoint* endpoint, int64_t patience_ms) {
  return call("pleach_endpoint_leave", {{endpoint, "endpoint"}}, [&]() -> Status {
    PLEACH_ASSIGN(patience, pleach::c_abi::timeout("pleach_endpoint_leave", patience_ms));
    endpoint->endpoint->leave(patience);
    return pleach::ok();
  });
}

void pleach_endpoint_destroy(pleach_endpoint* endpoint) {
  const pleach::c_abi::Interruptions asked;
  delete endpoint;  // NOLINT(cppcoreguidelines-owning-memory)
}

int32_t pleach_endpoint_rank(const pleach_endpoint* endpoint) {
  int32_t rank = -1;
  call("pleach_endpoint_rank", {{endpoint, "endpoint"}}, [&] {
    rank = endpoint->endpoint->rank().value;
    return pleach::ok();
  });
  return rank;
}

int32_t pleach_endpoint_rank_count(const pleach_endpoint* endpoint) {
  int32_t count = -1;
  call("pleach_endpoint_rank_count", {{endpoint, "endpoint"}}, [&] {
    count = endpoint->endpoint->rank_count();
    return pleach::ok();
  });
  return count;
}

const char* pleach_endpoint_transport(const pleach_endpoint* endpoint) {
  const char* name = nullptr;
  call("pleach_endpoint_transport", {{endpoint, "endpoint"}}, [&] {
    name = endpoint->endpoint->transport().c_str();
    return pleach::ok();
  });
  return name;
}
