#include <fmt/format.h>

#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/text.h"
#include "pleach/collective/formats.h"

namespace pleach {
namespace {

constexpr std::size_t kShownBytes = 8;  // of a file that no format recognises

std::string known_formats() {
  std::vector<std::string> known;
  for (const ScheduleFormat* format : schedule_formats()) {
    known.push_back(fmt::format("{} ({})", format->extension, format->name));
  }
  return join(known, ", ");
}

}  // namespace

Result<Schedule> read_schedule(const std::string& path) {
  PLEACH_ASSIGN(content, read_text_file(path));
  for (const ScheduleFormat* format : schedule_formats()) {
    if (format->recognises(content)) {
      return format->read(content, path);
    }
  }
  return invalid(fmt::format("{}: is no schedule: it begins with {}; known formats: {}", path,
                             quoted(std::string_view(content).substr(0, kShownBytes)),
                             known_formats()));
}

Status write_schedule(const Schedule& schedule, const std::string& path) {
  for (const ScheduleFormat* format : schedule_formats()) {
    if (path.ends_with(format->extension)) {
      PLEACH_ASSIGN(content, format->write(schedule));
      return write_file(path, content);
    }
  }
  return invalid(
      fmt::format("{}: unknown extension for a schedule; known: {}", path, known_formats()));
}

}  // namespace pleach
