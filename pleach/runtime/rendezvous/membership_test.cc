// The rule of epochs, with everything that can happen to some ranks, in every order.
#include "pleach/runtime/rendezvous/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/index.h"

namespace pleach {
namespace {

// ---- A job as a state: a server with the rule, clients, and what is on its way between them.

struct Word {
  enum Kind : char { kFail = 'f', kAsk = 'a', kFailure = 'F', kEpoch = 'E', kNo = 'N', kOut = 'O' };
  Kind kind;
  int64_t epoch = 0;
  int64_t seen_in = 0;  // kFail, kFailure: the epoch that the failure was met in
  uint32_t members = 0;
};

struct Client {
  bool is_dead = false, is_stopped = false;
  bool knows_failure = false, has_asked = false;
  bool knows_that_it_is_out = false;  // or that the server is gone
  int64_t epoch = 0;
  std::deque<Word> up, down;
};

struct Job {
  Membership server;
  std::vector<bool> is_heard;  // by rank: the server has not seen its end
  std::vector<Client> clients;
  int failures = 0, kills = 0, stops = 0, time_outs = 0;  // that may still happen
};

// Rules that lack a part, which must be found out.
struct Rule {
  bool failures_name_their_epoch = true;
  bool lost_ranks_have_no_say = true;
  bool lost_ranks_are_told = true;
  bool all_must_ask = true;
};

Rank rank_of(std::size_t index) {
  return Rank{static_cast<int32_t>(index)};
}

uint32_t bits(const std::vector<Rank>& ranks) {
  uint32_t bits = 0;
  for (const Rank rank : ranks) {
    bits |= 1U << rank.index();
  }
  return bits;
}

std::string text(const std::deque<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    text += std::string(1, word.kind) + std::to_string(word.epoch) + "." +
            std::to_string(word.seen_in) + "." + std::to_string(word.members) + " ";
  }
  return text + "|";
}

std::string text(const Job& job) {
  std::string text = std::to_string(job.server.epoch()) +
                     (job.server.failure() ? job.server.failure()->message : "-") +
                     std::to_string(bits(job.server.members())) + "/" +
                     std::to_string(bits(job.server.missing())) + ";" +
                     std::to_string(job.failures) + std::to_string(job.kills) +
                     std::to_string(job.stops) + std::to_string(job.time_outs) + ";";
  for (std::size_t rank = 0; rank < job.clients.size(); ++rank) {
    const Client& one = job.clients[rank];
    for (const bool flag : {one.is_dead, one.is_stopped, one.knows_failure, one.has_asked,
                            one.knows_that_it_is_out, bool{job.is_heard[rank]}}) {
      text += flag ? '1' : '0';
    }
    text += std::to_string(one.epoch) + pleach::text(one.up) + pleach::text(one.down);
  }
  return text;
}

// ---- What can happen. Each returns what is wrong with it, or nothing.

class Explorer {
 public:
  explicit Explorer(Rule rule) : rule_(rule) {}

  // The first thing that goes wrong in any order of events.
  std::string explore(const Job& first) {
    std::vector<Job> open = {first};
    seen_.insert(text(first));
    while (!open.empty()) {
      const Job job = std::move(open.back());
      open.pop_back();
      std::vector<Job> next;
      const bool goes_on_by_itself = follow(job, next);
      add_accidents(job, next);
      if (problem_.empty() && !goes_on_by_itself) {
        problem_ = judge_rest(job);
      }
      if (!problem_.empty()) {
        return problem_ + " in " + text(job);
      }
      for (Job& one : next) {
        if (seen_.insert(text(one)).second) {
          open.push_back(std::move(one));
        }
      }
    }
    return "";
  }
  std::size_t states() const { return seen_.size(); }

 private:
  void wrong(bool is_wrong, const std::string& what) {
    if (is_wrong && problem_.empty()) {
      problem_ = what;
    }
  }

