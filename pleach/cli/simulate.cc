// pleach simulate: times a schedule on a topology.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "pleach/cli/comparison.h"
#include "pleach/cli/log.h"
#include "pleach/cli/print.h"
#include "pleach/cli/table.h"
#include "pleach/cli/timing_options.h"
#include "pleach/training/switch_configurations.h"

namespace pleach {
namespace {

void declare(CommandLine& line) {
  declare_topology(line);
  line.option("--size", "whole buffer of one rank: 64MiB");
  line.option("--sizes", "several, as a table: 1KiB:256MiB:4 (from, to, factor) or a list");
  line.option("--groups",
              "ranks of groups that each do it, all at once: 0,4,8;1,5,9; with roots: 4:0-7; "
              "io:0-19 is one for each I/O node");
  line.option(
      "--on-conflict",
      "of --groups that switches cannot carry at once: wait; decompose, into rings of their "
      "ranks; fail",
      "wait");
  declare_schedule(line);
  declare_timing(line, "1");
  line.option("--cycle",
              "length of a clock cycle; not given: the model's, or 1ns where it has no clock");
  line.option("--csv", "folder for links.csv and collectives.csv; of a table, comparison.csv");
  line.json_flag();
}

Result<TimingRequest> single_request(const CommandLine& line, const std::string& model) {
  PLEACH_ASSIGN(request, timing_request(line));
  request.model = model;
  PLEACH_SET(request.size_bytes, line.value("--size", parse_size_bytes));
  if (line.given("--cycle")) {
    PLEACH_SET(request.cycle_ps, line.value("--cycle", parse_time_ps));
    PLEACH_TRY(from_option("--cycle", check_cycle(request)));
  }
  return request;
}

// What is timed together: one schedule, or one for each group.
struct Timed {
  std::vector<std::shared_ptr<const Schedule>> schedules;
  Timing timing;

