#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "pleach/base/index.h"
#include "pleach/base/names.h"
#include "pleach/base/units.h"
#include "pleach/workload/layer_shares.h"
#include "pleach/workload/rank_grid.h"
#include "pleach/workload/strategy.h"
#include "pleach/workload/strategy_groups.h"
#include "pleach/workload/worker_passes.h"

namespace pleach {
namespace {

constexpr double kMostSlowness = 1e6;
constexpr double kMostNodes = 0x1p28;  // of all workers: tens of gigabytes

int32_t digit(const Coordinates& coordinates, ParallelDimension dimension) {
  return coordinates[RankGrid::index(dimension)];
}

constexpr std::array kFamilyNames = {
    Name<FamilyRole>{FamilyRole::kData, "data"},
    Name<FamilyRole>{FamilyRole::kExpertData, "expert data"},
    Name<FamilyRole>{FamilyRole::kTensor, "tensor"},
    Name<FamilyRole>{FamilyRole::kSequence, "sequence"},
    Name<FamilyRole>{FamilyRole::kExpert, "expert"},
    Name<FamilyRole>{FamilyRole::kEmbedding, "embedding"},
    Name<FamilyRole>{FamilyRole::kPipeline, "pipeline"},
    Name<FamilyRole>{FamilyRole::kIo, "io"},
    Name<FamilyRole>{FamilyRole::kInput, "io"},
};

// Replicas that always do the same, and how slow each of their stages is.
struct ReplicaClass {
  std::vector<double> slowness;   // by stage
  std::vector<bool> has_replica;  // by data coordinate
};

Status check_request(const TraceRequest& request) {
  const std::size_t ranks = at(request.strategy.rank_end());
  if (!request.slowness.empty() && request.slowness.size() != ranks) {
    return invalid(
        fmt::format("slowness of {} ranks for {} ranks", request.slowness.size(), ranks));
  }
  for (std::size_t rank = 0; rank < request.slowness.size(); ++rank) {
    const double slowness = request.slowness[rank];
    if (!(slowness > 0 && slowness <= kMostSlowness)) {
      return invalid(
          fmt::format("rank {}: slowness of {} is not in (0, {}]", rank, slowness, kMostSlowness));
    }
  }
  const Model& model = request.workload.model;
  const std::vector<int32_t>& parts = request.exchange_parts;
  if (!parts.empty() && parts.size() != model.layers.size()) {
    return invalid(fmt::format("{}: exchange parts of {} layers for {} layers", model.name,
                               parts.size(), model.layers.size()));
  }
  const auto bad = std::ranges::find_if(parts, [](int32_t count) { return count < 1; });
  if (bad != parts.end()) {
    return invalid(fmt::format("{}, layer {}: an exchange in {} parts", model.name,
                               model.layers[at(bad - parts.begin())].name, *bad));
  }
  return ok();
}

class TraceBuilder {
 public:
  TraceBuilder(const TraceRequest& request, const LayerShares& shares)
      : request_(request), strategy_(request.strategy), shares_(shares), grid_(strategy_) {}

  Result<Trace> build() {
    trace_.name = request_.workload.model.name;
    trace_.rank_count = strategy_.rank_end();
    trace_.names = pass_names(request_.workload.model);
    add_families();
    const std::vector<ReplicaClass> classes = replica_classes();
    PLEACH_TRY(check_sizes(classes));
    add_workers(classes);
    for (int32_t stage = 0; stage < shares_.stage_count; ++stage) {
      add_gradient_groups(stage, classes);
    }
    for (std::size_t one = 0; one < classes.size(); ++one) {
      for (int32_t stage = 0; stage < shares_.stage_count; ++stage) {
        const PassPlace place = {.worker = worker_of(one, stage),
                                 .stage = stage,
                                 .slowness = classes[one].slowness[at(stage)],
                                 .references = references_[at(stage)]};
        append_passes(shares_, request_, place, trace_.workers[at(place.worker)]);
      }
    }
    return std::move(trace_);
  }

 private:
  // Before anything of these sizes is allocated or multiplied.
  Status check_sizes(const std::vector<ReplicaClass>& classes) const {
    const std::string& model = request_.workload.model.name;
    double parts = 1;
    for (const int32_t count : request_.exchange_parts) {
      parts = std::max<double>(parts, count);
    }
    const double nodes = static_cast<double>(classes.size() * shares_.layers.size()) *
                         strategy_.micro_batches * parts * 2;
    if (nodes > kMostNodes) {
      return invalid(
          fmt::format("{}: {} different replicas of {} layers in {} micro-batches are "
                      "too many to trace",
                      model, classes.size(), shares_.layers.size(), strategy_.micro_batches));
    }
    double computing_ps = 0;
    for (const LayerShare& share : shares_.layers) {
      computing_ps += static_cast<double>(share.times.forward_ps + share.times.backward_ps) +
                      static_cast<double>(share.update_ps);
    }
    for (const ReplicaClass& one : classes) {
      const double slowest = *std::ranges::max_element(one.slowness);
      if (computing_ps * strategy_.micro_batches * slowest > static_cast<double>(kLongestPs)) {
        return invalid(fmt::format("{}: a replica {} times as slow computes for over {}", model,
                                   slowest, kLongestText));
      }
    }
    return ok();
  }

