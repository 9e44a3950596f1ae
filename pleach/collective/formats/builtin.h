// The schedule formats of this folder, one file each; formats.cc lists them.
#pragma once

#include "pleach/collective/formats.h"

namespace pleach {

extern const ScheduleFormat kJsonFormat;
extern const ScheduleFormat kBinaryFormat;

}  // namespace pleach