  std::vector<GroupTiming> groups(const Topology& topology) const {
    std::vector<GroupTiming> groups;
    for (std::size_t index = 0; index < schedules.size(); ++index) {
      GroupTiming& group = groups.emplace_back();
      const Schedule& schedule = *schedules[index];
      for (const NodeId node : schedule.participants) {
        group.nodes.push_back(topology.node(node).name);
      }
      group.root = has_root(schedule.collective) ? group.nodes[schedule.root.index()] : "";
      group.time_ps = timing.simulation.job_finish_ps[index];
    }
    return groups;
  }
};

// What the groups do at once; of a collective with a root, the root is the first of its group.
TrainingPhase phase_of(CollectiveKind collective, std::span<const ScheduleRequest> requests) {
  TrainingPhase phase{std::string(to_text(collective)), collective, {{}}};
  for (const ScheduleRequest& request : requests) {
    NodeGroup& group = phase.rounds.front().emplace_back(request.participants);
    const auto root = group.begin() + request.root.value_or(Rank{0}).value;
    std::rotate(group.begin(), root, root + 1);
  }
  return phase;
}

// With --on-conflict fail an error names groups that switches cannot carry at once, with decompose
// they get rings.
Status settle_conflicts(const CommandLine& line, const Topology& topology,
                        std::span<const ScheduleRequest> requests, const TimingRequest& how,
                        Planner& planner, CommonChoice& choice) {
  PLEACH_ASSIGN(answer, line.value("--on-conflict", [](const std::string& text) {
    return parse_on_conflict(text);
  }));
  if (answer == OnConflict::kWait) {
    return ok();
  }
  const TrainingPhase phase = phase_of(choice.schedules.front()->collective, requests);
  PLEACH_ASSIGN(found, groups_in_conflict(topology, phase, planner));
  if (found.groups.empty()) {
    return ok();
  }
  if (answer == OnConflict::kFail) {
    return Error{ErrorCode::kInfeasible, conflict_text(topology, phase, found.conflicts.front())};
  }
  std::vector<ScheduleRequest> in_conflict;
  for (const int32_t group : found.groups) {
    in_conflict.push_back(requests[at(group)]);
  }
  PLEACH_ASSIGN(rings, make_planner(topology, "ring", planner_options(how)));
  PLEACH_ASSIGN(decomposed, rings->choose_together(in_conflict, how.size_bytes));
  for (std::size_t ring = 0; ring < in_conflict.size(); ++ring) {
    choice.schedules[at(found.groups[ring])] = std::move(decomposed.schedules[ring]);
  }
  return ok();
}

Result<Timed> time_groups(const CommandLine& line, const Topology& topology,
                          const std::string& source, TimingRequest how) {
  PLEACH_ASSIGN(collective, line.value("--collective", parse_collective));
  PLEACH_ASSIGN(groups,
                from_option("--groups", parse_groups(topology, line.text("--groups"), collective)));
  PLEACH_ASSIGN(planner, make_planner(topology, source, planner_options(how)));
  PLEACH_ASSIGN(choice, planner->choose_together(groups, how.size_bytes));
  PLEACH_TRY(settle_conflicts(line, topology, groups, how, *planner, choice));
  how.options.segment_count = choice.segment_count;
  how.choose_segments = false;
  Timed timed;
  PLEACH_SET(timed.timing, time_together(topology, choice.schedules, how));
  timed.schedules = std::move(choice.schedules);
  return timed;
}

Result<Timed> time_one(const CommandLine& line, const Topology& topology, const std::string& source,
                       const TimingRequest& how) {
  PLEACH_ASSIGN(request, schedule_request(line, topology, source));
  log_step(fmt::format("obtaining a schedule: {}", pleach::quoted(source)));
  request.size_bytes = how.size_bytes;
  PLEACH_ASSIGN(schedule, obtain_schedule(topology, source, request, planner_options(how)));
  log_step(fmt::format("simulating {} transfers by {}", schedule->transfer_count(), how.model));
  Timed timed;
  PLEACH_SET(timed.timing, time_schedule(topology, schedule, how));
  timed.schedules.push_back(std::move(schedule));
  return timed;
}

std::string groups_text(const Timing& timing, std::span<const GroupTiming> groups) {
  Table table({{"  group", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"algbw", Table::Align::kRight}});
  for (const GroupTiming& group : groups) {
    table.add({"  " + fmt::format("{}", fmt::join(group.nodes, ",")), format_time(group.time_ps),
               format_bandwidth(algbw_bytes_per_s(timing.size_bytes, group.time_ps))});
  }
  return groups.empty() ? "" : "\n" + table.text();
}

// What would change the time much; empty: nothing that shows.
std::string note_of(const ScheduleSummary& schedule, const Timing& timing) {
  constexpr double kNear = 0.98;
  const double of_large = schedule.provenance.certificate.algbw_bytes_per_s;
  if (timing.messages_are_free && timing.segment_count > 1) {
    return "messages are free on this topology; with overhead= or link=, fewer segments may win";
  }
  if (timing.segment_count == 1 && timing.algbw_bytes_per_s < kNear * of_large) {
    return fmt::format("large sizes come to {}; --segments auto, to what is possible here",
                       format_bandwidth(of_large));
  }
  return "";
}

std::string text_of(const ScheduleSummary& schedule, const Timing& timing) {
  const double bound = schedule.provenance.certificate.bound_algbw_bytes_per_s;
  Facts facts;
  const std::size_t groups = timing.simulation.job_finish_ps.size();
  facts.add(
      "schedule",
      fmt::format("{} {} of {} on {} ranks{}", schedule.provenance.algorithm,
                  to_text(schedule.collective), format_size(timing.size_bytes), schedule.rank_count,
                  groups > 1 ? fmt::format(", the first of {} groups", groups) : ""));
  facts.add("time",
            fmt::format("{} ({} cycles), {} segment{}", format_time(timing.time_ps), timing.cycles,
                        timing.segment_count, timing.segment_count == 1 ? "" : "s"));
  facts.add("algbw", format_bandwidth(timing.algbw_bytes_per_s) +
                         (bound > 0 ? fmt::format(", {:.1f} % of the bound {}",
                                                  timing.algbw_bytes_per_s / bound * 100,
                                                  format_bandwidth(bound))
                                    : ""));
  facts.add("busbw", format_bandwidth(timing.busbw_bytes_per_s));
  if (const auto& admission = timing.simulation.use.admission) {
    const auto ending = [](auto count) { return count == 1 ? "" : "s"; };
    const auto some = [&](int64_t count, const char* what, const char* more = "") {
      return count == 0 ? "" : fmt::format(", {} {}{}{}", count, what, ending(count), more);
    };
    facts.add(
        "switches",
        fmt::format("{} configuration{}, {} conflict{}, streams waited {} in all{}{}{}",
                    admission->configurations, ending(admission->configurations),
                    admission->conflicts.size(), ending(admission->conflicts.size()),
                    format_time(admission->waited_ps), some(admission->preemptions, "preemption"),
                    some(admission->undecided, "time", " without all lanes tried"),
                    some(admission->reconfigurations, "reconfiguration", " waited for")));
  }
  if (const LinksInUse& links = timing.links; !links.bottleneck.empty()) {
    facts.add("on the wire", format_size(links.bytes));
    facts.add("links", fmt::format("carry {:.1f} % of their bandwidth on average, {} {:.1f} %",
                                   links.utilization_mean * 100, links.bottleneck,
                                   links.bottleneck_utilization * 100));
    facts.add("busy",
              fmt::format("{:.1f} % of the time on average, {} {:.1f} %", links.busy_mean * 100,
                          links.bottleneck, links.bottleneck_busy * 100));
  }
  facts.add("simulated",
            fmt::format("by {}: {} events{}", timing.model, timing.simulation.use.event_count,
                        timing.simulation.use.folded ? ", folded by symmetry" : ""));
  for (const std::string& note : {timing.simulation.use.note, note_of(schedule, timing)}) {
    if (!note.empty()) {
      facts.add("note", note);
    }
  }
  return facts.text();
}

Result<ExitCode> simulate_one(const CommandLine& line, const Invocation& invocation,
                              const std::string& source, const std::string& model) {
  const Stopwatch watch;
  PLEACH_ASSIGN(how, single_request(line, model));
  PLEACH_ASSIGN(topology, line.value("--topology", load_topology));
  PLEACH_ASSIGN(timed, line.given("--groups") ? time_groups(line, topology, source, how)
                                              : time_one(line, topology, source, how));
  const auto& [schedules, timing] = timed;
  const Schedule& first = *schedules.front();
  if (line.given("--csv")) {
    PLEACH_TRY(write_csv(line, {{"links.csv", links_csv(topology, timing)},
                                {"collectives.csv", collectives_csv(first, timing)}}));
  }
  PLEACH_ASSIGN(summary, summarize(first, topology));
  const auto groups = line.given("--groups") ? timed.groups(topology) : std::vector<GroupTiming>();
  if (line.json()) {
    print_text(invocation.out,
               to_json(summary, timing, watch.elapsed_s(), topology, groups) + "\n");
  } else {
    print_text(invocation.out, text_of(summary, timing) + groups_text(timing, groups));
  }
  return ExitCode::kDone;
}

Result<ExitCode> run_simulate(const Command& command, const Invocation& invocation) {
  CommandLine line(command, invocation);
  declare(line);
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (const auto stop = check_schedule(line)) {
    return *stop;
  }
  if (line.given("--size") == line.given("--sizes")) {
    return line.refuse("give either --size or --sizes");
  }
  PLEACH_ASSIGN(sources, schedule_sources(line));
  PLEACH_ASSIGN(models, models_option(line));
  if (line.given("--groups")) {
    if (!line.given("--size") || sources.size() > 1 || models.size() > 1) {
      return line.refuse("--groups is for one --size, algorithm and model");
    }
    for (const char* option : {"--group", "--root"}) {
      if (line.given(option)) {
        return line.refuse(fmt::format("give either --groups or {}", option));
      }
    }
    if (names_schedule_file(sources.front())) {
      return line.refuse("--groups is for an algorithm: a file says itself which ranks take part");
    }
  }
  if (line.given("--on-conflict") && !line.given("--groups")) {
    return line.refuse("--on-conflict goes with --groups");
  }
  if (line.given("--size") && sources.size() == 1 && models.size() == 1) {
    return simulate_one(line, invocation, sources.front(), models.front());
  }
  if (line.given("--cycle")) {
    return line.refuse("--cycle is for one --size, algorithm and model");
  }
  return print_comparison(line, invocation, sources);
}

}  // namespace

extern const Command kSimulateCommand = {
    "simulate", "times a schedule on a topology",
    "  pleach simulate --topology torus:8x8 --algorithm multitree --size 64MiB\n"
    "  pleach simulate ring.json --topology mesh:4x4 --size 1GB --segments auto\n"
    "  pleach simulate --topology torus:4x4 --algorithm multitree --size 1MiB --gate lockstep\n"
    "  pleach simulate --topology ring:8 --algorithm ring --size 1MiB --csv tables\n"
    "  pleach simulate --topology switch:6 --algorithm ring --size 1MiB --groups \"0-2;3-5\"\n"
    "  pleach simulate --topology wafer_mesh:5x4 --algorithm io_tree --collective broadcast "
    "--size 1GB\n"
    "    --segments auto --groups io:0-19       every I/O node to all ranks, at once\n"
    "  pleach simulate --topology ring:8 --algorithm ring,direct --sizes 1KiB:1GiB:32\n",
    run_simulate};

}  // namespace pleach
