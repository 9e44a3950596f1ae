#include "pleach/planning/book.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

#include "pleach/base/files.h"
#include "pleach/base/hash.h"
#include "pleach/base/index.h"
#include "pleach/base/text.h"
#include "pleach/base/version.h"
#include "pleach/collective/chunk_grid.h"
#include "pleach/collective/formats.h"

namespace pleach {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr std::string_view kScheduleFormat = "binary";
constexpr int32_t kMostRanks = kMaxScheduleNodes;
constexpr int64_t kMostBytes = int64_t{1} << 32;

uint64_t hash_of(std::string_view content) {
  Fingerprint hash;
  hash.add(content);
  return hash.value();
}

// Planning.

// The size that is as many times the one as the other is it.
int64_t middle(int64_t size_bytes, int64_t next_bytes) {
  return std::llround(std::sqrt(static_cast<double>(size_bytes) * static_cast<double>(next_bytes)));
}

// Adds what a size takes, after those of smaller ones.
void add_choice(Book& book, CollectiveKind collective, const Choice& choice, int64_t from_bytes) {
  const auto known = std::ranges::find(book.schedules, choice.schedule);
  const auto index = static_cast<int32_t>(known - book.schedules.begin());
  if (known == book.schedules.end()) {
    book.schedules.push_back(choice.schedule);
  }
  const Book::Entry entry{collective, INT64_MAX, choice.segment_count, index};
  if (!book.entries.empty() && book.entries.back().collective == collective) {
    if (book.entries.back() == entry) {
      return;
    }
    book.entries.back().up_to_bytes = from_bytes;
  }
  book.entries.push_back(entry);
}

Status add_collective(const ChooseForBook& choose, std::span<const int64_t> sizes_bytes,
                      CollectiveKind collective, Book& book) {
  const int64_t blocks = collective == CollectiveKind::kAllToAll ? book.rank_count : 1;
  int64_t before_bytes = 0;
  for (const int64_t size_bytes : sizes_bytes) {
    ScheduleRequest request;
    request.collective = collective;
    request.size_bytes = std::max<int64_t>(size_bytes / blocks, 1) * blocks;
    PLEACH_ASSIGN(choice, choose(request));
    if (!choice) {
      PLEACH_CHECK(before_bytes == 0, "a collective is planned at all sizes, or at none");
      return ok();
    }
    add_choice(book, collective, *choice, middle(before_bytes, size_bytes));
    before_bytes = size_bytes;
  }
  return ok();
}

// One rank's: there is nothing to do.
std::shared_ptr<const Schedule> empty_schedule(CollectiveKind collective, NodeId node) {
  Schedule schedule;
  schedule.collective = collective;
  schedule.participants = {node};
  return std::make_shared<const Schedule>(std::move(schedule));
}

// Reading.

// Lines that begin with a known word, and bytes.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& where) : rest_(bytes), where_(where) {}

  std::string_view rest() const { return rest_; }
  Error error(const std::string& what) const { return invalid(where_, what); }

  // What follows the word on its line.
  Result<std::string_view> after(std::string_view word) {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) {
      return error("is cut short");
    }
    const std::string_view line = rest_.substr(0, end);
    if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') {
      return error(fmt::format("has {} where '{}' belongs", pleach::quoted(line), word));
    }
    rest_.remove_prefix(end + 1);
    return line.substr(word.size() + 1);
  }
  Result<std::vector<std::string_view>> words_after(std::string_view word, std::size_t count) {
    PLEACH_ASSIGN(text, after(word));
    std::vector<std::string_view> words = split(text, ' ');
    if (words.size() != count) {
      return error(fmt::format("'{} {}' is not of {} words", word, one_line(text), count));
    }
    return words;
  }
  Result<int64_t> number_after(std::string_view word, int64_t least, int64_t most) {
    PLEACH_ASSIGN(text, after(word));
    return number(text, word, least, most);
  }
  Result<int64_t> number(std::string_view text, std::string_view what, int64_t least,
                         int64_t most) const {
    const Result<int64_t> value = parse_integer(text, what, least, most);
    return value ? value : error(value.error().message);
  }
  Result<uint64_t> hash(std::string_view text) const {
    uint64_t value = 0;
    const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return code == std::errc() && stop == text.data() + text.size()
               ? Result<uint64_t>(value)
               : error(fmt::format("{} is no hash", pleach::quoted(text)));
  }
  Result<std::string_view> bytes(int64_t count) {
    if (at(count) > rest_.size()) {
      return error("is cut short");
    }
    const std::string_view taken = rest_.substr(0, at(count));
    rest_.remove_prefix(at(count));
    return taken;
  }

 private:
  std::string_view rest_;
  const std::string& where_;
};

