// pleach list: the registries.

#include "pleach/base/text.h"
#include "pleach/cli/common.h"
#include "pleach/cli/print.h"
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
  std::vector<RegistryListing> listings = list_registries();
  std::vector<std::string> names;
  names.reserve(listings.size());
  for (const RegistryListing& listing : listings) {
    names.push_back(listing.registry);
  }
  CommandLine line(command, invocation);
  line.optional_argument("REGISTRY", alternatives(names));
  line.json_flag();
  if (const auto stop = line.parse()) {
    return *stop;
  }
  if (line.given("REGISTRY")) {
    PLEACH_ASSIGN(listing, list_registry(line.text("REGISTRY")));
    listings = {listing};
  }
  if (line.json()) {
    print_text(invocation.out, to_json(listings) + "\n");
    return ExitCode::kDone;
  }
  for (std::size_t index = 0; index < listings.size(); ++index) {
    print_text(invocation.out, (index == 0 ? "" : "\n") + text_of(listings[index]));
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