  int32_t worker_of(std::size_t replica_class, int32_t stage) const {
    return static_cast<int32_t>(replica_class) * shares_.stage_count + stage;
  }

  int32_t add_family(FamilyRole role, std::vector<std::vector<int32_t>> groups) {
    trace_.families.push_back({.name = std::string(name_of(kFamilyNames, role)),
                               .groups = std::move(groups),
                               .role = role});
    return count_of(trace_.families) - 1;
  }

  int32_t add_family(FamilyRole role) {
    return add_family(role, strategy_groups(strategy_, grid_, role));
  }

  void add_families() {
    data_family_ = add_family(FamilyRole::kData);
    PassReferences all;
    all.tensor_family = strategy_.tensor > 1 ? add_family(FamilyRole::kTensor) : -1;
    all.sequence_family = strategy_.sequence > 1 ? add_family(FamilyRole::kSequence) : -1;
    if (strategy_.expert > 1) {
      all.expert_family = add_family(FamilyRole::kExpert);
      expert_data_family_ = add_family(FamilyRole::kExpertData);
    }
    all.embedding_family = add_embedding_family();
    if (strategy_.multicast_outputs && strategy_.tensor > 1) {
      all.output_families = add_output_families();
    }
    if (strategy_.streams_by_io) {
      all.io = add_io_families();
    }
    references_.assign(at(shares_.stage_count), all);
  }

  // Ranks that hold the same parameters, as those do whose gradients are reduced; and, of the first
  // stage, those that compute the same samples.
  IoReferences add_io_families() {
    const auto copy_of = [&](int32_t family) {
      auto groups = trace_.families[at(family)].groups;
      return add_family(FamilyRole::kIo, std::move(groups));
    };
    IoReferences io = {.load_family = copy_of(data_family_), .store_family = copy_of(data_family_)};
    if (strategy_.expert > 1) {
      io.expert_load_family = copy_of(expert_data_family_);
      io.expert_store_family = copy_of(expert_data_family_);
    }
    if (shares_.input_bytes > 0) {
      auto groups = grid_.groups([&](Coordinates key) {
        key[RankGrid::index(ParallelDimension::kTensor)] = 0;
        return key;
      });
      std::erase_if(groups, [&](const std::vector<int32_t>& group) {
        return digit(grid_.coordinates(group.front()), ParallelDimension::kPipeline) != 0;
      });
      io.input_family = add_family(FamilyRole::kInput, std::move(groups));
    }
    return io;
  }

  // Ranks of the stages that hold the first layer's tensors; −1 when one stage does.
  int32_t add_embedding_family() {
    constexpr std::size_t kStage = RankGrid::index(ParallelDimension::kPipeline);
    if (!shares_.layers.front().is_shared) {
      return -1;
    }
    std::vector<std::vector<int32_t>> groups = grid_.groups([&](Coordinates key) {
      key[kStage] = 0;
      return key;
    });
    for (std::vector<int32_t>& group : groups) {
      std::erase_if(group, [&](int32_t rank) {
        const int32_t stage = grid_.coordinates(rank)[kStage];
        return std::ranges::none_of(shares_.layers_of(stage), [&](int32_t layer) {
          return shares_.layers[at(layer)].is_shared;
        });
      });
    }
    return add_family(FamilyRole::kEmbedding, std::move(groups));
  }

  // From a stage to its neighbours, in both directions; where weights stream the last one's is the
  // first.
  std::map<std::pair<int32_t, int32_t>, int32_t> add_output_families() {
    std::map<std::pair<int32_t, int32_t>, int32_t> families;
    const int32_t stages = shares_.stage_count;
    for (int32_t run = 0; run + 1 < std::min(shares_.run_count(), stages + 1); ++run) {
      const int32_t one = run % stages, other = (run + 1) % stages;
      for (const auto& [source, target] : {std::pair(one, other), std::pair(other, one)}) {
        if (source != target && !families.contains({source, target})) {
          families[{source, target}] =
              add_family(FamilyRole::kPipeline, output_groups(strategy_, grid_, source, target));
        }
      }
    }
    return families;
  }

  std::vector<ReplicaClass> replica_classes() const {
    std::vector<std::vector<double>> slowness(at(strategy_.data),
                                              std::vector<double>(at(shares_.stage_count), 0.0));
    for (const int32_t rank : grid_.ranks()) {
      const Coordinates place = grid_.coordinates(rank);
      double& slowest = slowness[at(digit(place, ParallelDimension::kData))]
                                [at(digit(place, ParallelDimension::kPipeline))];
      slowest = std::max(slowest, request_.slowness.empty() ? 1.0 : request_.slowness[at(rank)]);
    }
    std::vector<ReplicaClass> classes;
    std::map<std::vector<double>, std::size_t> class_of;
    for (std::size_t replica = 0; replica < slowness.size(); ++replica) {
      const auto [found, fresh] = class_of.try_emplace(slowness[replica], classes.size());
      if (fresh || !request_.merge_alike) {
        found->second = classes.size();
        classes.push_back({slowness[replica], std::vector<bool>(slowness.size(), false)});
      }
      classes[found->second].has_replica[replica] = true;
    }
    return classes;
  }

