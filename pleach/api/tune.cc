#include "pleach/api/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "pleach/api/host.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/planning/auto_planner.h"
#include "pleach/runtime/communicator.h"
#include "pleach/runtime/prepared_schedule.h"
#include "pleach/runtime/rendezvous/agreement.h"

namespace pleach {
namespace {

// From this size on a pipeline may be worth its messages.
constexpr int64_t kLeastCut = int64_t{256} * 1024;
constexpr int32_t kSegments = 4;
// What takes so many times as long as the fastest is not run again.
constexpr double kOutOfTheRace = 1.5;

// Short enough to be undisturbed, long enough for a clock.
int32_t iterations_of(int64_t size_bytes) {
  return static_cast<int32_t>(std::clamp<int64_t>((int64_t{4} << 20) / size_bytes, 2, 200));
}

// What one size takes: whole blocks of an all_to_all, and one at the least.
int64_t count_of_size(const ScheduleRequest& request, int64_t rank_count) {
  const int64_t blocks = request.collective == CollectiveKind::kAllToAll ? rank_count : 1;
  const int64_t elements = request.size_bytes / element_bytes(ElementType::kFloat32);
  return std::max<int64_t>(elements / blocks, 1) * blocks;
}

// One way to do a collective of one size.
struct Contender {
  std::size_t candidate = 0;
  int32_t segment_count = 1;
  std::vector<double> times_s = {};  // on rank 0
};

class Tuner {
 public:
  // `name`: what the keys of its agreements begin with.
  Tuner(const TuneOptions& options, const Topology& topology, const GroupOfRanks& group,
        std::string name, Communicator& communicator)
      : options_(options),
        topology_(topology),
        group_(group),
        name_(std::move(name)),
        communicator_(communicator),
        input_(at(std::max(options.sizes_bytes.back(),
                           group.rank_count * element_bytes(ElementType::kFloat32)))),
        output_(input_.size()) {}

  Result<std::optional<Choice>> choose(const ScheduleRequest& request);

 private:
  Status change_to(CollectiveKind collective);
  Result<double> time(const Contender& contender, const ScheduleRequest& asked);
  Result<std::vector<Contender>> without_slow_ones(const std::vector<Contender>& contenders);
  Result<std::string> hear(const std::function<Result<std::string>()>& say);

  bool is_first() const { return group_.rank.value == 0; }

