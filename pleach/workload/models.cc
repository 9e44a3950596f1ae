// The built-in workloads, each defined in models/NAME.cc.
#include "pleach/workload/model.h"

namespace pleach {

PLEACH_REGISTRY(workload_models, WorkloadDescriptor, "workload", "workloads", kResnet50, kResnet152,
                kDensenet201, kInceptionV4, kVgg16, kAlexnet, kGooglenet, kBertBase, kBertLarge,
                kGpt3, kTransformer17b, kTransformer1t, kLlama, kMixtureOfExperts, kAlphagozero,
                kFasterRcnn, kNcf, kTransformer, kMultitreeAlexnet, kMultitreeGooglenet,
                kMultitreeResnet50)

}  // namespace pleach
