#include "pleach/runtime/rendezvous/rendezvous_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "pleach/base/file_size_limit.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"

namespace pleach {

Result<Descriptor> write_rendezvous(const std::string& path, int port) {
  // The folder is everybody's: a fresh name that nobody can have prepared, then a rename.
  std::string temporary = path + ".XXXXXX";
  Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) {
    return system_error(fmt::format("create {}", path));
  }
  const std::string text = fmt::format("{}\n", port);
  const FileSizeLimit is_told_as_an_error;
  // The lock ends with this process, however that ends.
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 ||
      write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    const Error error = system_error(fmt::format("write {}", path));
    unlink(temporary.c_str());
    return error;
  }
  return file;
}

std::optional<int> read_rendezvous(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!file.is_open() || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_uid != geteuid()) {
    return std::nullopt;
  }
  if (flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    return std::nullopt;  // whoever wrote it is gone
  }
  std::array<char, 16> text = {};
  const ssize_t size = read(file.get(), text.data(), text.size());
  if (size < 2 || text[at(size) - 1] != '\n') {
    return std::nullopt;
  }
  const Result<int64_t> port = parse_integer({text.data(), at(size) - 1}, "port", 1, 65535);
  return port ? std::optional(static_cast<int>(*port)) : std::nullopt;
}

void remove_rendezvous(const std::string& path, int port) {
  if (read_rendezvous(path) == port) {
    unlink(path.c_str());
  }
}

}  // namespace pleach