  const TuneOptions& options_;
  const Topology& topology_;
  const GroupOfRanks& group_;
  const std::string name_;
  Communicator& communicator_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  // What does the collective that is measured now.
  struct Ready {
    std::optional<CollectiveKind> collective = {};
    std::vector<std::shared_ptr<const Schedule>> candidates = {};  // on rank 0
    std::vector<std::shared_ptr<const PreparedSchedule>> prepared = {};
  };
  Ready ready_;
  int64_t heard_ = 0;
};

// What rank 0 says.
Result<std::string> Tuner::hear(const std::function<Result<std::string>()>& say) {
  PLEACH_ASSIGN(word, broadcast(group_, fmt::format("{}/tune/{}", name_, heard_++), say));
  return std::move(word);
}

// Prepares all that does the collective, which may be nothing.
Status Tuner::change_to(CollectiveKind collective) {
  ready_ = {.collective = collective};
  const auto count = [&]() -> Result<std::string> {
    if (options_.progress) {
      options_.progress(fmt::format("measuring {}", to_text(collective)));
    }
    PlannerOptions options;
    options.wants_certificate = false;
    options.only_what_ranks_run = true;
    auto found = candidate_schedules(topology_, {.collective = collective}, options);
    if (found) {
      ready_.candidates = std::move(*found);
    } else if (options_.progress) {
      options_.progress(fmt::format("no {}: {}", to_text(collective), found.error().message));
    }
    return std::to_string(ready_.candidates.size());
  };
  PLEACH_ASSIGN(said, hear(count));
  PLEACH_ASSIGN(candidate_count, parse_integer(said, "candidates", 0, INT32_MAX));
  for (std::size_t i = 0; i < at(candidate_count); ++i) {
    PLEACH_ASSIGN(prepared,
                  communicator_.prepare(is_first() ? ready_.candidates[i].get() : nullptr));
    ready_.prepared.push_back(std::move(prepared));
  }
  return ok();
}

// Of one operation [s].
Result<double> Tuner::time(const Contender& contender, const ScheduleRequest& asked) {
  const RunRequest request = {.type = ElementType::kFloat32,
                              .count = count_of_size(asked, group_.rank_count),
                              .segment_count = contender.segment_count,
                              .input = input_.data(),
                              .output = output_.data()};
  const PreparedSchedule& schedule = *ready_.prepared[contender.candidate];
  const int32_t iterations = iterations_of(asked.size_bytes);
  PLEACH_TRY(communicator_.run(schedule, request));
  PLEACH_TRY(communicator_.barrier());
  const SteadyClock clock;
  const TimePoint start = clock.now();
  for (int32_t iteration = 0; iteration < iterations; ++iteration) {
    PLEACH_TRY(communicator_.run(schedule, request));
  }
  PLEACH_TRY(communicator_.barrier());
  return seconds_of(clock.now() - start) / iterations;
}

// Those that rank 0 has found worth another round.
Result<std::vector<Contender>> Tuner::without_slow_ones(const std::vector<Contender>& contenders) {
  const auto numbers = [&]() -> Result<std::string> {
    std::vector<double> times_s;
    times_s.reserve(contenders.size());
    for (const Contender& contender : contenders) {
      times_s.push_back(contender.times_s.front());
    }
    return fmt::format("{}", fmt::join(worth_another_round(times_s), " "));
  };
  PLEACH_ASSIGN(said, hear(numbers));
  std::vector<Contender> left;
  for (const std::string_view word : split(said, ' ')) {
    PLEACH_ASSIGN(number, parse_integer(word, "contender", 0, std::ssize(contenders) - 1));
    left.push_back(contenders[at(number)]);
  }
  return left;
}

Result<std::optional<Choice>> Tuner::choose(const ScheduleRequest& request) {
  if (request.collective != ready_.collective) {
    PLEACH_TRY(change_to(*request.collective));
  }
  if (ready_.prepared.empty()) {
    return std::optional<Choice>();
  }
  std::vector<Contender> contenders;
  for (std::size_t candidate = 0; candidate < ready_.prepared.size(); ++candidate) {
    contenders.push_back({candidate, 1});
    if (request.size_bytes >= kLeastCut) {
      contenders.push_back({candidate, kSegments});
    }
  }
  for (int32_t round = 0; round < options_.rounds; ++round) {
    for (Contender& contender : contenders) {
      PLEACH_ASSIGN(time_s, time(contender, request));
      contender.times_s.push_back(time_s);
    }
    if (round == 0) {
      PLEACH_SET(contenders, without_slow_ones(contenders));
    }
  }
  std::vector<std::vector<double>> times_s;
  times_s.reserve(contenders.size());
  for (const Contender& contender : contenders) {
    times_s.push_back(contender.times_s);
  }
  const Contender& best = contenders[fastest(times_s)];
  const auto& prepared = ready_.prepared[best.candidate];
  return std::optional<Choice>(
      {is_first() ? ready_.candidates[best.candidate]
                  : std::shared_ptr<const Schedule>(prepared, &prepared->schedule()),
       best.segment_count});
}

}  // namespace

std::vector<std::size_t> worth_another_round(std::span<const double> times_s) {
  const double least = std::ranges::min(times_s);
  std::vector<std::size_t> worth;
  for (std::size_t i = 0; i < times_s.size(); ++i) {
    if (times_s[i] <= kOutOfTheRace * least) {
      worth.push_back(i);
    }
  }
  return worth;
}

std::size_t fastest(std::span<const std::vector<double>> times_s) {
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  return at(std::ranges::min_element(times_s, {}, median) - times_s.begin());
}

Result<Book> tune_book(EndpointOptions endpoint_options, const TuneOptions& options) {
  PLEACH_TRY(check_book_sizes(options.sizes_bytes));
  const std::string name = endpoint_options.name;
  PLEACH_ASSIGN(endpoint, Endpoint::create(std::move(endpoint_options)));
  const std::vector<int32_t> hosts =
      endpoint->hosts().empty() ? spread_over_hosts(endpoint->rank_count(), 1) : endpoint->hosts();
  PLEACH_ASSIGN(known,
                default_topology(endpoint->transport(), hosts, endpoint->transport() + ", measured",
                                 *default_network("")));
  PLEACH_ASSIGN(communicator, Communicator::create(endpoint, {.name = name}));
  const GroupOfRanks group{endpoint->store(), endpoint->rank(), endpoint->rank_count(),
                           endpoint->deadline()};
  Tuner tuner(options, known.topology, group, name, *communicator);
  PLEACH_ASSIGN(book,
                make_book(known.topology, options.sizes_bytes,
                          [&](const ScheduleRequest& request) { return tuner.choose(request); }));
  PLEACH_TRY(communicator->close());
  return std::move(book);
}

}  // namespace pleach
