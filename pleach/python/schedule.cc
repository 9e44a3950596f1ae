#include "pleach/python/schedule.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "pleach/api/library.h"
#include "pleach/python/bindings.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"
#include "pleach/python/values.h"

namespace pleach::python {

namespace nb = nanobind;

ScheduleRequest request_of(const std::optional<std::string>& collective,
                           const std::optional<std::vector<int32_t>>& group,
                           std::optional<int32_t> root, int64_t size_bytes) {
  ScheduleRequest request;
  request.size_bytes = size_bytes;
  if (collective.has_value()) {
    request.collective = take(parse_collective(*collective));
  }
  for (const int32_t node : group.value_or(std::vector<int32_t>())) {
    request.participants.push_back({node});
  }
  if (root.has_value()) {
    request.root = Rank{*root};
  }
  return request;
}

void require_fit(const SharedSchedule& schedule, const Topology& topology) {
  if (!schedule.is_proved) {
    const Verification verification = unlocked([&] { return verify(*schedule.value, &topology); });
    if (!verification.correct) {
      raise_violation(verification.violations.front());
    }
    return;
  }
  const auto violations = unlocked([&] { return check_form(*schedule.value, &topology, 1); });
  if (!violations.empty()) {
    raise(invalid(violations.front()));
  }
}

namespace {

// A message of a schedule, between nodes by number.
struct TransferView {
  Transfer transfer;
  std::vector<int32_t> route;  // links; empty: the executor's choice
};

// Signals reach Python meanwhile: there may be millions.
nb::typed<nb::list, TransferView> transfers_of(const SharedSchedule& shared) {
  constexpr int64_t kBetweenSignals = 1024;
  const Schedule& schedule = *shared.value;
  nb::typed<nb::list, TransferView> views;
  int64_t count = 0;
  for (const Transfer& transfer : schedule.transfers) {
    TransferView view{transfer, {}};
    if (transfer.route != kNoRoute) {
      view.route = numbers_of(schedule.routes[transfer.route]);
    }
    views.append(nb::cast(std::move(view)));
    if (++count % kBetweenSignals == 0 && PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
  }
  return views;
}

std::string verification_json(const Schedule& schedule, const Topology* topology) {
  const Verification verification = unlocked([&] {
    return verify(schedule, topology,
                  topology == nullptr ? SwitchJudge() : switch_judge(*topology));
  });
  return to_json(verification, topology != nullptr,
                 topology == nullptr ? std::nullopt : is_planned_for(schedule, *topology), 0);
}

void bind_transfer(nb::module_& module) {
  nb::class_<TransferView>(module, "Transfer", "A message of a schedule, between nodes by number.")
      .def_prop_ro("first_chunk",
                   [](const TransferView& self) { return self.transfer.first_chunk; })
      .def_prop_ro("chunk_count",
                   [](const TransferView& self) { return self.transfer.chunk_count; })
      .def_prop_ro("source", [](const TransferView& self) { return self.transfer.source.value; })
      .def_prop_ro("target", [](const TransferView& self) { return self.transfer.target.value; })
      .def_prop_ro("step", [](const TransferView& self) { return self.transfer.step; })
      .def_prop_ro(
          "source_pass", [](const TransferView& self) { return self.transfer.source_pass; },
          "Which pass of a switch it leaves; 0 at a rank.")
      .def_prop_ro(
          "target_pass", [](const TransferView& self) { return self.transfer.target_pass; },
          "Which pass of a switch it enters; 0 at a rank.")
      .def_prop_ro(
          "op",
          [](const TransferView& self) {
            return std::string(self.transfer.op == TransferOp::kCopy ? "copy" : "reduce");
          },
          "`copy` or `reduce`.")
      .def_ro("route", &TransferView::route, "Links by number; empty: the executor's choice.")
      .def("__repr__", [](const TransferView& self) {
        const Transfer& transfer = self.transfer;
        return fmt::format("<pleach.Transfer step {}: {}->{} {} chunks {} to {}>", transfer.step,
                           transfer.source.value, transfer.target.value,
                           transfer.op == TransferOp::kCopy ? "copy" : "reduce",
                           transfer.first_chunk, transfer.first_chunk + transfer.chunk_count);
      });
}

uint64_t hash_of(const SharedSchedule& self) {
  return unlocked([&] { return schedule_hash(*self.value); });
}

void bind_properties(nb::class_<SharedSchedule>& type) {
  const auto property = [&type](const char* name, auto get, const char* text) {
    type.def_prop_ro(
        name, [get](const SharedSchedule& self) { return get(*self.value); }, text);
  };
  property(
      "collective", [](const Schedule& self) { return std::string(to_text(self.collective)); },
      "`all_reduce`, ...");
  property(
      "root", [](const Schedule& self) { return self.root.value; }, "0 where it has none.");
  property(
      "participants", [](const Schedule& self) { return numbers_of(self.participants); },
      "The nodes of the ranks, by rank.");
  property(
      "rank_count", [](const Schedule& self) { return self.rank_count(); }, "");
  property(
      "step_count", [](const Schedule& self) { return self.step_count(); }, "");
  property(
      "phase_steps", [](const Schedule& self) { return self.phase_steps; }, "Steps of each phase.");
  property(
      "period", [](const Schedule& self) { return self.period; },
      "Steps after which the next segment may start.");
  property(
      "chunk_count", [](const Schedule& self) { return self.chunks.count(); }, "");
  property(
      "transfer_count", [](const Schedule& self) { return self.transfer_count(); },
      "Translates of a symmetric schedule included.");
  property(
      "is_symmetric", [](const Schedule& self) { return self.symmetry.has_value(); },
      "Whether its transfers stand for all their translates.");
  property(
      "algorithm", [](const Schedule& self) { return self.provenance.algorithm; }, "Who wrote it.");
  property(
      "options", [](const Schedule& self) { return self.provenance.options; }, "");
  type.def_prop_ro(
      "transfers", transfers_of,
      "All of them, by step, chunk, source and target; of a symmetric schedule those of the\n"
      "representative chunks.");
  type.def_prop_ro("hash", hash_of, "Of everything but who wrote it; equal on all ranks of a job.");
}

void bind_schedule_class(nb::module_& module) {
  nb::class_<SharedSchedule> type(
      module, "Schedule", "All messages of one collective, for all ranks. Does not change.");
  bind_properties(type);
  type.def(
          "save",
          [](const SharedSchedule& self, const std::string& path) {
            check(unlocked([&] { return write_schedule(*self.value, path); }));
          },
          nb::arg("path"), "Writes it in the format of the extension, .json or .pleach.")
      .def(
          "expanded",
          [](const SharedSchedule& self, const Topology& topology) {
            require_fit(self, topology);
            return SharedSchedule{std::make_shared<const Schedule>(
                take(unlocked([&] { return expand(*self.value, &topology); })))};
          },
          nb::arg("topology"), "The same without symmetry: every transfer written out.")
      .def(
          "__eq__",
          [](const SharedSchedule& self, const SharedSchedule& other) {
            return unlocked([&] { return *self.value == *other.value; });
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", hash_of)
      .def("__repr__", [](const SharedSchedule& self) {
        return fmt::format("<pleach.Schedule {} {} of {} ranks, {} steps, {} transfers>",
                           self.value->provenance.algorithm, to_text(self.value->collective),
                           self.value->rank_count(), self.value->step_count(),
                           self.value->transfer_count());
      });
}

ChunkGrid chunks_of(int32_t chunk_count, const std::optional<std::vector<int64_t>>& weights) {
  if (weights.has_value()) {
    if (!ChunkGrid::valid(*weights)) {
      raise(invalid("chunk_weights: all are positive, and there is at least one"));
    }
    return ChunkGrid::weighted(*weights);
  }
  if (chunk_count < 1 || chunk_count > kMaxScheduleChunks) {
    raise(invalid(
        fmt::format("chunk_count: {} is not from 1 to {}", chunk_count, kMaxScheduleChunks)));
  }
  return ChunkGrid::uniform(chunk_count);
}

TransferOp op_of(const std::string& op) {
  if (op != "copy" && op != "reduce") {
    raise(invalid(fmt::format("op: \"{}\" is neither copy nor reduce", op)));
  }
  return op == "copy" ? TransferOp::kCopy : TransferOp::kReduce;
}

// The transfers of one schedule, collected from Python.
class TransferList {
 public:
  // `empty` has no transfers; without participants, all ranks of the topology take part.
  TransferList(const Topology& topology, Schedule empty)
      : topology_(&topology), schedule_(std::move(empty)) {
    if (schedule_.participants.empty()) {
      schedule_.participants.assign(topology.rank_nodes().begin(), topology.rank_nodes().end());
    }
  }

  int32_t rank_count() const { return schedule_.rank_count(); }
  NodeId node(const char* what, int32_t rank) const {
    if (rank < 0 || rank >= rank_count()) {
      raise(invalid(fmt::format("{}: rank {} is not from 0 to {}", what, rank, rank_count() - 1)));
    }
    return schedule_.participants[at(rank)];
  }

  void add(Transfer transfer, const std::optional<std::vector<int32_t>>& route) {
    if (route.has_value()) {
      std::vector<LinkId> links;
      links.reserve(route->size());
      for (const int32_t link : *route) {
        links.push_back({link});
      }
      transfer.route = schedule_.routes.add(links);
    }
    schedule_.transfers.push_back(transfer);
  }

  SharedSchedule finish(const std::string& name,
                        const std::optional<std::vector<int32_t>>& phase_steps,
                        std::optional<int32_t> period, bool fold_by_rank, bool prove) const {
    Schedule schedule = schedule_;
    int32_t steps = 0;
    for (const Transfer& transfer : schedule.transfers) {
      steps = std::max(steps, std::min(transfer.step, kMaxScheduleSteps) + 1);
    }
    schedule.phase_steps = phase_steps.value_or(std::vector<int32_t>{steps});
    schedule.period = period.value_or(std::max(1, steps));
    schedule.fold_order = fold_by_rank ? FoldOrder::kByRank : FoldOrder::kOwnFirst;
    schedule.provenance.algorithm = name;
    schedule.provenance.topology_fingerprint = topology_->fingerprint();
    unlocked([&] { sort_transfers(schedule); });
    if (prove) {
      const Verification verification = unlocked([&] { return verify(schedule, topology_); });
      if (!verification.correct) {
        raise_violation(fmt::format("{}: {}", name, verification.violations.front()));
      }
      check(unlocked([&]() -> Status {
        PLEACH_TRY(fill_routes(schedule, *topology_));
        return certify(schedule, *topology_);
      }));
    }
    return {std::make_shared<const Schedule>(std::move(schedule)), prove};
  }

 private:
  const Topology* topology_;  // borrowed
  Schedule schedule_;
};

void bind_builder(nb::module_& module) {
  nb::class_<TransferList>(module, "ScheduleBuilder", "Collects the transfers of one schedule.")
      .def(
          "__init__",
          [](TransferList* self, const Topology& topology, const std::string& collective,
             int32_t chunk_count, const std::optional<std::vector<int64_t>>& chunk_weights,
             int32_t root, const std::optional<std::vector<int32_t>>& group) {
            Schedule empty;
            empty.collective = take(parse_collective(collective));
            empty.root = Rank{root};
            empty.participants = request_of({}, group, {}, 0).participants;
            empty.chunks = chunks_of(chunk_count, chunk_weights);
            new (self) TransferList(topology, std::move(empty));
          },
          nb::arg("topology"), nb::arg("collective") = "all_reduce", nb::kw_only(),
          nb::arg("chunk_count") = 1, nb::arg("chunk_weights") = nb::none(), nb::arg("root") = 0,
          nb::arg("group") = nb::none(), nb::keep_alive<1, 2>(),
          "The buffer is cut into chunk_count equal chunks, or by weight. group: the nodes of the\n"
          "ranks, where not all of the topology's take part (`Topology.group`).")
      .def_prop_ro("rank_count", &TransferList::rank_count)
      .def(
          "send",
          [](TransferList& self, int32_t source, int32_t target, int32_t chunk, int32_t step,
             const std::string& op, int32_t chunk_count,
             const std::optional<std::vector<int32_t>>& route) {
            self.add({.first_chunk = chunk,
                      .chunk_count = chunk_count,
                      .source = self.node("source", source),
                      .target = self.node("target", target),
                      .step = step,
                      .op = op_of(op)},
                     route);
          },
          nb::arg("source"), nb::arg("target"), nb::kw_only(), nb::arg("chunk") = 0,
          nb::arg("step") = 0, nb::arg("op") = "copy", nb::arg("chunk_count") = 1,
          nb::arg("route") = nb::none(),
          "Adds a message from one rank to another: `chunk` and those that follow it. op: `copy`,\n"
          "or `reduce` into what the target has. route: links by number; none: by the topology's\n"
          "routing.")
      .def("finish", &TransferList::finish, nb::arg("name") = "python", nb::kw_only(),
           nb::arg("phase_steps") = nb::none(), nb::arg("period") = nb::none(),
           nb::arg("fold_by_rank") = false, nb::arg("prove") = true,
           "Returns the schedule, proved: a VerificationError has the first violation. "
           "phase_steps:\n"
           "steps of each phase; none: one. period: none: the steps. The builder may go on.");
}

}  // namespace

void bind_schedule(nb::module_& module) {
  bind_transfer(module);
  bind_schedule_class(module);
  bind_builder(module);
  module.def(
      "obtain_schedule",
      [](const Topology& topology, const std::string& source,
         const std::optional<std::string>& collective,
         const std::optional<std::vector<int32_t>>& group,
         const std::optional<std::variant<int32_t, std::string>>& root, const Size& size) {
        ScheduleRequest request = request_of(collective, group, {}, size_bytes(size));
        if (root.has_value() && std::holds_alternative<int32_t>(*root)) {
          request.root = Rank{std::get<int32_t>(*root)};
        } else if (root.has_value()) {
          check(choose_root(topology, std::get<std::string>(*root), request));
        }
        return SharedSchedule{
            take(unlocked([&] { return obtain_schedule(topology, source, request); })), true};
      },
      nb::arg("topology"), nb::arg("source"), nb::kw_only(), nb::arg("collective"),
      nb::arg("group"), nb::arg("root"), nb::arg("size"));
  module.def(
      "read_schedule",
      [](const std::string& path) {
        return SharedSchedule{
            std::make_shared<const Schedule>(take(unlocked([&] { return read_schedule(path); })))};
      },
      nb::arg("path"));
  module.def(
      "sequence",
      [](const SharedSchedule& first, const SharedSchedule& second, const std::string& collective) {
        const CollectiveKind kind = take(parse_collective(collective));
        return SharedSchedule{
            std::make_shared<const Schedule>(take(unlocked([&]() -> Result<Schedule> {
              for (const SharedSchedule* part : {&first, &second}) {
                const auto violations = check_form(*part->value, nullptr, 1);
                if (!violations.empty()) {
                  return invalid(violations.front());
                }
              }
              return sequence(*first.value, *second.value, kind);
            })))};
      },
      nb::arg("first"), nb::arg("second"), nb::arg("collective"));
  module.def(
      "verification_json",
      [](const SharedSchedule& schedule, const Topology* topology) {
        return verification_json(*schedule.value, topology);
      },
      nb::arg("schedule"), nb::arg("topology").none());
  module.def(
      "schedule_json",
      [](const SharedSchedule& schedule, const Topology& topology) {
        require_fit(schedule, topology);
        return to_json(take(unlocked([&] { return summarize(*schedule.value, topology); })), 0);
      },
      nb::arg("schedule"), nb::arg("topology"));
}

}  // namespace pleach::python