  // The digit of the stage is the only one in which the workers of a class differ: the i-th rank of
  // one stage and of the next belong to one pipeline.
  void add_workers(const std::vector<ReplicaClass>& classes) {
    trace_.workers.resize(classes.size() * at(shares_.stage_count));
    std::vector<std::size_t> class_of(at(strategy_.data), 0);
    for (std::size_t one = 0; one < classes.size(); ++one) {
      for (std::size_t replica = 0; replica < class_of.size(); ++replica) {
        class_of[replica] = classes[one].has_replica[replica] ? one : class_of[replica];
      }
    }
    for (const int32_t rank : grid_.ranks()) {
      const Coordinates place = grid_.coordinates(rank);
      const int32_t worker = worker_of(class_of[at(digit(place, ParallelDimension::kData))],
                                       digit(place, ParallelDimension::kPipeline));
      trace_.workers[at(worker)].ranks.push_back(rank);
    }
  }

  void add_gradient_groups(int32_t stage, const std::vector<ReplicaClass>& classes) {
    const int32_t data_ranks = strategy_.data * strategy_.sequence;
    GradientGroup dense = {.name = fmt::format("data, stage {}", stage),
                           .family = data_family_,
                           .workers = {},
                           .rank_count = data_ranks,
                           .layers = {}};
    double slowest = 0;
    for (std::size_t one = 0; one < classes.size(); ++one) {
      dense.workers.push_back(worker_of(one, stage));
      slowest = std::max(slowest, classes[one].slowness[at(stage)]);
    }
    GradientGroup expert = dense;
    expert.name = fmt::format("expert data, stage {}", stage);
    expert.family = expert_data_family_;
    expert.rank_count = data_ranks / strategy_.expert;
    // The copy's gradients come last of all, whatever its place among the layers: in a group of
    // their own they hold up nothing.
    GradientGroup tied = dense;
    tied.name = fmt::format("tied, stage {}", stage);
    bool has_experts = false;
    bool has_copy = false;
    for (const int32_t index : shares_.layers_of(stage)) {
      GradientLayer layer = gradient_layer(index, slowest);
      const std::vector<int64_t>& bytes = shares_.layers[at(index)].tensor_bytes;
      const bool is_expert = shares_.layers[at(index)].is_expert;
      const bool is_copy = shares_.layers[at(index)].is_shared && index > 0;
      has_experts = has_experts || is_expert;
      has_copy = has_copy || is_copy;
      for (GradientGroup* group : {&dense, &expert, &tied}) {
        group->layers.push_back(layer);
      }
      if (!strategy_.streams()) {
        (is_expert ? expert : is_copy ? tied : dense).layers.back().tensor_bytes = bytes;
      }
    }
    references_[at(stage)].gradient_group = add_group(std::move(dense));
    if (has_experts) {
      references_[at(stage)].expert_gradient_group = add_group(std::move(expert));
    }
    if (has_copy) {
      references_[at(stage)].tied_gradient_group = add_group(std::move(tied));
    }
  }

  int32_t add_group(GradientGroup group) {
    trace_.gradient_groups.push_back(std::move(group));
    return count_of(trace_.gradient_groups) - 1;
  }

  // Without tensors. Times are those of the slowest replica, which the others wait for.
  GradientLayer gradient_layer(int32_t index, double slowness) const {
    const LayerShare& share = shares_.layers[at(index)];
    const std::vector<ModelLayer>& layers = request_.workload.model.layers;
    const auto slower_ps = [&](int64_t time_ps) {
      return std::llround(static_cast<double>(time_ps) * slowness);
    };
    const auto all_ps = [&](int64_t time_ps) {
      return slower_ps(time_ps) * strategy_.micro_batches;
    };
    return {.name = layers[at(index)].name,
            .tensor_bytes = {},
            .forward_ps = all_ps(share.times.forward_ps) + slower_ps(share.update_ps),
            .backward_ps = all_ps(share.times.backward_ps),
            .weight_gradient_ps = all_ps(share.times.weight_gradient_ps),
            .exchange_bytes = strategy_.expert > 1 ? share.expert_exchange_bytes : 0,
            .continues_block = index > 0 && layers[at(index)].block == layers[at(index - 1)].block,
            .model_layer = index};
  }

  const TraceRequest& request_;
  const Strategy& strategy_;
  const LayerShares& shares_;
  const RankGrid grid_;
  Trace trace_;
  int32_t data_family_ = -1;
  int32_t expert_data_family_ = -1;
  std::vector<PassReferences> references_;  // by stage
};

}  // namespace

Result<Trace> build_trace(const TraceRequest& request) {
  PLEACH_ASSIGN(found, share_layers(request.workload, request.strategy));
  PLEACH_TRY(check_request(request));
  return TraceBuilder(request, found).build();
}

}  // namespace pleach
