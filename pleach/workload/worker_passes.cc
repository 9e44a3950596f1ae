#include "pleach/workload/worker_passes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pleach/base/index.h"
#include "pleach/base/units.h"

namespace pleach {
namespace {

// Names of a layer's nodes, which stand in a row in Trace::names.
enum class NameOf : uint8_t { kLayer, kForward, kBackward, kWeightGradient };
constexpr int32_t kNamesPerLayer = 4;
// Then these.
enum class LastName : uint8_t { kActivations, kGradients, kInput };

int32_t name_of(int32_t layer, NameOf name) {
  return layer * kNamesPerLayer + static_cast<int32_t>(name);
}

int64_t part_of(int64_t whole, int32_t part, int32_t parts) {
  const auto until = [&](int32_t count) {
    return whole / parts * count + whole % parts * count / parts;
  };
  return until(part + 1) - until(part);
}

class PassWriter {
 public:
  PassWriter(const LayerShares& shares, const TraceRequest& request, const PassPlace& place,
             WorkerTrace& trace)
      : shares_(shares), request_(request), place_(place), trace_(trace) {
    visit_.run = place.stage;
  }

  void write() { streams() ? write_windows() : write_schedule(); }

 private:
  using Nodes = std::vector<int32_t>;
  // The passes of all micro-batches over a run of layers.
  struct Visit {
    int32_t run = 0;
    bool is_first = false;          // of the micro-batches
    bool is_last_backward = false;  // the last of the micro-batches, in backward
    int32_t end = -1;  // what uses the run's parameters last, so far; −1: it has none
  };
  // A layer whose weight gradients are yet to be computed.
  struct Waiting {
    int32_t layer = 0;
    bool is_last = false;  // of the micro-batches
  };

  void write_schedule() {
    const std::vector<Pass> passes = stage_passes(request_.strategy, place_.stage);
    const int32_t count = request_.strategy.micro_batches;
    int32_t forwards = 0;
    int32_t backwards = 0;
    for (const Pass& pass : passes) {
      if (pass.is_forward) {
        run_forward(pass.micro_batch, forwards++ == 0);
      } else {
        visit_.is_last_backward = backwards == count - 1;
        run_backward(pass.micro_batch, backwards++ == 0);
      }
    }
  }

  // All micro-batches pass a window before the next one, first in forward and then, windows and
  // runs the other way round, in backward. No worker waits for ever: ordered by (window,
  // micro-batch, run), every message goes to a later computation, every worker computes in that
  // order, weights wait for computations of earlier windows only, and computations for stores of
  // earlier ones.
  void write_windows() {
    int32_t last = place_.stage;
    for (int32_t run = place_.stage; run < shares_.run_count(); run += shares_.stage_count) {
      visit(run, true);
      last = run;
    }
    for (int32_t run = last; run >= 0; run -= shares_.stage_count) {
      visit(run, false);
    }
  }

  // All micro-batches pass a run of layers, whose weights come in with the first one; gradients
  // leave with the last one.
  void visit(int32_t run, bool is_forward) {
    const int32_t count = request_.strategy.micro_batches;
    visit_ = {.run = run};
    if (!is_forward && request_.strategy.streams_by_io && has_parameters()) {
      wait_for_stores();
    }
    for (int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
      visit_.is_first = micro_batch == 0;
      visit_.is_last_backward = !is_forward && micro_batch == count - 1;
      is_forward ? run_forward(micro_batch, visit_.is_first)
                 : run_backward(micro_batch, visit_.is_first);
    }
    if (visit_.end >= 0) {
      buffers_.visit_ends.push_back(visit_.end);
    }
  }

  // Gradients of one visit gather while those of the visit before leave: there is room when those
  // of the visit before that have left. (At a bandwidth of their own they need not: as much as they
  // are late, loads are behind.)
  void wait_for_stores() {
    gates_.insert(gates_.end(), buffers_.leaving.begin(), buffers_.leaving.end());
    buffers_.leaving = std::exchange(buffers_.stores, {});
  }

