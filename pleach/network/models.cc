// The network models, each defined in NAME/NAME.cc.
#include "pleach/network/model.h"

namespace pleach {

PLEACH_REGISTRY(network_models, NetworkModel, "network model", "models", kFlowModel, kAnalyticModel,
                kFlitModel)

}  // namespace pleach
