// Process memory: what other processes of this host hold, read without their doing.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "pleach/base/result.h"

namespace pleach {

// The process at the other end of a connection within the host; 0: unknown.
pid_t process_of(int socket);

// Copies what stands at that address of another process, in one system call. It may change
// meanwhile.
//   errors  kIo: the kernel forbids it; the process has ended, or holds not all of it
Status read_process(pid_t process, const std::byte* from, std::span<std::byte> to);

// Whether processes that this one starts may read it: as ranks of one user do each other, where no
// ptrace_scope, user namespace or system call filter is in the way. Starts one and waits for it.
//   errors  kIo
Status try_to_read_processes();

}  // namespace pleach
