#include "pleach/report/registries.h"

#include "pleach/report/json.h"

namespace pleach {

std::string to_json(std::span<const RegistryListing> listings) {
  Json object = Json::object();
  for (const RegistryListing& listing : listings) {
    Json entries = Json::array();
    for (const RegistryEntry& entry : listing.entries) {
      entries.push_back({{"name", entry.name},
                         {"summary", entry.summary},
                         {"source", entry.source},
                         {"details", entry.details}});
    }
    object[listing.registry] = entries;
  }
  return line_of(object);
}

}  // namespace pleach
