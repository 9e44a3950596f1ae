// pleach list: the registries.
#include <fmt/core.h>

#include "pleach/cli/common.h"
#include "pleach/cli/table.h"

namespace pleach {
namespace {

std::string text_of(const RegistryListing& listing) {
  Table table({{"", Table::Align::kLeft}, {"", Table::Align::kLeft}});
  for (const RegistryEntry& entry : listing.entries) {
    table.add({entry.name, entry.summary});
    if (!entry.details.empty()) {
      table.add({"", "  " + entry.details});
    }
    if (!entry.source.empty()) {
      table.add({"", "  source: " + entry.source});
    }
  }
  return listing.registry + "\n" + table.text("  ");
}

Result<ExitCode> run_list(const Command& command, const Invocation& invocation) {
  std::string name;
  bool json = false;
  CommandLine line(command, invocation);
  line.optional_argument(
      "REGISTRY", name,
      "topologies, algorithms, policies, workloads, accelerators, transports, models "
      "or formats");
  line.flag("--json", json, "print one JSON object");
  if (const auto stop = line.parse()) {
    return *stop;
  }
  std::vector<RegistryListing> listings;
  if (name.empty()) {
    listings = list_registries();
  } else {
    PLEACH_ASSIGN(listing, list_registry(name));
    listings.push_back(listing);
  }
  if (json) {
    fmt::print(invocation.out, "{}\n", to_json(listings));
    return ExitCode::kDone;
  }
  for (std::size_t index = 0; index < listings.size(); ++index) {
    fmt::print(invocation.out, "{}{}", index == 0 ? "" : "\n", text_of(listings[index]));
  }
  return ExitCode::kDone;
}

}  // namespace

extern const Command kListCommand = {"list",
                                     "shows the topologies, algorithms, transports, ... there are",
                                     "  pleach list                     everything\n"
                                     "  pleach list algorithms          one registry\n"
                                     "  pleach list algorithms --json   for scripts\n",
                                     run_list};

}  // namespace pleach
