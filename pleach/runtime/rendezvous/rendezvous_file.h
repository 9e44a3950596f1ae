// How ranks on one machine find rank 0's port: a small file, named by user and job.
#pragma once

#include <optional>
#include <string>

#include "pleach/base/result.h"

namespace pleach {

// Publishes the port, whole or not at all, over whatever a job before has left. Errors: kIo.
Status write_rendezvous(const std::string& path, int port);
// The port, when there is a well-formed file that belongs to this user; else empty.
std::optional<int> read_rendezvous(const std::string& path);
// Removes the file if it still names the port.
void remove_rendezvous(const std::string& path, int port);

}  // namespace pleach
