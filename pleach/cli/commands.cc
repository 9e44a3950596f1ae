// The subcommands, each defined in NAME.cc.
#include "pleach/cli/command.h"

namespace pleach {

PLEACH_REGISTRY(commands, Command, "command", "commands", kTopologyCommand, kSynthesizeCommand,
                kVerifyCommand, kSimulateCommand, kCompareCommand, kPlanCommand, kTrafficCommand,
                kProbeCommand, kRunCommand, kLaunchCommand, kFlightCommand, kTrainCommand,
                kFredCommand, kListCommand, kDoctorCommand)

}  // namespace pleach
