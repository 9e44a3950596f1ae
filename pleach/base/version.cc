#include "pleach/base/version.h"

namespace pleach {

std::string_view version() {
  return PLEACH_VERSION;
}

}  // namespace pleach
