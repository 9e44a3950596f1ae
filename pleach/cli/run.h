// pleach run, its parts: what the command line asks for, and what all ranks take from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pleach/cli/common.h"

namespace pleach {

void declare_run(CommandLine& line);

// The command line, understood. Equal on all ranks.
struct RunSettings {
  BenchmarkOptions benchmark;
  int32_t rank_count = 0;  // 0: as many as were started
  int32_t host_count = 1;  // that the ranks take themselves to be on, where they are started here
  std::string transport;
  bool spans_processes = true;  // what the transport does
  Duration deadline = std::chrono::seconds(30);
  int32_t landing_places = 4;
};
Result<RunSettings> understand_run(const CommandLine& line);

// What `rank_count` ranks are to run: the asked collective's part of a book, or one schedule.
//   choice  their transport, and where they are; for a book that is planned
//   errors  kInvalidArgument: the topology, file or book is for another number of ranks; those of
//           obtain_book and obtain_schedule
Result<Book> book_for(const CommandLine& line, int32_t rank_count, const TransportChoice& choice);

// Of the collective; none: whatever what is run has.
Result<std::optional<Rank>> root_option(const CommandLine& line, int32_t rank_count);

}  // namespace pleach
