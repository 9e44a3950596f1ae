// The formats of schedule files, each defined in formats/NAME.cc.
#include "pleach/collective/formats.h"

namespace pleach {

PLEACH_REGISTRY(schedule_formats, ScheduleFormat, "format", "formats", kJsonFormat, kBinaryFormat)

}  // namespace pleach
