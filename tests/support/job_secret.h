// The secret of a test's job.
#pragma once

#include "pleach/runtime/launch/launch.h"
#include "pleach/runtime/rendezvous/secret.h"

namespace pleach::support {

// A new one; its ranks encrypt if PLEACH_TLS is set, so that all tests of what ranks do hold for
// those too.
inline JobSecret job_secret() {
  return with_tls(process_environment, JobSecret::make()).value();
}

}  // namespace pleach::support