  const LayerShare& share(int32_t layer) const { return shares_.layers[at(layer)]; }
  int32_t first_layer() const { return shares_.first_layer[at(visit_.run)]; }
  int32_t end_layer() const { return shares_.first_layer[at(visit_.run) + 1]; }
  bool has_parameters() const {
    return std::any_of(shares_.layers.begin() + first_layer(), shares_.layers.begin() + end_layer(),
                       [](const LayerShare& layer) { return layer.parameter_bytes > 0; });
  }
  // Whether another stage computes the run before or behind.
  bool has_run_before() const { return shares_.stage_count > 1 && visit_.run > 0; }
  bool has_run_behind() const {
    return shares_.stage_count > 1 && visit_.run + 1 < shares_.run_count();
  }
  bool streams() const { return request_.strategy.streams(); }

  void run_forward(int32_t micro_batch, bool is_first) {
    if (has_run_before()) {
      receive(-1, micro_batch, share(first_layer() - 1).output_bytes);
    } else if (visit_.run == 0) {
      load_input();
    }
    for (int32_t layer = first_layer(); layer < end_layer(); ++layer) {
      if (is_first) {
        gate(TraceNodeKind::kForwardGate, layer);
      }
      forward_layer(layer, is_first ? share(layer).update_ps : 0);
    }
    if (has_run_behind()) {
      send(1, micro_batch, share(end_layer() - 1).output_bytes);
    }
  }

  void run_backward(int32_t micro_batch, bool is_first) {
    if (has_run_behind()) {
      receive(1, micro_batch, share(end_layer() - 1).output_bytes);
    }
    const bool has_gates = is_first && request_.backward_gates;
    for (int32_t layer = end_layer(); layer-- > first_layer();) {
      if (request_.strategy.recompute && ends_block(layer)) {
        recompute_block(layer, has_gates);
      }
      if (has_gates && !request_.strategy.recompute) {
        gate(TraceNodeKind::kBackwardGate, layer);
      }
      backward_layer(layer);
    }
    if (has_run_before()) {
      send(-1, micro_batch, share(first_layer() - 1).output_bytes);
    }
  }

  // `update_ps`: of the optimizer's step, before the first micro-batch.
  void forward_layer(int32_t layer, int64_t update_ps) {
    const LayerShare& own = share(layer);
    load(layer);
    gather(layer, own.backward_sum_bytes);
    exchange_sequence(layer, 3);
    compute_exchanged(layer, name_of(layer, NameOf::kForward), update_ps + own.times.forward_ps);
    exchange_sequence(layer, 1);
    sum(layer, own.forward_sum_bytes);
  }

  int32_t block_of(int32_t layer) const { return request_.workload.model.layers[at(layer)].block; }
  bool ends_block(int32_t layer) const {
    return layer + 1 == end_layer() || block_of(layer + 1) != block_of(layer);
  }

  // Forward of a block once more, up to its last layer: what entered it was kept, and so were the
  // exchanges within it.
  void recompute_block(int32_t last, bool has_gates) {
    int32_t first = last;
    while (first > first_layer() && block_of(first - 1) == block_of(last)) {
      --first;
    }
    for (int32_t layer = first; layer <= last; ++layer) {
      const LayerShare& own = share(layer);
      if (has_gates) {
        gate(TraceNodeKind::kBackwardGate, layer);
      }
      load(layer);
      gather(layer, own.backward_sum_bytes);
      compute(name_of(layer, NameOf::kForward), slowed(own.times.forward_ps));
      sum(layer, own.forward_sum_bytes);
    }
  }

  void backward_layer(int32_t layer) {
    const LayerShare& own = share(layer);
    if (!request_.strategy.recompute) {
      load(layer);
    }
    gather(layer, own.forward_sum_bytes);
    exchange_sequence(layer, 1);
    const bool defers = may_defer(layer);
    const int64_t recomputed_ps = request_.strategy.recompute ? own.times.forward_ps : 0;
    const int64_t deferred_ps = defers ? own.times.weight_gradient_ps : 0;
    compute_exchanged(layer, name_of(layer, NameOf::kBackward),
                      own.times.backward_ps - recomputed_ps - deferred_ps, defers);
    exchange_sequence(layer, 3);
    sum(layer, own.backward_sum_bytes);
  }