// The lines before the content, which is then what the writer wrote.
Status read_head(Reader& reader) {
  if (!reader.rest().starts_with("pleach book ")) {
    return reader.error("is no book");
  }
  PLEACH_ASSIGN(format, reader.after("pleach book"));
  if (format != std::to_string(kFormatVersion)) {
    return reader.error(fmt::format("book of format version {}; this program reads version {}",
                                    one_line(format), kFormatVersion));
  }
  PLEACH_ASSIGN(library, reader.after("library"));
  if (library != version()) {
    return reader.error(fmt::format("book of version {} of the library, this is {}; plan it again",
                                    one_line(library), version()));
  }
  PLEACH_ASSIGN(content, reader.words_after("content", 2));
  PLEACH_ASSIGN(hash, reader.hash(content[0]));
  PLEACH_ASSIGN(count, reader.number(content[1], "bytes of content", 0, kMostBytes));
  if (reader.rest().size() < at(count)) {
    return reader.error("is cut short");
  }
  if (reader.rest().size() > at(count) || hash_of(reader.rest()) != hash) {
    return reader.error("was changed since it was written");
  }
  return ok();
}

Result<Book::Entry> read_entry(Reader& reader, int32_t schedule_count) {
  PLEACH_ASSIGN(words, reader.words_after("entry", 4));
  Book::Entry entry;
  const Result<CollectiveKind> collective = parse_collective(words[0]);
  if (!collective) {
    return reader.error(collective.error().message);
  }
  entry.collective = *collective;
  PLEACH_SET(entry.up_to_bytes, reader.number(words[1], "size", 0, INT64_MAX));
  PLEACH_ASSIGN(segments, reader.number(words[2], "segments", 1, kMostSegments));
  PLEACH_ASSIGN(schedule, reader.number(words[3], "schedule", 0, schedule_count - 1));
  entry.segment_count = static_cast<int32_t>(segments);
  entry.schedule = static_cast<int32_t>(schedule);
  return entry;
}

// Whether collectives are together, their sizes ascend to the largest, and schedules are of them.
Status check_entries(const Book& book, const Reader& reader) {
  std::vector<CollectiveKind> seen;
  for (std::size_t i = 0; i < book.entries.size(); ++i) {
    const Book::Entry& entry = book.entries[i];
    const bool continues = i > 0 && book.entries[i - 1].collective == entry.collective;
    const int64_t before = continues ? book.entries[i - 1].up_to_bytes : -1;
    const bool is_last =
        i + 1 == book.entries.size() || book.entries[i + 1].collective != entry.collective;
    if ((!continues && std::ranges::find(seen, entry.collective) != seen.end()) ||
        entry.up_to_bytes <= before || is_last != (entry.up_to_bytes == INT64_MAX)) {
      return reader.error(fmt::format("entry {}: sizes of {} do not ascend to the largest", i,
                                      to_text(entry.collective)));
    }
    seen.push_back(entry.collective);
    const Schedule& schedule = *book.schedules[at(entry.schedule)];
    if (schedule.collective != entry.collective || schedule.rank_count() != book.rank_count) {
      return reader.error(fmt::format("entry {}: schedule {} is of {} on {} ranks", i,
                                      entry.schedule, to_text(schedule.collective),
                                      schedule.rank_count()));
    }
  }
  return ok();
}

}  // namespace

const Book::Entry* Book::find(CollectiveKind collective, int64_t size_bytes) const {
  const auto found = std::ranges::find_if(entries, [&](const Entry& entry) {
    return entry.collective == collective && size_bytes <= entry.up_to_bytes;
  });
  return found == entries.end() ? nullptr : &*found;
}

std::vector<int64_t> BookOptions::book_sizes() {
  std::vector<int64_t> sizes;
  for (int64_t size_bytes = 256; size_bytes <= int64_t{256} << 20; size_bytes *= 2) {
    sizes.push_back(size_bytes);
  }
  return sizes;
}

Status check_book_sizes(std::span<const int64_t> sizes_bytes) {
  const bool is_fine =
      !sizes_bytes.empty() && sizes_bytes.front() >= 1 &&
      std::ranges::adjacent_find(sizes_bytes, std::greater_equal()) == sizes_bytes.end();
  return is_fine ? ok() : Status(invalid("the sizes of a book must be at least 1 and ascend"));
}

