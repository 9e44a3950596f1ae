#include "pleach/cli/log.h"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace pleach {

void log_step(const std::string& what) {
  if (std::getenv("PLEACH_LOG") == nullptr && isatty(STDERR_FILENO) == 0) {
    return;
  }
  spdlog::logger logger("pleach", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>());
  logger.set_pattern("%H:%M:%S.%e %v");
  logger.info(what);
}

}  // namespace pleach