  // An exchange must come that hides it: the layer's own second one, or an earlier layer's.
  bool may_defer(int32_t layer) const {
    if (!request_.defer_weight_gradients || share(layer).times.weight_gradient_ps == 0) {
      return false;
    }
    for (int32_t run = visit_.run; run >= 0; run -= shares_.stage_count) {
      for (int32_t one = shares_.first_layer[at(run)];
           one < std::min(shares_.first_layer[at(run) + 1], layer + 1); ++one) {
        if (exchanges_experts(one)) {
          return true;
        }
      }
    }
    return false;
  }

  bool exchanges_experts(int32_t layer) const {
    return place_.references.expert_family >= 0 && share(layer).expert_exchange_bytes > 0;
  }

  // The layer's computation between its expert exchanges, in parts that overlap with those of
  // others. `defers`: its weight gradient is left for later.
  void compute_exchanged(int32_t layer, int32_t name, int64_t duration_ps, bool defers = false) {
    const bool is_backward = name == name_of(layer, NameOf::kBackward);
    const bool exchanges = exchanges_experts(layer);
    const std::vector<int32_t>& asked = request_.exchange_parts;
    const int32_t parts = exchanges && !asked.empty() ? asked[at(layer)] : 1;
    const int64_t whole_ps = slowed(duration_ps);
    Nodes before;  // the first exchange of each part
    for (int32_t part = 0; exchanges && part < parts; ++part) {
      before.push_back(exchange_experts(layer, part, parts, after_));
    }
    if (exchanges) {
      compute_weight_gradients();
    }
    Nodes after;
    for (int32_t part = 0; part < parts; ++part) {
      if (exchanges) {
        after_.push_back(before[at(part)]);
      }
      compute(name, part_of(whole_ps, part, parts));
      if (exchanges) {
        after.push_back(exchange_experts(layer, part, parts, {last_compute_}));
      }
    }
    if (share(layer).parameter_bytes > 0) {
      visit_.end = last_compute_;
    }
    if (is_backward && !defers) {
      report(layer, visit_.is_last_backward);
    }
    if (exchanges) {
      after_ = after;
    }
    if (defers) {
      waiting_.push_back({layer, visit_.is_last_backward});
      if (exchanges) {
        compute_weight_gradients();
      }
    }
  }

  int32_t exchange_experts(int32_t layer, int32_t part, int32_t parts, const Nodes& after) {
    return trace_.add({.kind = TraceNodeKind::kCollective,
                       .collective = CollectiveKind::kAllToAll,
                       .name = name_of(layer, NameOf::kLayer),
                       .family = place_.references.expert_family,
                       .size_bytes = part_of(share(layer).expert_exchange_bytes, part, parts)},
                      after);
  }

  // Those that wait, next in the order of computation.
  void compute_weight_gradients() {
    const Nodes gates = std::exchange(gates_, {});  // of the computation after these
    for (const auto& [layer, is_last] : std::exchange(waiting_, {})) {
      const Nodes rest = std::exchange(after_, {last_compute_});
      compute(name_of(layer, NameOf::kWeightGradient),
              slowed(share(layer).times.weight_gradient_ps));
      report(layer, is_last);
      after_.insert(after_.end(), rest.begin(), rest.end());
    }
    gates_ = gates;
  }

  int64_t slowed(int64_t duration_ps) const {
    return std::llround(static_cast<double>(duration_ps) * place_.slowness);
  }

  // The next node in the order of computation.
  void compute(int32_t name, int64_t duration_ps) {
    after_.insert(after_.end(), gates_.begin(), gates_.end());
    gates_.clear();
    last_compute_ = trace_.add(
        {.kind = TraceNodeKind::kCompute, .name = name, .duration_ps = duration_ps}, after_);
    after_ = {last_compute_};
  }

