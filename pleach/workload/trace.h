// Trace: what every rank computes and communicates in one iteration, as a graph of dependencies.
//
// Ranks that always do the same at the same time are one *worker*; those of none do nothing. Groups
// of ranks that communicate alike are one *family* ("tensor": all tensor-parallel groups).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleach/base/collective_kind.h"
#include "pleach/base/result.h"

namespace pleach {

enum class TraceNodeKind : uint8_t {
  kCompute,  // on the worker's computation stream, one at a time
  // From memory or storage outside, on the worker's load stream, and to it, on its store stream.
  // With a `family`: by the network's I/O nodes to or from each of its groups, whose workers must
  // all come to it; a load is a broadcast of the bytes to the group, a store a reduction of them.
  kLoad,
  kStore,
  kCollective,    // of the rank's group in `family`; all its workers must come to it
  kSend,          // rank i of the worker to rank i of worker `peer`; completes when it has left.
                  // With a `family`: the first rank of each of its groups to the others, which are
                  // the peer's, as one broadcast
  kReceive,       // completes when the message of (peer, tag) has come
  kGradient,      // tells the gradient group's policy that the layer's gradients are complete
  kForwardGate,   // waits until the policy lets the layer's forward start
  kBackwardGate,  // waits until the policy lets the layer's backward start
};

struct TraceNode {
  TraceNodeKind kind = TraceNodeKind::kCompute;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int32_t name = 0;             // into Trace::names
  int32_t family = -1;          // kCollective; kSend, kReceive, kLoad, kStore: above
  int32_t gradient_group = -1;  // kGradient and gates: into Trace::gradient_groups
  int32_t layer = -1;           // kGradient and gates: of the gradient group
  int32_t peer = -1;            // kSend, kReceive: a worker
  int32_t tag = 0;              // kSend, kReceive: tells messages of one pair apart
  int64_t duration_ps = 0;      // kCompute; kLoad, kStore without a family
  int64_t size_bytes = 0;       // kCollective: whole buffer of one rank; kSend, kReceive: message
};

struct WorkerTrace {
  std::vector<int32_t> ranks;  // that it stands for, ≥ 1
  std::string file = {};       // that says it; empty: a workload does
  std::vector<TraceNode> nodes;
  // Node i waits for dependencies[first_dependency[i] .. first_dependency[i + 1]), all < i.
  std::vector<int32_t> first_dependency = {0};
  std::vector<int32_t> dependencies;

  // Appends a node that waits for `after`.
  int32_t add(const TraceNode& node, const std::vector<int32_t>& after);
};

// What the ranks of a family's groups communicate for.
enum class FamilyRole : uint8_t {
  kData,        // gradients
  kExpertData,  // gradients of experts
  kTensor,      // layers that are cut
  kSequence,    // sequences that are cut
  kExpert,      // tokens on their way to experts and back: what policies may overlap
  kEmbedding,   // gradients of tied tensors
  kPipeline,    // outputs of stages, one stage's to another one's: the source first
  kIo,          // what I/O nodes bring to groups, or take from them: of loads, or of stores
  kInput,       // the same, of samples
  kOther,       // what a file says
};

struct Family {
  std::string name;  // "tensor", "data", "expert", "sequence", or a communicator's name
  std::vector<std::vector<int32_t>> groups;  // ranks, each group in its own rank order
  FamilyRole role = FamilyRole::kOther;
};

// The layers whose gradients one policy object schedules, over the groups of one family.
struct GradientLayer {
  std::string name;
  std::vector<int64_t> tensor_bytes;  // of one rank
  int64_t forward_ps = 0;             // all micro-batches
  int64_t backward_ps = 0;
  int64_t weight_gradient_ps = 0;
  int64_t exchange_bytes = 0;    // of each expert all_to_all of one micro-batch
  bool continues_block = false;  // of the layer before
  int32_t model_layer = 0;
};
struct GradientGroup {
  std::string name;  // "data, stage 2"
  int32_t family = 0;
  std::vector<int32_t> workers = {};  // all of them must report a gradient
  int32_t rank_count = 1;             // of one group
  std::vector<GradientLayer> layers = {};
};

struct Trace {
  std::string name;
  int32_t rank_count = 0;
  std::vector<WorkerTrace> workers = {};
  std::vector<Family> families = {};
  std::vector<GradientGroup> gradient_groups = {};
  std::vector<std::string> names = {};
};

// Whether a family's loads or stores are by the network's I/O nodes.
inline bool is_of_io(FamilyRole role) {
  return role == FamilyRole::kIo || role == FamilyRole::kInput;
}
// What I/O nodes do for a load or a store.
inline CollectiveKind io_collective(TraceNodeKind kind) {
  return kind == TraceNodeKind::kLoad ? CollectiveKind::kBroadcast : CollectiveKind::kReduce;
}

// The first family of a role; −1: there is none.
int32_t find_family(const Trace& trace, FamilyRole role);

// Errors: kInvalidArgument in one line: a dependency that is not before its node, a rank in
// two workers, one of a family in none, a family or peer that is not there, a send without its
// receive, a collective, load or store that not all members of a group issue alike (names the group
// and both sides), a family of I/O nodes that is not of loads alone or of stores alone, negative
// sizes or times, sizes over 1 PiB, a worker without nodes.
Status check_trace(const Trace& trace);

}  // namespace pleach
