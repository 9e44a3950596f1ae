// Schedule files: the registry of formats.
#pragma once

#include <string>
#include <string_view>

#include "pleach/base/registry.h"
#include "pleach/base/result.h"
#include "pleach/collective/schedule.h"

namespace pleach {

struct ScheduleFormat {
  std::string name;  // "json", "binary"
  std::string summary;
  std::string extension;  // ".json", ".pleach"
  // Whether the content looks like this format (by its first bytes).
  bool (*recognises)(std::string_view content);
  Result<std::string> (*write)(const Schedule& schedule);
  // `path` is used in messages only. The result is well-formed in its ranges and lengths; its
  // meaning is for check_form and verify to judge.
  Result<Schedule> (*read)(std::string_view content, const std::string& path);

  std::string details() const { return "files *" + extension; }
};

Registry<ScheduleFormat> schedule_formats();

// Reads any known format, recognised by content. Errors: kIo, kInvalidArgument: one line with path.
Result<Schedule> read_schedule(const std::string& path);
// Writes in the format of the path's extension. Errors: kIo, unknown extension (known ones listed).
Status write_schedule(const Schedule& schedule, const std::string& path);

}  // namespace pleach