  void tell_members(Job& job, const Word& word) const {
    for (const Rank rank : job.server.members()) {
      job.clients[rank.index()].down.push_back(word);
    }
  }
  void fail(Job& job, int64_t epoch, int64_t seen_in) {
    const int64_t named = rule_.failures_name_their_epoch ? epoch : job.server.epoch();
    if (job.server.fail(named, {Rank{0}, std::to_string(seen_in)})) {
      wrong(seen_in != job.server.epoch(), "old news ended an epoch");
      tell_members(job, {Word::kFailure, job.server.epoch(), seen_in});
    }
  }
  void advance(Job& job) {
    if (!rule_.all_must_ask && !job.server.missing().empty() &&
        job.server.missing() != job.server.members()) {
      for (const Rank rank : job.server.missing()) {
        job.server.lose(rank);
      }
    }
    if (job.server.advance()) {
      const uint32_t members = bits(job.server.members());
      for (std::size_t rank = 0; rank < job.clients.size(); ++rank) {
        wrong((members >> rank & 1U) != 0 && !job.is_heard[rank], "a lost rank is a member");
      }
      tell_members(job, {Word::kEpoch, job.server.epoch(), 0, members});
    }
  }
  void lose(Job& job, std::size_t rank) {
    job.is_heard[rank] = false;
    if (rule_.lost_ranks_have_no_say) {
      job.server.lose(rank_of(rank));
    }
    if (rule_.lost_ranks_are_told) {
      job.clients[rank].down.push_back({Word::kOut});
    }
    fail(job, job.server.epoch(), job.server.epoch());
    advance(job);
  }

  void hear(Job& job, std::size_t rank) {
    const Word word = job.clients[rank].up.front();
    job.clients[rank].up.pop_front();
    if (!job.is_heard[rank]) {
      return;
    }
    if (word.kind == Word::kFail) {
      fail(job, word.epoch, word.seen_in);
    } else {
      wrong(!job.server.ask(rank_of(rank), word.epoch), "who may ask was not heard");
      advance(job);
    }
  }
  void obey(Client& client, std::size_t rank) {
    const Word word = client.down.front();
    client.down.pop_front();
    switch (word.kind) {
      case Word::kFailure:
        wrong(word.epoch != client.epoch, "failure of another epoch");
        wrong(word.seen_in != word.epoch, "failure that was met in another epoch");
        client.knows_failure = true;
        break;
      case Word::kEpoch:
        wrong(word.epoch != client.epoch + 1 || !client.has_asked, "an epoch it did not ask for");
        wrong((word.members >> rank & 1U) == 0, "an epoch without it");
        client.epoch = word.epoch;
        client.knows_failure = client.has_asked = false;
        break;
      case Word::kNo:
        wrong(!client.has_asked, "an answer to nothing");
        client.has_asked = false;
        break;
      default:
        client.knows_that_it_is_out = true;
    }
  }

  // What follows without any accident. False: nothing does.
  bool follow(const Job& job, std::vector<Job>& next) {
    const std::size_t before = next.size();
    const bool is_served = !job.clients[0].is_dead;
    for (std::size_t rank = 0; rank < job.clients.size(); ++rank) {
      const Client& client = job.clients[rank];
      const bool acts = !client.is_dead && !client.is_stopped && !client.knows_that_it_is_out;
      if (is_served && !client.up.empty()) {
        hear(next.emplace_back(job), rank);
      }
      if (acts && !client.down.empty()) {
        obey(next.emplace_back(job).clients[rank], rank);
      }
      if (acts && client.down.empty() && !is_served) {
        next.emplace_back(job).clients[rank].knows_that_it_is_out = true;
      }
      if (acts && client.knows_failure && !client.has_asked) {
        Client& asks = next.emplace_back(job).clients[rank];
        asks.has_asked = true;
        asks.up.push_back({Word::kAsk, client.epoch});
      }
      const bool is_quiet = client.is_dead ? client.up.empty() : client.is_stopped;
      if (is_served && is_quiet && job.is_heard[rank]) {
        lose(next.emplace_back(job), rank);
      }
      if (client.is_stopped) {
        next.emplace_back(job).clients[rank].is_stopped = false;
      }
    }
    return next.size() > before;
  }

  void add_accidents(const Job& job, std::vector<Job>& next) {
    for (std::size_t rank = 0; rank < job.clients.size(); ++rank) {
      const Client& client = job.clients[rank];
      if (client.is_dead) {
        continue;
      }
      if (job.kills > 0) {
        Job& other = next.emplace_back(job);
        --other.kills;
        other.clients[rank].is_dead = true;
        other.clients[rank].is_stopped = false;
      }
      if (job.stops > 0 && rank != 0 && !client.is_stopped) {
        Job& other = next.emplace_back(job);
        --other.stops;
        other.clients[rank].is_stopped = true;
      }
      // Threads may tell of it late: in an epoch that is over, and after the rank has asked.
      for (int64_t epoch = 0; epoch <= client.epoch && job.failures > 0; ++epoch) {
        Job& other = next.emplace_back(job);
        --other.failures;
        other.clients[rank].up.push_back({Word::kFail, epoch, epoch});
      }
    }
    const std::vector<Rank> missing = job.server.missing();
    if (job.time_outs > 0 && job.server.failure() && missing != job.server.members()) {
      Job& other = next.emplace_back(job);
      --other.time_outs;
      for (const Rank rank : job.server.members()) {
        if (std::ranges::find(missing, rank) == missing.end()) {
          other.clients[rank.index()].down.push_back({Word::kNo});
        }
      }
      other.server.give_up();
    }
  }