  // A collective that the computation waits for.
  void collective(CollectiveKind kind, int32_t family, int32_t layer, int64_t size_bytes) {
    if (family >= 0 && size_bytes > 0) {
      after_ = {trace_.add({.kind = TraceNodeKind::kCollective,
                            .collective = kind,
                            .name = name_of(layer, NameOf::kLayer),
                            .family = family,
                            .size_bytes = size_bytes},
                           after_)};
    }
  }
  // Results of the tensor group, added up; with its sequences split each rank keeps a part, and
  // what all of it is needed for is gathered before.
  void sum(int32_t layer, int64_t size_bytes) {
    const bool scatters = request_.strategy.tensor_sequence;
    collective(scatters ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce,
               place_.references.tensor_family, layer, size_bytes);
  }
  void gather(int32_t layer, int64_t size_bytes) {
    if (request_.strategy.tensor_sequence) {
      collective(CollectiveKind::kAllGather, place_.references.tensor_family, layer, size_bytes);
    }
  }
  // Queries, keys and values go to where their heads are, the result comes back: three parts in
  // four on one side of the attention, one on the other.
  void exchange_sequence(int32_t layer, int32_t quarters) {
    collective(CollectiveKind::kAllToAll, place_.references.sequence_family, layer,
               share(layer).sequence_exchange_bytes / 4 * quarters);
  }

  // From or to the run `step` further. What passes between two runs is told apart by their pair of
  // workers, which has other messages where weights stream: those between other runs.
  TraceNode message(TraceNodeKind kind, bool is_forward, int32_t step, int32_t micro_batch) const {
    const auto last = count_of(shares_.layers) * kNamesPerLayer;
    const LastName name = is_forward ? LastName::kActivations : LastName::kGradients;
    const int32_t later = streams() ? std::max(visit_.run, visit_.run + step) : 0;
    const int32_t other = (visit_.run + step) % shares_.stage_count;
    const auto& families = place_.references.output_families;
    const auto family =
        families.find(kind == TraceNodeKind::kSend ? std::pair(place_.stage, other)
                                                   : std::pair(other, place_.stage));
    return {.kind = kind,
            .name = last + static_cast<int32_t>(name),
            .family = family == families.end() ? -1 : family->second,
            .peer = place_.worker - place_.stage + other,
            .tag = later * request_.strategy.micro_batches + micro_batch};
  }
  void receive(int32_t step, int32_t micro_batch, int64_t size_bytes) {
    TraceNode node = message(TraceNodeKind::kReceive, step < 0, step, micro_batch);
    node.size_bytes = size_bytes;
    after_.push_back(trace_.add(node, {}));
  }
  void send(int32_t step, int32_t micro_batch, int64_t size_bytes) {
    TraceNode node = message(TraceNodeKind::kSend, step > 0, step, micro_batch);
    node.size_bytes = size_bytes;
    trace_.add(node, after_);
  }

  int32_t group_of(int32_t layer) const {
    if (share(layer).is_expert) {
      return place_.references.expert_gradient_group;
    }
    return share(layer).is_shared && layer > 0 ? place_.references.tied_gradient_group
                                               : place_.references.gradient_group;
  }
  // A node of the gradient group that owns the layer's tensors.
  TraceNode group_node(TraceNodeKind kind, int32_t layer) const {
    return {.kind = kind,
            .name = name_of(layer, NameOf::kLayer),
            .gradient_group = group_of(layer),
            .layer = layer - first_layer()};
  }
  bool is_scheduled(int32_t layer) const {
    return !streams() && !share(layer).tensor_bytes.empty();
  }

  // Knows that the worker has come to the layer when the computation before it has ended. Forward
  // of a layer without parameters waits, too, where all parameters are updated together.
  void gate(TraceNodeKind kind, int32_t layer) {
    if (is_scheduled(layer) || (kind == TraceNodeKind::kForwardGate && !streams())) {
      gates_.push_back(
          trace_.add(group_node(kind, layer), last_compute_ >= 0 ? Nodes{last_compute_} : Nodes{}));
    }
  }

  // The layer's gradients of a micro-batch, the last one or not, are complete with the last
  // computation.
  void report(int32_t layer, bool is_last) {
    if (!is_last) {
      return;
    }
    if (streams() && share(layer).parameter_bytes > 0) {
      buffers_.stores.push_back(
          trace_.add(transfer(TraceNodeKind::kStore, layer), {last_compute_}));
    }
    if (!is_scheduled(layer)) {
      return;
    }
    int32_t complete = last_compute_;
    if (share(layer).is_shared) {
      complete = trace_.add({.kind = TraceNodeKind::kCollective,
                             .collective = CollectiveKind::kAllReduce,
                             .name = name_of(layer, NameOf::kLayer),
                             .family = place_.references.embedding_family,
                             .size_bytes = shares_.layers.front().parameter_bytes},
                            {complete});
    }
    trace_.add(group_node(TraceNodeKind::kGradient, layer), {complete});
  }

