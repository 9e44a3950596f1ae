#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "pleach/api/job_book.h"
#include "pleach/c_abi/call.h"
#include "pleach/runtime/launch/launch.h"

namespace pleach::c_abi {
namespace {

Status open_handle(std::unique_ptr<Communicator> communicator, BookRequest request,
                   pleach_communicator** handle) {
  PLEACH_ASSIGN(collectives, Collectives::create(std::move(communicator), std::move(request)));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory)
  *handle = new pleach_communicator{std::move(collectives)};
  return ok();
}

// Of a communicator's ranks, or some of them.
Status open_part(const pleach_communicator& whole, std::unique_ptr<Communicator> part,
                 pleach_communicator** handle) {
  BookRequest request = whole.collectives->book_request();
  if (part->rank_count() != whole.collectives->communicator().rank_count()) {
    request.file.clear();  // it is for another number of ranks
  }
  return open_handle(std::move(part), std::move(request), handle);
}

Status create(pleach_endpoint* endpoint, const pleach_communicator_options* given,
              pleach_communicator** communicator) {
  *communicator = nullptr;
  PLEACH_ASSIGN(options, complete(given, "pleach_communicator_options"));
  CommunicatorOptions wanted;
  if (options.name != nullptr) {
    wanted.name = options.name;
  }
  if (options.ranks != nullptr ? options.rank_count < 1 : options.rank_count != 0) {
    return invalid(fmt::format("pleach_communicator_create: rank_count is {}, and ranks is{} NULL",
                               options.rank_count, options.ranks != nullptr ? " not" : ""));
  }
  for (int32_t rank = 0; rank < options.rank_count; ++rank) {
    wanted.ranks.push_back(Rank{options.ranks[rank]});
  }
  if (options.landing_places != 0) {
    wanted.landing_places = options.landing_places;
  }
  if (options.place_bytes != 0) {
    wanted.place_bytes = options.place_bytes;
  }
  wanted.fails_alone = options.fails_alone != 0;
  PLEACH_ASSIGN(opened, Communicator::create(endpoint->endpoint, std::move(wanted)));
  BookRequest request = book_request(process_environment, endpoint->endpoint->transport());
  request.hosts = endpoint->endpoint->hosts();
  if (opened->rank_count() != endpoint->endpoint->rank_count()) {
    request.file.clear();  // PLEACH_BOOK's is for the job
  }
  if (options.book != nullptr) {
    request.file = options.book;
    request.source.clear();
  }
  return open_handle(std::move(opened), std::move(request), communicator);
}

}  // namespace
}  // namespace pleach::c_abi

using pleach::ok;
using pleach::Status;
using pleach::c_abi::call;
using pleach::c_abi::open_part;

pleach_status pleach_communicator_create(pleach_endpoint* endpoint,
                                         const pleach_communicator_options* options,
                                         pleach_communicator** communicator) {
  return call("pleach_communicator_create",
              {{endpoint, "endpoint"}, {communicator, "communicator"}},
              [&] { return pleach::c_abi::create(endpoint, options, communicator); });
}

pleach_status pleach_communicator_split(pleach_communicator* communicator, int32_t color,
                                        int32_t key, pleach_communicator** part) {
  return call("pleach_communicator_split", {{communicator, "communicator"}, {part, "part"}},
              [&]() -> Status {
                *part = nullptr;
                PLEACH_ASSIGN(split, communicator->collectives->communicator().split(color, key));
                return split == nullptr ? ok() : open_part(*communicator, std::move(split), part);
              });
}

pleach_status pleach_communicator_shrink(pleach_communicator* communicator,
                                         pleach_communicator** survivors) {
  return call("pleach_communicator_shrink",
              {{communicator, "communicator"}, {survivors, "survivors"}}, [&]() -> Status {
                *survivors = nullptr;
                PLEACH_ASSIGN(shrunk, communicator->collectives->communicator().shrink());
                return open_part(*communicator, std::move(shrunk), survivors);
              });
}

pleach_status pleach_communicator_abort(pleach_communicator* communicator, const char* reason) {
  return call("pleach_communicator_abort", {{communicator, "communicator"}, {reason, "reason"}},
              [&] {
                communicator->collectives->communicator().abort(reason);
                return ok();
              });
}

pleach_status pleach_communicator_close(pleach_communicator* communicator) {
  return call("pleach_communicator_close", {{communicator, "communicator"}},
              [&] { return communicator->collectives->communicator().close(); });
}

void pleach_communicator_destroy(pleach_communicator* communicator) {
  const pleach::c_abi::Interruptions asked;
  delete communicator;  // NOLINT(cppcoreguidelines-owning-memory)
}

int32_t pleach_communicator_rank(const pleach_communicator* communicator) {
  int32_t rank = -1;
  call("pleach_communicator_rank", {{communicator, "communicator"}}, [&] {
    rank = communicator->collectives->communicator().rank().value;
    return ok();
  });
  return rank;
}

int32_t pleach_communicator_rank_count(const pleach_communicator* communicator) {
  int32_t count = -1;
  call("pleach_communicator_rank_count", {{communicator, "communicator"}}, [&] {
    count = communicator->collectives->communicator().rank_count();
    return ok();
  });
  return count;
}
