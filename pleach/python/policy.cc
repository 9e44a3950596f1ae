// The policy layer: atoms, plans that ranks can follow, and what follows them in real training.
#include "pleach/policy/policy.h"

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pleach/base/index.h"
#include "pleach/policy/alpha_beta.h"
#include "pleach/policy/atoms.h"
#include "pleach/policy/replay.h"
#include "pleach/policy/search/bucket_tuner.h"
#include "pleach/policy/settle.h"
#include "pleach/python/bindings.h"
#include "pleach/python/calls.h"
#include "pleach/python/errors.h"
#include "pleach/python/values.h"
#include "pleach/training/measured_costs.h"

namespace pleach::python {
namespace {

namespace nb = nanobind;

// Kind, first atom, end.
using Collective = std::tuple<std::string, int32_t, int32_t>;

std::vector<AtomCollective> plan_of(const std::vector<Collective>& given) {
  std::vector<AtomCollective> plan;
  plan.reserve(given.size());
  for (const auto& [kind, first, end] : given) {
    plan.push_back({take(parse_collective(kind)), first, end});
  }
  return plan;
}

// --- Atoms and profiles

std::vector<int64_t> cut(const std::vector<int64_t>& sizes, const std::vector<int32_t>& layers,
                         const std::vector<int64_t>& quanta, const std::vector<int32_t>& buffers,
                         const AtomRules& rules) {
  if (layers.size() != sizes.size() || quanta.size() != sizes.size() ||
      buffers.size() != sizes.size()) {
    raise(invalid(fmt::format("{} sizes, but {} layers, {} quanta and {} buffers", sizes.size(),
                              layers.size(), quanta.size(), buffers.size())));
  }
  std::vector<AtomTensor> tensors;
  for (std::size_t index = 0; index < sizes.size(); ++index) {
    tensors.push_back({sizes[index], layers[index], quanta[index], buffers[index]});
  }
  return take(cut_atoms(tensors, rules));
}

std::vector<PolicyLayer> layers_of(const std::vector<std::vector<int64_t>>& tensor_bytes,
                                   const std::optional<std::vector<int64_t>>& forward_ps,
                                   const std::optional<std::vector<int64_t>>& backward_ps) {
  for (const auto* times : {&forward_ps, &backward_ps}) {
    if (times->has_value() && (*times)->size() != tensor_bytes.size()) {
      raise(invalid(
          fmt::format("{} layers, but times of {}", tensor_bytes.size(), (*times)->size())));
    }
  }
  std::vector<PolicyLayer> layers(tensor_bytes.size());
  for (std::size_t index = 0; index < layers.size(); ++index) {
    layers[index].tensor_bytes = tensor_bytes[index];
    layers[index].forward_ps = forward_ps.has_value() ? (*forward_ps)[index] : 0;
    layers[index].backward_ps = backward_ps.has_value() ? (*backward_ps)[index] : 0;
  }
  return layers;
}

void bind_profile(nb::module_& module) {
  module.def(
      "cut_atoms",
      [](const std::vector<int64_t>& sizes, const std::vector<int32_t>& layers,
         const std::vector<int64_t>& quanta, const std::vector<int32_t>& buffers,
         int64_t least_bytes, int64_t join_bytes) {
        return cut(sizes, layers, quanta, buffers,
                   {.least_bytes = least_bytes, .join_bytes = join_bytes});
      },
      nb::arg("sizes"), nb::arg("layers"), nb::arg("quanta"), nb::arg("buffers"), nb::kw_only(),
      nb::arg("least_bytes"), nb::arg("join_bytes"));
  module.def(
      "own_atoms",
      [](const std::vector<int64_t>& atom_bytes, int32_t rank_count) {
        if (rank_count < 1) {
          raise(invalid(fmt::format("rank_count: {} is not positive", rank_count)));
        }
        int64_t left = kMostProfileBytes;
        for (const int64_t bytes : atom_bytes) {
          if (bytes < 0 || bytes > left) {
            raise(invalid(fmt::format("atom_bytes: {} is not from 0 to {}", bytes, left)));
          }
          left -= bytes;
        }
        return own_atoms(atom_bytes, rank_count);
      },
      nb::arg("atom_bytes"), nb::arg("rank_count"));
  nb::class_<TrainingProfile>(module, "TrainingProfile", "A training as policies see it.")
      .def(
          "__init__",
          [](TrainingProfile* self, const std::vector<std::vector<int64_t>>& tensor_bytes,
             const std::vector<int64_t>& atom_bytes, int32_t rank_count,
             const std::optional<std::vector<int64_t>>& forward_ps,
             const std::optional<std::vector<int64_t>>& backward_ps) {
            TrainingProfile profile{.layers = layers_of(tensor_bytes, forward_ps, backward_ps),
                                    .rank_count = rank_count,
                                    .atom_bytes = atom_bytes};
            check(check_profile(profile));
            new (self) TrainingProfile(std::move(profile));
          },
          nb::kw_only(), nb::arg("tensor_bytes"), nb::arg("atom_bytes"), nb::arg("rank_count"),
          nb::arg("forward_ps"), nb::arg("backward_ps"))
      .def_prop_ro("layer_count", [](const TrainingProfile& self) { return self.layers.size(); })
      .def_prop_ro("atoms", [](const TrainingProfile& self) {
        const ParameterSpace space(self);
        std::vector<std::tuple<int64_t, int64_t>> atoms;
        for (int32_t atom = 0; atom < space.atom_count(); ++atom) {
          const ByteRange range = space.atoms(atom, atom + 1);
          atoms.emplace_back(range.begin, range.end);
        }
        return atoms;
      });
}

// --- Costs

void bind_costs(nb::module_& module) {
  nb::class_<CostModel>(module, "CostModel", "How long a group's collectives take, alone.")
      .def(
          "has",
          [](const CostModel& self, const std::string& collective) {
            return self.has(take(parse_collective(collective)));
          },
          nb::arg("collective"), "Whether it knows of this collective.")
      .def(
          "time_ps",
          [](const CostModel& self, const std::string& collective, int64_t size_bytes) {
            const CollectiveKind kind = take(parse_collective(collective));
            if (!self.has(kind) || size_bytes < 1) {
              raise(invalid(fmt::format("no cost of {} of {} bytes", collective, size_bytes)));
            }
            return self.time_ps(kind, size_bytes);
          },
          nb::arg("collective"), nb::arg("size_bytes"), "Of the whole buffer of one rank.");
  nb::class_<AlphaBeta, CostModel>(module, "AlphaBeta", "Rings by a few numbers.")
      .def(
          "__init__",
          [](AlphaBeta* self, int32_t rank_count, const Time& alpha, const Bandwidth& bandwidth,
             const Time& overhead) {
            const int64_t bandwidth_number = bandwidth_bytes_per_s(bandwidth);
            const int64_t alpha_ps = time_ps(alpha);
            const int64_t overhead_ps = time_ps(overhead);
            if (rank_count < 1 || bandwidth_number < 1 || alpha_ps < 0 || overhead_ps < 0) {
              raise(invalid("ranks and bandwidth are positive, times are not negative"));
            }
            new (self)
                AlphaBeta(rank_count, alpha_ps, static_cast<double>(bandwidth_number), overhead_ps);
          },
          nb::arg("rank_count"), nb::kw_only(), nb::arg("alpha"), nb::arg("bandwidth"),
          nb::arg("overhead") = 0,
          "alpha: per hop, \"15us\" or picoseconds; bandwidth: of a rank's link; overhead: of "
          "every\n"
          "collective.");
  nb::class_<MeasuredCosts, CostModel>(module, "MeasuredCosts", "What collectives took, measured.")
      .def(
          "__init__",
          [](MeasuredCosts* self, int32_t rank_count,
             const std::vector<std::tuple<std::string, int64_t, double>>& points) {
            std::vector<MeasuredCosts::Point> measured;
            measured.reserve(points.size());
            for (const auto& [collective, size_bytes, time_s] : points) {
              measured.push_back({take(parse_collective(collective)), size_bytes, time_s});
            }
            new (self)
                MeasuredCosts(take(MeasuredCosts::from_points(rank_count, std::move(measured))));
          },
          nb::arg("rank_count"), nb::arg("points"),
          "points: collective, whole buffer of one rank [bytes], seconds; in any order.")
      .def_static(
          "read", [](const std::string& path) { return take(MeasuredCosts::read(path)); },
          nb::arg("path"), "Reads a file of measured costs.")
      .def_prop_ro("rank_count", &MeasuredCosts::rank_count);
}

// --- Plans

using Settled = std::tuple<std::vector<Collective>, bool, int64_t, uint64_t>;

Settled settle(const std::string& spec, const TrainingProfile& profile, const CostModel& costs,
               uint64_t seed, int32_t most_iterations) {
  const SettledPlan settled = take(unlocked([&] {
    return settle_plan(spec, profile, costs, {.seed = seed, .most_iterations = most_iterations});
  }));
  std::vector<Collective> collectives;
  for (const AtomCollective& one : settled.collectives) {
    collectives.emplace_back(std::string(to_text(one.kind)), one.first, one.end);
  }
  return {std::move(collectives), settled.step_at_once, settled.iteration_ps, settled.hash};
}

// A replay, and the profile that it borrows.
class Replay {
 public:
  Replay(const TrainingProfile& profile, const std::vector<Collective>& plan, int32_t channel_width,
         bool step_at_once)
      : profile_(std::make_unique<TrainingProfile>(profile)),
        replay_(take(
            PlanReplay::create(*profile_, plan_of(plan),
                               {.channel_width = channel_width, .step_at_once = step_at_once}))) {}

