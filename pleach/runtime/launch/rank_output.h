// RankOutput: what ranks print, line by line.
#pragma once

#include <poll.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/id.h"
#include "pleach/base/result.h"
#include "pleach/runtime/net.h"

namespace pleach {

// Collects it over pipes. Lines of more than 16 MiB are told in parts. Used by one thread.
class RankOutput {
 public:
  // Told each line, without its end.
  using Told = std::function<void(Rank rank, bool is_error, std::string_view line)>;
  explicit RankOutput(Told told) : told_(std::move(told)) {}

  // Where a rank is to write.
  struct Ends {
    Descriptor output, error;
  };
  Result<Ends> open(Rank rank);

  // Appends what poll() is to wait for.
  void add_to(std::vector<pollfd>& waits) const;
  // Tells of what is here. Never waits.
  void read();
  // The same, and of the lines that have no end: nobody is to write any more.
  void finish();

 private:
  struct Pipe {
    Descriptor end;
    Rank rank;
    bool is_error = false;
    std::string begun = {};  // of a line whose end has not come
  };
  void read(Pipe& pipe);
  void tell_lines(Pipe& pipe);

  Told told_;
  std::vector<Pipe> pipes_;
};

}  // namespace pleach