  TraceNode transfer(TraceNodeKind kind, int32_t layer) const {
    const int64_t bytes = share(layer).parameter_bytes;
    TraceNode node = {.kind = kind, .name = name_of(layer, NameOf::kLayer), .size_bytes = bytes};
    if (request_.strategy.streams_by_io) {
      node.family = io_family(kind, share(layer).is_expert);
    } else {
      node.duration_ps = transmit_time_ps(bytes, request_.strategy.stream_bytes_per_s);
    }
    return node;
  }

  int32_t io_family(TraceNodeKind kind, bool is_expert) const {
    const IoReferences& io = place_.references.io;
    if (kind == TraceNodeKind::kLoad) {
      return is_expert ? io.expert_load_family : io.load_family;
    }
    return is_expert ? io.expert_store_family : io.store_family;
  }

  // A micro-batch, which the first computation waits for. Where I/O nodes have nothing to do but
  // that, it is there in time.
  void load_input() {
    if (request_.strategy.streams_by_io && shares_.input_bytes > 0) {
      const auto last = count_of(shares_.layers) * kNamesPerLayer;
      gates_.push_back(trace_.add({.kind = TraceNodeKind::kLoad,
                                   .name = last + static_cast<int32_t>(LastName::kInput),
                                   .family = place_.references.io.input_family,
                                   .size_bytes = shares_.input_bytes},
                                  {}));
    }
  }

  // Weights of one run ahead of the computation at most: two runs' are held.
  void load(int32_t layer) {
    if (streams() && visit_.is_first && share(layer).parameter_bytes > 0) {
      const std::size_t visits = buffers_.visit_ends.size();
      gates_.push_back(trace_.add(transfer(TraceNodeKind::kLoad, layer),
                                  visits >= 2 ? Nodes{buffers_.visit_ends[visits - 2]} : Nodes{}));
    }
  }

  const LayerShares& shares_;
  const TraceRequest& request_;
  const PassPlace& place_;
  WorkerTrace& trace_;
  Nodes after_;  // what the next node of the chain waits for
  Nodes gates_;  // and what the next computation waits for besides
  std::vector<Waiting> waiting_;
  Visit visit_;  // the present one
  struct Buffers {
    Nodes visit_ends;  // by visit to a run with parameters: what uses them last
    Nodes stores;      // of the last such visit
    Nodes leaving;     // of the one before
  } buffers_;
  int32_t last_compute_ = -1;  // the last node in the order of computation
};

}  // namespace

std::vector<std::string> pass_names(const Model& model) {
  std::vector<std::string> names;
  for (const ModelLayer& layer : model.layers) {
    for (const char* suffix : {"", " forward", " backward", " weight gradient"}) {
      names.push_back(layer.name + suffix);
    }
  }
  names.insert(names.end(), {"activations", "gradients", "input"});
  return names;
}

std::vector<Pass> stage_passes(const Strategy& strategy, int32_t stage) {
  const int32_t count = strategy.micro_batches;
  const bool is_gpipe = strategy.schedule == PipelineSchedule::kGpipe;
  const int32_t ahead = is_gpipe ? count : std::min(strategy.pipeline - 1 - stage, count);
  std::vector<Pass> passes;
  passes.reserve(at(count) * 2);
  for (int32_t micro_batch = 0; micro_batch < ahead; ++micro_batch) {
    passes.push_back({true, micro_batch});
  }
  for (int32_t micro_batch = 0; micro_batch < count; ++micro_batch) {
    if (ahead + micro_batch < count) {
      passes.push_back({true, ahead + micro_batch});
    }
    passes.push_back({false, is_gpipe ? count - 1 - micro_batch : micro_batch});
  }
  return passes;
}

void append_passes(const LayerShares& shares, const TraceRequest& request, const PassPlace& place,
                   WorkerTrace& trace) {
  PassWriter(shares, request, place, trace).write();
}

}  // namespace pleach
