#include "pleach/runtime/rendezvous/store.h"

#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "pleach/base/text.h"

namespace pleach {
namespace {

std::string here_key(const std::string& name, int32_t rank) {
  return fmt::format("{}/here/{}", name, rank);
}

// Why a barrier did not end: the ranks that have not come.
Error explain(Store& store, const std::string& name, int32_t rank_count, Duration deadline) {
  std::vector<std::string> missing;
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    const Result<std::string> here = store.get(here_key(name, rank), Duration::zero());
    if (!here && here.error().code == ErrorCode::kTimeout) {
      missing.push_back(std::to_string(rank));
    } else if (!here) {
      return here.error();
    }
  }
  const double seconds = std::chrono::duration<double>(deadline).count();
  if (missing.empty()) {
    return Error{ErrorCode::kTimeout,
                 fmt::format("barrier {} did not end within {:.3g} s", quoted(name), seconds)};
  }
  return Error{ErrorCode::kTimeout,
               fmt::format("barrier {}: rank{} {} did not come within {:.3g} s", quoted(name),
                           missing.size() == 1 ? "" : "s", join(missing, ", "), seconds)};
}

}  // namespace

Error fail_job(Store& store, ErrorCode code, const Failure& failure) {
  store.fail(failure);
  const std::optional<Failure> first = store.failure();
  if (!first || first->message == failure.message) {
    return Error{code, failure.message};
  }
  return Error{ErrorCode::kPeerLost, first->message};
}

Status barrier(Store& store, const std::string& name, Rank rank, int32_t rank_count,
               Duration deadline) {
  PLEACH_TRY(store.set(here_key(name, rank.value), ""));
  PLEACH_ASSIGN(arrived, store.increment(name + "/arrived"));
  const std::string all_key = name + "/all";
  if (arrived == rank_count) {
    PLEACH_TRY(store.set(all_key, ""));
  } else if (const Result<std::string> all = store.get(all_key, deadline); !all) {
    return all.error().code == ErrorCode::kTimeout ? explain(store, name, rank_count, deadline)
                                                   : all.error();
  }
  PLEACH_ASSIGN(left, store.increment(name + "/left"));
  return left == rank_count ? store.erase(name + "/") : ok();
}

}  // namespace pleach