  PlanReplay& operator*() const { return *replay_; }
  PlanReplay* operator->() const { return replay_.get(); }

  bool may_run_forward(int32_t layer) const {
    if (layer < 0 || layer >= count_of(profile_->layers)) {
      raise(invalid(fmt::format("layer {}: there are {}", layer, profile_->layers.size())));
    }
    return replay_->may_run_forward(layer);
  }
  std::vector<int32_t> next(int64_t now_ps) const {
    const std::span<const int32_t> numbers = replay_->next(now_ps);
    return {numbers.begin(), numbers.end()};
  }

 private:
  std::unique_ptr<TrainingProfile> profile_;
  std::unique_ptr<PlanReplay> replay_;
};

// Number, index in the plan (−1: forgotten), iteration, and the times of HostedCollective.
using Logged =
    std::tuple<int32_t, int32_t, int32_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

std::vector<Logged> log_of(const Replay& replay) {
  std::vector<Logged> entries;
  for (const HostedCollective& one : replay->log()) {
    const Result<int32_t> index = replay->index_of(one.number);
    entries.emplace_back(one.number, index ? *index : -1, one.iteration, one.ready_ps,
                         one.issued_ps, one.started_ps, one.finished_ps, one.updated_ps,
                         one.exposed_ps);
  }
  return entries;
}

void bind_replay(nb::module_& module) {
  nb::class_<Replay>(module, "PlanReplay")
      .def(nb::init<const TrainingProfile&, const std::vector<Collective>&, int32_t, bool>(),
           nb::arg("profile"), nb::arg("plan"), nb::kw_only(), nb::arg("channel_width"),
           nb::arg("step_at_once"))
      .def(
          "gradient_ready",
          [](Replay& self, int32_t layer, int64_t now_ps) {
            check(self->gradient_ready(layer, now_ps));
          },
          nb::arg("layer"), nb::arg("now_ps"),
          "This rank has all of the layer's gradients; each layer once an iteration, layers "
          "without\n"
          "tensors too, or never.")
      .def("next", &Replay::next, nb::arg("now_ps"),
           "The collectives that start now, by their numbers. Ask after every other fact.")
      .def(
          "land",
          [](Replay& self, int32_t number, int64_t now_ps) { check(self->land(number, now_ps)); },
          nb::arg("number"), nb::arg("now_ps"),
          "A collective has finished on this rank. What it distributed is in place.")
      .def(
          "update",
          [](Replay& self, int32_t number, int64_t now_ps) { check(self->update(number, now_ps)); },
          nb::arg("number"), nb::arg("now_ps"),
          "This rank has updated its share of what a reduction brought, so that others may get "
          "it;\n"
          "after an all_reduce it is in place.")
      .def("may_run_forward", &Replay::may_run_forward, nb::arg("layer"),
           "Whether the layer's parameters are in place.")
      .def(
          "repeat", [](Replay& self) { check(self->repeat()); },
          "Drops the iteration whose gradients have come: they will come again.")
      .def(
          "stand_still", [](Replay& self, int64_t now_ps) { self->stand_still(now_ps); },
          nb::arg("now_ps"), "Computation stands still for want of parameters from now on.")
      .def(
          "go_on", [](Replay& self, int64_t now_ps) { self->go_on(now_ps); }, nb::arg("now_ps"),
          "Computation goes on.")
      .def(
          "index_of", [](Replay& self, int32_t number) { return take(self->index_of(number)); },
          nb::arg("number"), "Which collective of the plan has the number.")
      .def("log", log_of)
      .def(
          "forget_before", [](Replay& self, int32_t iteration) { self->forget_before(iteration); },
          nb::arg("iteration"), "Drops what has finished of older iterations from the log.");
}

void bind_tuner(nb::module_& module) {
  nb::class_<BucketTuner>(module, "BucketTuner",
                          "Bayesian search over the bucket's size, from measured iterations.")
      .def(
          "__init__",
          [](BucketTuner* self, const std::string& spec, uint64_t seed) {
            new (self) BucketTuner(take(create_bucket_tuner(spec, seed)));
          },
          nb::arg("spec"), nb::arg("seed"))
      .def_prop_ro("size_bytes", &BucketTuner::size_bytes, "To train with now.")
      .def_prop_ro("settled", &BucketTuner::settled, "Whether the best size stays.")
      .def("observe", &BucketTuner::observe, nb::arg("iteration_ps"),
           "An iteration, all of which had this size, took so long; whether the size changes now.");
}

}  // namespace

void bind_policy(nb::module_& module) {
  bind_profile(module);
  bind_costs(module);
  module.def("settle_plan", settle, nb::arg("spec"), nb::arg("profile"), nb::arg("costs"),
             nb::kw_only(), nb::arg("seed"), nb::arg("most_iterations"));
  module.def(
      "check_plan",
      [](const TrainingProfile& profile, const std::vector<Collective>& plan) {
        check(check_plan(ParameterSpace(profile), plan_of(plan)));
      },
      nb::arg("profile"), nb::arg("plan"));
  bind_replay(module);
  bind_tuner(module);
}

}  // namespace pleach::python
