#include "pleach/api/timing.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/api/library.h"
#include "pleach/base/names.h"
#include "pleach/python/bindings.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"
#include "pleach/python/progress.h"
#include "pleach/python/schedule.h"
#include "pleach/python/values.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// How simulations are asked for; none of segments: the best number of them.
struct HowSimulated {
  std::string model;
  std::optional<int32_t> segments;
  std::string gate;
  std::string flow_control;
  std::string admission;
  int32_t landing_places;
  std::optional<Bandwidth> reduce_bandwidth;  // none: as the model has it
  bool fold;
  Time reconfiguration;
};

TimingRequest timing_of(const HowSimulated& how) {
  TimingRequest request;
  request.model = how.model;
  request.choose_segments = !how.segments.has_value();
  SimulationOptions& options = request.options;
  options.segment_count = how.segments.value_or(1);
  options.gate = take(parse_name(kGates, "gate", how.gate));
  options.flow_control = take(parse_name(kFlowControls, "flow_control", how.flow_control));
  options.admission = take(parse_name(kAdmissionRules, "admission", how.admission));
  options.landing_places = how.landing_places;
  if (how.reduce_bandwidth.has_value()) {
    options.reduce_bandwidth_bytes_per_s = bandwidth_bytes_per_s(*how.reduce_bandwidth);
  }
  options.fold = how.fold;
  options.reconfiguration_ps = time_ps(how.reconfiguration);
  return request;
}

using SimulationResult = std::tuple<std::string, std::vector<int64_t>, std::vector<int64_t>>;

SimulationResult simulate(const SharedSchedule& schedule, const Topology& topology,
                          const Size& size, const HowSimulated& how,
                          const std::optional<Time>& cycle) {
  TimingRequest request = timing_of(how);
  request.size_bytes = size_bytes(size);
  if (cycle.has_value()) {
    request.cycle_ps = time_ps(*cycle);
  }
  require_fit(schedule, topology);
  ScheduleSummary summary;
  const Timing timing = take(unlocked([&]() -> Result<Timing> {
    PLEACH_SET(summary, summarize(*schedule.value, topology));
    return time_schedule(topology, schedule.value, request);
  }));
  std::vector<int64_t> busy_ps;
  std::vector<int64_t> wire_bytes;
  for (const LinkUse& use : timing.simulation.use.links) {
    busy_ps.push_back(use.busy_ps);
    wire_bytes.push_back(use.wire_bytes);
  }
  return {to_json(summary, timing, 0, topology), std::move(busy_ps), std::move(wire_bytes)};
}

struct Compared {
  std::vector<const Topology*> topologies;
  std::vector<std::string> sources;
  std::vector<Size> sizes;
  std::vector<std::string> models;
  std::optional<std::string> collective;
  std::optional<std::string> group;
  std::optional<int32_t> root;
};

Comparison comparison_of(const Compared& what, const HowSimulated& how, const Progress& progress) {
  ComparisonRequest request;
  request.how = timing_of(how);
  request.models = what.models;
  for (const Size& size : what.sizes) {
    request.sizes_bytes.push_back(size_bytes(size));
  }
  for (const Topology* topology : what.topologies) {
    if (topology == nullptr) {
      raise(invalid("topologies: None is none"));
    }
    for (const std::string& source : what.sources) {
      ScheduleRequest schedule = request_of(what.collective, std::nullopt, what.root, 0);
      if (what.group.has_value()) {
        schedule.participants = take(parse_group(*topology, *what.group));
      }
      request.cases.push_back({topology, topology->name(), source, std::move(schedule)});
    }
  }
  ProgressCalls calls(progress);
  request.progress = calls.function();
  return take(calls.unlocked([&] { return compare(request); }));
}

void bind_books(nb::module_& module) {
  nb::class_<Book>(module, "Book", "What ranks run for every collective and size.")
      .def_ro("topology", &Book::topology, "The name of what it was planned for.")
      .def_ro("rank_count", &Book::rank_count)
      .def(
          "save",
          [](const Book& self, const std::string& path) {
            check(unlocked([&] { return write_book(self, path); }));
          },
          nb::arg("path"), "Writes a file for PLEACH_BOOK.")
      .def("json", [](const Book& self) { return plan_json(self); })
      .def("__repr__", [](const Book& self) {
        return fmt::format("<pleach.Book of {} ranks on {}, {} entries>", self.rank_count,
                           self.topology, self.entries.size());
      });
  module.def(
      "read_book",
      [](const std::string& path) { return take(unlocked([&] { return read_book(path); })); },
      nb::arg("path"));
  module.def(
      "plan_book",
      [](const Topology& topology, const std::string& algorithm,
         const std::optional<std::vector<Size>>& sizes, const HowSimulated& how) {
        BookOptions options;
        options.algorithm = algorithm;
        options.planner = planner_options(timing_of(how));
        options.planner.wants_certificate = false;
        options.planner.only_what_ranks_run = true;
        options.planner = on_network(options.planner);
        if (sizes.has_value()) {
          options.sizes_bytes.clear();
          for (const Size& size : *sizes) {
            options.sizes_bytes.push_back(size_bytes(size));
          }
        }
        return take(unlocked([&] { return plan_book(topology, options); }));
      },
      nb::arg("topology"), nb::kw_only(), nb::arg("algorithm"), nb::arg("sizes"), nb::arg("how"));
}

}  // namespace

void bind_timing(nb::module_& module) {
  nb::class_<HowSimulated>(module, "HowSimulated")
      .def(nb::init<std::string, std::optional<int32_t>, std::string, std::string, std::string,
                    int32_t, std::optional<Bandwidth>, bool, Time>(),
           nb::kw_only(), nb::arg("model"), nb::arg("segments"), nb::arg("gate"),
           nb::arg("flow_control"), nb::arg("admission"), nb::arg("landing_places"),
           nb::arg("reduce_bandwidth").none(), nb::arg("fold"), nb::arg("reconfiguration"));
  module.def("simulate", simulate, nb::arg("schedule"), nb::arg("topology"), nb::arg("size"),
             nb::arg("how"), nb::arg("cycle").none());
  const auto of = [](const Compared& what, const HowSimulated& how, const Progress& progress) {
    return comparison_of(what, how, progress);
  };
  nb::class_<Compared>(module, "Compared")
      .def(nb::init<std::vector<const Topology*>, std::vector<std::string>, std::vector<Size>,
                    std::vector<std::string>, std::optional<std::string>,
                    std::optional<std::string>, std::optional<int32_t>>(),
           nb::kw_only(), nb::arg("topologies"), nb::arg("sources"), nb::arg("sizes"),
           nb::arg("models"), nb::arg("collective"), nb::arg("group"), nb::arg("root"),
           nb::keep_alive<1, 2>());
  module.def(
      "compare",
      [of](const Compared& what, const HowSimulated& how, const Progress& progress) {
        return to_json(of(what, how, progress), 0);
      },
      nb::arg("what"), nb::arg("how"), nb::arg("progress").none());
  module.def(
      "plan",
      [of](const Compared& what, const HowSimulated& how, const Progress& progress) {
        const Comparison choices = of(what, how, progress);
        if (!choices.refusals.empty()) {
          raise(invalid(choices.refusals.front().why));
        }
        return plan_json(choices);
      },
      nb::arg("what"), nb::arg("how"), nb::arg("progress").none());
  bind_books(module);
}

}  // namespace pleach::python