Result<Book> make_book(const Topology& topology, std::span<const int64_t> sizes_bytes,
                       const ChooseForBook& choose) {
  PLEACH_TRY(check_book_sizes(sizes_bytes));
  Book book;
  book.topology = topology.name();
  book.topology_fingerprint = topology.fingerprint();
  book.rank_count = count_of(topology.rank_nodes());
  for (const CollectiveKind collective : kAllCollectives) {
    if (book.rank_count == 1) {
      const NodeId node = topology.rank_nodes().front();
      add_choice(book, collective, {empty_schedule(collective, node), 1}, 0);
    } else {
      PLEACH_TRY(add_collective(choose, sizes_bytes, collective, book));
    }
  }
  return book;
}

Result<Book> plan_book(const Topology& topology, const BookOptions& options) {
  PLEACH_ASSIGN(planner, make_planner(topology, options.algorithm, options.planner));
  const auto choose = [&](const ScheduleRequest& request) -> Result<std::optional<Choice>> {
    if (!planner->does(*request.collective)) {
      return std::optional<Choice>();
    }
    PLEACH_ASSIGN(choice, planner->choose(request));
    return std::optional<Choice>(std::move(choice));
  };
  return make_book(topology, options.sizes_bytes, choose);
}

Result<std::string> pack_book(const Book& book) {
  PLEACH_ASSIGN(format, schedule_formats().find(kScheduleFormat));
  std::string content =
      fmt::format("topology {}\nfingerprint {:016x}\nranks {}\nentries {}\nschedules {}\n",
                  one_line(book.topology), book.topology_fingerprint, book.rank_count,
                  book.entries.size(), book.schedules.size());
  for (const Book::Entry& entry : book.entries) {
    content += fmt::format("entry {} {} {} {}\n", to_text(entry.collective), entry.up_to_bytes,
                           entry.segment_count, entry.schedule);
  }
  for (const auto& schedule : book.schedules) {
    PLEACH_ASSIGN(bytes, format->write(*schedule));
    content += fmt::format("schedule {}\n", bytes.size());
    content += bytes;
  }
  return fmt::format("pleach book {}\nlibrary {}\ncontent {:016x} {}\n{}", kFormatVersion,
                     version(), hash_of(content), content.size(), content);
}

Result<Book> unpack_book(std::string_view bytes, const std::string& where) {
  Reader reader(bytes, where);
  PLEACH_TRY(read_head(reader));
  PLEACH_ASSIGN(format, schedule_formats().find(kScheduleFormat));
  Book book;
  PLEACH_ASSIGN(topology, reader.after("topology"));
  book.topology = topology;
  PLEACH_ASSIGN(fingerprint, reader.after("fingerprint"));
  PLEACH_SET(book.topology_fingerprint, reader.hash(fingerprint));
  PLEACH_ASSIGN(ranks, reader.number_after("ranks", 1, kMostRanks));
  book.rank_count = static_cast<int32_t>(ranks);
  PLEACH_ASSIGN(entry_count, reader.number_after("entries", 0, INT32_MAX));
  PLEACH_ASSIGN(schedule_count, reader.number_after("schedules", 0, INT32_MAX));
  for (int64_t i = 0; i < entry_count; ++i) {
    PLEACH_ASSIGN(entry, read_entry(reader, static_cast<int32_t>(schedule_count)));
    book.entries.push_back(entry);
  }
  for (int64_t i = 0; i < schedule_count; ++i) {
    PLEACH_ASSIGN(size_bytes, reader.number_after("schedule", 0, kMostBytes));
    PLEACH_ASSIGN(packed, reader.bytes(size_bytes));
    PLEACH_ASSIGN(schedule, format->read(packed, fmt::format("{}: schedule {}", where, i)));
    book.schedules.push_back(std::make_shared<const Schedule>(std::move(schedule)));
  }
  if (!reader.rest().empty()) {
    return reader.error(fmt::format("{} bytes follow the last schedule", reader.rest().size()));
  }
  PLEACH_TRY(check_entries(book, reader));
  return book;
}

Status write_book(const Book& book, const std::string& path) {
  PLEACH_ASSIGN(bytes, pack_book(book));
  return write_file(path, bytes);
}

Result<Book> read_book(const std::string& path) {
  PLEACH_ASSIGN(bytes, read_file(path, kMostBytes));
  return unpack_book(bytes, path);
}

}  // namespace pleach