  // Nothing happens any more: whoever lives is in the present epoch, or knows that it is not.
  static std::string judge_rest(const Job& job) {
    if (job.clients[0].is_dead) {
      return "";  // all who live know, as nothing follows
    }
    uint32_t in_it = 0;
    for (std::size_t rank = 0; rank < job.clients.size(); ++rank) {
      const Client& client = job.clients[rank];
      if (client.is_dead || client.knows_that_it_is_out) {
        continue;
      }
      if (client.epoch != job.server.epoch()) {
        return "a rank was left behind";
      }
      in_it |= 1U << rank;
    }
    if (job.server.failure()) {
      return "survivors wait for ever";
    }
    return in_it == bits(job.server.members()) ? "" : "the members are not those who live";
  }

  Rule rule_;
  std::set<std::string> seen_;
  std::string problem_;
};

Job job_of(std::size_t ranks, int failures, int kills, int stops, int time_outs) {
  Job job;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(job.server.join(rank_of(rank)));
  }
  job.is_heard.assign(ranks, true);
  job.clients.resize(ranks);
  job.failures = failures;
  job.kills = kills;
  job.stops = stops;
  job.time_outs = time_outs;
  return job;
}

TEST(MembershipTest, SurvivorsGoOnInEveryOrderOfEvents) {
  std::size_t states = 0;
  for (const Job& job :
       {job_of(1, 2, 1, 0, 1), job_of(2, 3, 1, 1, 1), job_of(3, 2, 0, 0, 1), job_of(3, 1, 1, 0, 1),
        job_of(3, 0, 1, 1, 0), job_of(3, 1, 0, 1, 0), job_of(3, 0, 2, 0, 1)}) {
    Explorer explorer{Rule{}};
    EXPECT_EQ(explorer.explore(job), "");
    states += explorer.states();
  }
  RecordProperty("states", static_cast<int>(states));
  EXPECT_GT(states, 10'000U);
}

TEST(MembershipTest, NoPartOfTheRuleCanBeLeftOut) {
  struct Case {
    Rule rule;
    std::string goes_wrong;
  };
  for (const Case& row :
       std::vector<Case>{{{.failures_name_their_epoch = false}, "old news ended an epoch"},
                         {{.lost_ranks_have_no_say = false}, "survivors wait for ever"},
                         {{.lost_ranks_are_told = false}, "a rank was left behind"},
                         {{.all_must_ask = false}, "who may ask was not heard"}}) {
    Explorer explorer(row.rule);
    EXPECT_TRUE(explorer.explore(job_of(3, 2, 0, 1, 0)).starts_with(row.goes_wrong))
        << row.goes_wrong;
  }
}

TEST(MembershipTest, WhoIsNotAMemberCannotComeBack) {
  Membership job;
  for (int32_t rank = 0; rank < 4; ++rank) {
    ASSERT_TRUE(job.join(Rank{rank}));
  }
  job.leave(Rank{3});
  EXPECT_TRUE(job.join(Rank{3})) << "the first epoch lasts";
  job.leave(Rank{3});
  job.lose(Rank{1});
  EXPECT_FALSE(job.join(Rank{1}));
  EXPECT_FALSE(job.ask(Rank{0}, 0)) << "nothing has failed";
  EXPECT_FALSE(job.advance());
  EXPECT_TRUE(job.fail(0, {Rank{1}, "rank 1 was lost"}));
  EXPECT_FALSE(job.fail(0, {Rank{2}, "later"}));
  EXPECT_FALSE(job.ask(Rank{1}, 0));
  EXPECT_TRUE(job.ask(Rank{0}, 0));
  EXPECT_FALSE(job.advance());
  EXPECT_EQ(job.missing(), std::vector{Rank{2}});
  EXPECT_TRUE(job.ask(Rank{2}, 0));
  EXPECT_TRUE(job.advance());
  EXPECT_EQ(job.epoch(), 1);
  EXPECT_EQ(job.members(), (std::vector{Rank{0}, Rank{2}}));
  EXPECT_FALSE(job.failure().has_value());
  for (const int32_t rank : {1, 3, 4}) {
    EXPECT_FALSE(job.join(Rank{rank})) << rank;
  }
  EXPECT_FALSE(job.fail(0, {Rank{2}, "old news"}));
}

}  // namespace
}  // namespace pleach
