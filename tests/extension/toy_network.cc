// A network in which every message takes the same time, whatever its size, its way and its company.
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "pleach/network/execution.h"
#include "pleach/network/job_checks.h"
#include "pleach/network/model.h"
#include "pleach/network/schedule_forms.h"

namespace pleach {
namespace {

class ToySession final : public NetworkSession {
 public:
  ToySession(const Topology& topology, const SimulationOptions& options, int64_t message_ps)
      : topology_(topology),
        options_(options),
        message_ps_(message_ps),
        known_(topology, options_) {
    use_.links.resize(topology.links().size());
  }

  Result<int32_t> start(const Job& job) override {
    PLEACH_TRY(check_job(topology_, job, now_ps_));
    PLEACH_ASSIGN(forms, known_.find(job.schedule));
    PLEACH_ASSIGN(lowered, forms->whole(job.size_bytes));
    jobs_.emplace_back(std::move(lowered), options_, InterfaceRules{{message_ps_, message_ps_}});
    const int32_t number = count_of(jobs_) - 1;
    running_.insert(number);
    tell(number, job.start_ps, [](Execution& one, int64_t now_ps) { one.start(now_ps); });
    return number;
  }
  std::optional<int64_t> next_ps() const override {
    return running_.empty() ? std::nullopt : std::optional(events_.begin()->first);
  }
  Result<std::vector<Finish>> advance(int64_t until_ps) override {
    finished_.clear();
    const auto is_due = [&] {
      return finished_.empty() ? !running_.empty() && events_.begin()->first <= until_ps
                               : !events_.empty() && events_.begin()->first == now_ps_;
    };
    while (is_due()) {
      const auto event = events_.extract(events_.begin());
      now_ps_ = event.key();
      event.mapped()();
    }
    std::ranges::sort(finished_, {}, &Finish::job);
    return finished_;
  }
  Result<NetworkUse> use() override { return use_; }

 private:
  // Tells the job something at a time, and does what follows.
  void tell(int32_t job, int64_t time_ps, const std::function<void(Execution&, int64_t)>& what) {
    events_.emplace(time_ps, [this, job, what] {
      Execution& execution = jobs_[at(job)];
      what(execution, now_ps_);
      if (execution.is_finished() && running_.erase(job) > 0) {
        finished_.push_back({job, now_ps_});
      }
      for (const auto& [kind, rank, end_ps] : std::exchange(execution.answers().alarms, {})) {
        // An alarm of this very time comes after all that is known of it.
        const auto call = kind == Execution::Alarm::Kind::kReduced   ? &Execution::reduced
                          : kind == Execution::Alarm::Kind::kNopOver ? &Execution::nop_over
                                                                     : &Execution::reduce;
        tell(job, end_ps, [call, at_rank = rank](Execution& one, int64_t then_ps) {
          (one.*call)(at_rank, then_ps);
        });
      }
      for (const int32_t connection : std::exchange(execution.answers().connections, {})) {
        while (execution.next(connection) != nullptr) {
          ++use_.event_count;
          const Send send = execution.begin(connection, now_ps_);
          tell(job, now_ps_ + message_ps_, [send](Execution& one, int64_t then_ps) {
            one.sent(send, then_ps);
            one.over(send, then_ps);
            one.arrived(send, then_ps);
          });
        }
      }
    });
  }

  const Topology& topology_;
  const SimulationOptions options_;
  const int64_t message_ps_;
  KnownSchedules known_;
  std::deque<Execution> jobs_;
  std::set<int32_t> running_;
  std::multimap<int64_t, std::function<void()>> events_;  // by time
  std::vector<Finish> finished_;
  NetworkUse use_;
  int64_t now_ps_ = 0;
};

Result<std::unique_ptr<NetworkSession>> open(const Topology& topology,
                                             const SimulationOptions& options, const Options& own) {
  return std::unique_ptr<NetworkSession>(
      std::make_unique<ToySession>(topology, options, own.number("message")));
}

}  // namespace

extern const NetworkModel kToyNetwork = {
    .name = "toy",
    .summary = "every message takes the same time",
    .source = {},
    .options = {{.name = "message",
                 .kind = OptionDescriptor::Kind::kTime,
                 .default_value = "1us",
                 .summary = "of one message"}},
    .obeys_links = false,
    .open = open,
};

}  // namespace pleach
