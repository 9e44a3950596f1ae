// Registry: an explicit table of things that go by name: algorithms, topologies, policies, models.
//
// An entry is one const descriptor, `extern const Algorithm kRing = {.name = "ring", ...};` in a
// file of its own, and its name in the table. A table is a source file that holds nothing else, so
// that a program may link another one in its place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pleach/base/options.h"
#include "pleach/base/result.h"
#include "pleach/base/text.h"

namespace pleach {

// What `pleach list` shows of an entry.
struct RegistryEntry {
  std::string name;
  std::string summary;
  std::string source;   // paper and section; empty where there is none
  std::string details;  // arguments and options, or collectives, in words
};

struct RegistryListing {
  std::string registry;  // "topologies"
  std::vector<RegistryEntry> entries;
};

// An entry and the options that it was called with.
template <typename Entry>
struct Selection {
  const Entry* entry = nullptr;
  Options options;
};

// "step_rule=complete|published (default complete), interfaces=N (default 0)".
std::string describe_options(std::span<const OptionDescriptor> options);
// The same after "options: ", or nothing.
std::string option_details(std::span<const OptionDescriptor> options);

// The options of a spec NAME[,key=value...] without an argument; `what` begins errors.
//   errors  kInvalidArgument: an argument after a colon, and those of Options::create
Result<Options> options_of(const Spec& spec, std::string_view what,
                           std::span<const OptionDescriptor> descriptors);

// Borrows a table of static descriptors, each with `name` and `summary`; `source`, `options`,
// title() and details() where it has them. Cheap to copy. Thread safe.
template <typename Entry>
class Registry {
 public:
  // `what`: one of them, in errors; `plural`: all of them, in lists.
  constexpr Registry(std::string_view what, std::string_view plural,
                     std::span<const Entry* const> entries)
      : what_(what), plural_(plural), entries_(entries) {}

  // In the order that `pleach list` shows.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  std::size_t size() const { return entries_.size(); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Entry* entry : entries_) {
      names.push_back(entry->name);
    }
    return names;
  }
  // Errors: kInvalidArgument listing the known names and the nearest one.
  Result<const Entry*> find(std::string_view name) const {
    const auto found = std::ranges::find(entries_, name, &Entry::name);
    if (found == entries_.end()) {
      return unknown_name(what_, name, names());
    }
    return *found;
  }
  // The entry of a spec, whatever its options.
  Result<const Entry*> entry_of(std::string_view spec) const {
    return find(spec.substr(0, spec.find(',')));
  }
  // "multitree,step_rule=published" → the entry and its options.
  //   errors  those of parse_spec, find and options_of
  Result<Selection<Entry>> select(std::string_view spec) const {
    PLEACH_ASSIGN(parsed, parse_spec(spec));
    PLEACH_ASSIGN(entry, find(parsed.name));
    PLEACH_ASSIGN(options,
                  options_of(parsed, std::string(what_) + " " + entry->name, entry->options));
    return Selection<Entry>{entry, std::move(options)};
  }
  RegistryListing list() const {
    RegistryListing listing{std::string(plural_), {}};
    for (const Entry* entry : entries_) {
      RegistryEntry& row = listing.entries.emplace_back();
      row.name = entry->name;
      row.summary = entry->summary;
      if constexpr (requires { entry->title(); }) {
        row.name = entry->title();
      }
      if constexpr (requires { entry->source; }) {
        row.source = entry->source;
      }
      if constexpr (requires { entry->details(); }) {
        row.details = entry->details();
      } else if constexpr (requires { entry->options; }) {
        row.details = option_details(entry->options);
      }
    }
    return listing;
  }

 private:
  std::string_view what_;
  std::string_view plural_;
  std::span<const Entry* const> entries_;
};

}  // namespace pleach

// Applies `macro(type, argument)` to every further argument, up to 256 of them.
#define PLEACH_PARENTHESES ()
#define PLEACH_EXPAND(...) PLEACH_EXPAND_4(PLEACH_EXPAND_4(PLEACH_EXPAND_4(__VA_ARGS__)))
#define PLEACH_EXPAND_4(...) PLEACH_EXPAND_3(PLEACH_EXPAND_3(PLEACH_EXPAND_3(__VA_ARGS__)))
#define PLEACH_EXPAND_3(...) PLEACH_EXPAND_2(PLEACH_EXPAND_2(PLEACH_EXPAND_2(__VA_ARGS__)))
#define PLEACH_EXPAND_2(...) PLEACH_EXPAND_1(PLEACH_EXPAND_1(PLEACH_EXPAND_1(__VA_ARGS__)))
#define PLEACH_EXPAND_1(...) __VA_ARGS__
#define PLEACH_FOR_EACH(macro, type, ...) \
  __VA_OPT__(PLEACH_EXPAND(PLEACH_FOR_EACH_NEXT(macro, type, __VA_ARGS__)))
#define PLEACH_FOR_EACH_NEXT(macro, type, first, ...) \
  macro(type, first) __VA_OPT__(PLEACH_FOR_EACH_AGAIN PLEACH_PARENTHESES(macro, type, __VA_ARGS__))
#define PLEACH_FOR_EACH_AGAIN() PLEACH_FOR_EACH_NEXT

#define PLEACH_DECLARE_ENTRY(type, name) extern const type name;
#define PLEACH_ENTRY_ADDRESS(type, name) &(name),

// Defines the table `function`, a Registry of the named descriptors of `type`.
#define PLEACH_REGISTRY(function, type, what, plural, ...)         \
  PLEACH_FOR_EACH(PLEACH_DECLARE_ENTRY, type, __VA_ARGS__)         \
  Registry<type> function() {                                      \
    static constexpr const type* kEntries[] = {                    \
        PLEACH_FOR_EACH(PLEACH_ENTRY_ADDRESS, type, __VA_ARGS__)}; \
    return {what, plural, kEntries};                               \
  }
