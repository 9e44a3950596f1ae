#include "pleach/runtime/launch/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "pleach/runtime/read_block.h"

namespace pleach {
namespace {

constexpr std::size_t kMostLine = 16 << 20;

}  // namespace

Result<RankOutput::Ends> RankOutput::open(Rank rank) {
  Ends ends;
  for (const bool is_error : {false, true}) {
    std::array<int, 2> pipe = {-1, -1};
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      return system_error("make a pipe");
    }
    (is_error ? ends.error : ends.output) = Descriptor(pipe[1]);
    pipes_.push_back({Descriptor(pipe[0]), rank, is_error});
    PLEACH_TRY(set_nonblocking(pipe[0]));
  }
  return ends;
}

void RankOutput::add_to(std::vector<pollfd>& waits) const {
  for (const Pipe& pipe : pipes_) {
    waits.push_back({.fd = pipe.end.get(), .events = POLLIN, .revents = 0});
  }
}

void RankOutput::read() {
  for (Pipe& pipe : pipes_) {
    read(pipe);
  }
  std::erase_if(pipes_, [](const Pipe& pipe) { return !pipe.end.is_open(); });
}

// One read of each, so that none that prints without end keeps the others waiting.
void RankOutput::read(Pipe& pipe) {
  const ReadBlock block;
  const ssize_t count = ::read(pipe.end.get(), block.bytes().data(), block.bytes().size());
  if (count < 0) {
    return;  // nothing is here
  }
  pipe.begun.append(block.bytes().data(), static_cast<std::size_t>(count));
  tell_lines(pipe);
  if (count == 0) {
    if (!pipe.begun.empty()) {
      told_(pipe.rank, pipe.is_error, pipe.begun);
    }
    pipe.end.close();
  }
}

void RankOutput::tell_lines(Pipe& pipe) {
  std::string_view rest = pipe.begun;
  for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    told_(pipe.rank, pipe.is_error, rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  if (rest.size() > kMostLine) {
    told_(pipe.rank, pipe.is_error, rest);
    rest = {};
  }
  pipe.begun.erase(0, pipe.begun.size() - rest.size());
}

void RankOutput::finish() {
  // What the pipes hold is less than these reads take; who still writes is not waited for.
  constexpr int kReads = 17;
  for (int i = 0; i < kReads; ++i) {
    read();
  }
  for (const Pipe& pipe : pipes_) {
    if (!pipe.begun.empty()) {
      told_(pipe.rank, pipe.is_error, pipe.begun);
    }
  }
  pipes_.clear();
}

}  // namespace pleach
