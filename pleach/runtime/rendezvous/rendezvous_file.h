// How ranks on one machine find rank 0's port: a small file, named by user and job.
#pragma once

#include <optional>
#include <string>

#include "pleach/base/result.h"
#include "pleach/runtime/net.h"

namespace pleach {

// Publishes the port, whole or not at all, over whatever a job before has left.
//   returns  what shows that the writer lives, as long as it is open
//   errors   kIo
Result<Descriptor> write_rendezvous(const std::string& path, int port);
// The port, when there is a well-formed file that belongs to this user, and whose writer lives;
// else empty.
std::optional<int> read_rendezvous(const std::string& path);
// Removes the file if it still names the port.
void remove_rendezvous(const std::string& path, int port);

}  // namespace pleach
