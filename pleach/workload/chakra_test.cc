#include "pleach/workload/chakra.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/workload/strategy.h"

namespace pleach {
namespace {

using Kind = TraceNodeKind;

// The wire format by hand, so that nothing here leans on the library that reads it.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes.push_back(static_cast<char>(value | 0x80));
  }
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string number(uint64_t field, uint64_t value) {
  return varint(field << 3) + varint(value);
}
std::string text(uint64_t field, std::string_view value) {
  return varint(field << 3 | 2) + varint(value.size()) + std::string(value);
}
template <typename T>
std::string fixed(uint64_t field, T value) {
  std::string bytes = varint(field << 3 | (sizeof(T) == 8 ? 1 : 5));
  const auto raw = std::bit_cast<std::array<char, sizeof(T)>>(value);
  return bytes.append(raw.data(), raw.size());
}
std::string framed(const std::string& message) {
  return varint(message.size()) + message;
}
// An attribute whose value is `value`, a field of its own.
std::string attribute(std::string_view name, const std::string& value) {
  return text(10, text(1, name) + value);
}
std::string int64_attribute(std::string_view name, int64_t value) {
  return attribute(name, number(9, static_cast<uint64_t>(value)));
}
std::string text_attribute(std::string_view name, std::string_view value) {
  return attribute(name, text(29, value));
}

enum Type : uint64_t { kInvalid, kMetadata, kLoad, kStore, kComp, kSend, kReceive, kColl };

std::string node(uint64_t id, Type type, const std::vector<uint64_t>& after = {},
                 const std::string& rest = "") {
  std::string bytes = number(1, id) + text(2, "n" + std::to_string(id)) + number(3, type);
  for (const uint64_t before : after) {
    bytes += number(5, before);
  }
  return framed(bytes + rest);
}
std::string duration(uint64_t micros) {
  return number(7, micros);
}
std::string coll(int64_t type, int64_t size) {
  return int64_attribute("comm_type", type) + int64_attribute("comm_size", size);
}
const std::string kHead = framed(text(1, "1.0.0"));

std::string gzip(const std::string& plain) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string input = plain;
  std::string output(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<uInt>(output.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  output.resize(stream.total_out);
  deflateEnd(&stream);
  return output;
}

class Chakra : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "chakra_" +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string prefix() const { return folder_ + "/t"; }

  // Reads a trace of these files.
  Result<Trace> read(const std::vector<std::string>& files, const ChakraOptions& options = {}) {
    for (std::size_t rank = 0; rank < files.size(); ++rank) {
      EXPECT_TRUE(write_file(prefix() + "." + std::to_string(rank) + ".et", files[rank]));
    }
    return read_chakra(prefix(), options);
  }
  // Reads what write_chakra() wrote.
  static Result<Trace> read_written(const std::string& prefix) {
    PLEACH_ASSIGN(rank_count, count_chakra_ranks(prefix));
    PLEACH_ASSIGN(groups, read_chakra_groups(prefix + ".groups.json", rank_count));
    return read_chakra(prefix, {.groups = std::move(groups)});
  }
  // The message, with the folder cut out.
  std::string error_of(const std::vector<std::string>& files, const ChakraOptions& options = {}) {
    const Result<Trace> trace = read(files, options);
    if (trace) {
      return "no error";
    }
    std::string message = trace.error().message;
    for (std::size_t at = message.find(folder_); at != std::string::npos;
         at = message.find(folder_)) {
      message.erase(at, folder_.size() + 1);
    }
    return message;
  }

  std::string folder_;
};

TEST_F(Chakra, ReadsEveryKindOfNode) {
  const std::string message =
      attribute("comm_src", number(7, 0)) + attribute("comm_dst", number(7, 1)) +
      attribute("comm_tag", number(7, 9)) + int64_attribute("comm_size", 77);
  const std::string first =
      kHead + node(0, kMetadata) + node(1, kComp, {0}, duration(3)) +
      node(2, kLoad, {1}, attribute("tensor_size", number(13, 4000))) +
      node(3, kStore, {1, 1}, duration(2) + attribute("tensor_size", number(13, 5))) +
      node(4, kColl, {2, 3}, coll(0, 64)) + node(5, kSend, {4}, number(4, 1) + message) +
      node(6, kComp, {5},
           int64_attribute("num_ops", 3000) + attribute("tensor_size", number(13, 10)));
  const std::string second =
      kHead + node(1, kColl, {}, coll(0, 64)) + node(2, kReceive, {1}, message);
  const Result<Trace> trace =
      read({first, second}, {.operations_per_s = 1e9, .memory_bytes_per_s = 1e9});
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->rank_count, 2);
  ASSERT_EQ(trace->workers.size(), 2U);
  const WorkerTrace& worker = trace->workers[0];
  ASSERT_EQ(worker.nodes.size(), 6U);
  EXPECT_EQ(worker.nodes[0].kind, Kind::kCompute);
  EXPECT_EQ(worker.nodes[0].duration_ps, 3'000'000);
  EXPECT_EQ(trace->names[at(worker.nodes[0].name)], "n1");
  EXPECT_EQ(worker.nodes[1].kind, Kind::kLoad);
  EXPECT_EQ(worker.nodes[1].duration_ps, 4'000'000);
  EXPECT_EQ(worker.nodes[1].size_bytes, 4000);
  EXPECT_EQ(worker.nodes[2].kind, Kind::kStore);
  EXPECT_EQ(worker.nodes[2].duration_ps, 2'000'000);
  EXPECT_EQ(worker.nodes[3].kind, Kind::kCollective);
  EXPECT_EQ(worker.nodes[3].size_bytes, 64);
  EXPECT_EQ(worker.nodes[4].kind, Kind::kSend);
  EXPECT_EQ(worker.nodes[4].peer, 1);
  EXPECT_EQ(worker.nodes[4].tag, 9);
  EXPECT_EQ(worker.nodes[4].size_bytes, 77);
  EXPECT_EQ(worker.nodes[5].duration_ps, 3'000'000);  // 3000 operations, not 10 bytes
  // The metadata node is gone, and so are dependencies named twice.
  EXPECT_EQ(worker.first_dependency, (std::vector<int32_t>{0, 0, 1, 2, 4, 6, 7}));
  EXPECT_EQ(worker.dependencies, (std::vector<int32_t>{0, 0, 1, 2, 0, 3, 4}));
  EXPECT_EQ(trace->workers[1].nodes[1].kind, Kind::kReceive);
  EXPECT_EQ(trace->workers[1].nodes[1].peer, 0);
  ASSERT_EQ(trace->families.size(), 1U);
  EXPECT_EQ(trace->families[0].groups, (std::vector<std::vector<int32_t>>{{0, 1}}));
}

TEST_F(Chakra, ReadsWholeNumbersOfEveryType) {
  const std::string values[] = {
      number(7, 6),    // int32
      number(9, 6),    // int64
      number(11, 6),   // uint32
      number(13, 6),   // uint64
      number(15, 12),  // sint32, zigzag
      number(17, 12),  // sint64, zigzag
      fixed<uint32_t>(19, 6), fixed<uint64_t>(21, 6), fixed<int32_t>(23, 6), fixed<int64_t>(25, 6),
  };
  for (const std::string& value : values) {
    const Result<Trace> trace =
        read({kHead +
              node(1, kColl, {}, attribute("comm_type", value) + attribute("comm_size", value))});
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->workers[0].nodes[0].collective, CollectiveKind::kAllToAll);
    EXPECT_EQ(trace->workers[0].nodes[0].size_bytes, 6);
  }
}

TEST_F(Chakra, RefusesNumbersOfOtherTypes) {
  std::vector<std::string> values = {
      fixed<double>(3, 6.0),
      fixed<float>(5, 6.0F),
      number(27, 1),
      text(29, "6"),
      text(31, "6"),
      number(13, UINT64_MAX),
      fixed<uint64_t>(21, UINT64_MAX),
      "",
  };
  for (uint64_t list = 4; list <= 32; list += 2) {
    values.push_back(text(list, text(1, varint(6))));
  }
  for (const std::string& value : values) {
    EXPECT_EQ(error_of({kHead + node(1, kColl, {}, attribute("comm_type", value))}),
              "t.0.et: node 1 ('n1'): comm_type is no whole number of 64 bits");
    // Attributes that nothing asks for do not matter.
    EXPECT_TRUE(read({kHead + node(1, kComp, {}, attribute("stream", value))}));
  }
}

TEST_F(Chakra, ReadsCollectivesAsTheirNumbersSay) {
  const struct {
    int64_t type;
    CollectiveKind kind;
    int64_t size_bytes;  // of 5 bytes on each of two ranks
  } cases[] = {
      {0, CollectiveKind::kAllReduce, 5},     {1, CollectiveKind::kReduce, 5},
      {2, CollectiveKind::kAllGather, 10},    {5, CollectiveKind::kBroadcast, 5},
      {6, CollectiveKind::kAllToAll, 5},      {7, CollectiveKind::kReduceScatter, 5},
      {8, CollectiveKind::kReduceScatter, 5}, {9, CollectiveKind::kAllReduce, 1},
  };
  for (const auto& one : cases) {
    const std::string file = kHead + node(1, kColl, {}, coll(one.type, 5));
    const Result<Trace> trace = read({file, file});
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_EQ(trace->workers[1].nodes[0].collective, one.kind) << one.type;
    EXPECT_EQ(trace->workers[1].nodes[0].size_bytes, one.size_bytes) << one.type;
  }
}

TEST_F(Chakra, AcceptsAnyMetadataAndGzip) {
  const std::string rest = node(1, kComp, {}, duration(1));
  const std::string heads[] = {framed(""),
                               framed(text(1, "0.0.4")),
                               framed(text(1, "1.1.1-chakra.0.0.4")),
                               framed(text(1, "\xff\xfe")),
                               framed(text(2, text(1, "schema") + text(29, "1.0.2"))),
                               framed(text(1, "9") + text(99, "from the future"))};
  for (const std::string& head : heads) {
    for (const std::string& file : {head + rest, gzip(head + rest), gzip(head) + gzip(rest)}) {
      const Result<Trace> trace = read({file});
      ASSERT_TRUE(trace) << trace.error().message;
      EXPECT_EQ(trace->workers[0].nodes.at(0).duration_ps, 1'000'000);
    }
  }
  std::string many = kHead;
  for (uint64_t id = 0; id < 200'000; ++id) {
    many += node(id, kComp, {}, duration(1));
  }
  const Result<Trace> trace = read({gzip(many)});  // over several blocks
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->workers[0].nodes.size(), 200'000U);
}

TEST_F(Chakra, SortsNodesAndKeepsTheirOrderWherePossible) {
  const Result<Trace> trace =
      read({kHead + node(7, kComp, {5}) + node(3, kComp) + node(5, kComp) + node(9, kComp, {7})});
  ASSERT_TRUE(trace) << trace.error().message;
  std::string names;
  for (const TraceNode& one : trace->workers[0].nodes) {
    names += trace->names[at(one.name)];
  }
  EXPECT_EQ(names, "n3n5n7n9");
  EXPECT_EQ(trace->workers[0].dependencies, (std::vector<int32_t>{1, 2}));
}

// Small on disk, and quadratic once what metadata stands for is spelled out.
TEST_F(Chakra, RefusesEndlessDependenciesThroughMetadata) {
  constexpr uint64_t kNodes = 8'300;
  std::string bytes = kHead;
  std::vector<uint64_t> all;
  for (uint64_t id = 0; id < kNodes; ++id) {
    bytes += node(id, kComp);
    all.push_back(id);
  }
  bytes += node(kNodes, kMetadata, all);
  for (uint64_t id = kNodes; id < 2 * kNodes; ++id) {
    bytes += node(id + 1, kMetadata, {id});
  }
  EXPECT_TRUE(error_of({bytes}).ends_with(
      "more than 67108864 dependencies up to here, counting those through metadata"));
}

TEST_F(Chakra, FindsGroupsInAFileAndInMetadata) {
  const auto file = [](const std::string& head, const std::string& name) {
    return kHead + head + node(1, kColl, {}, coll(0, 8) + text_attribute("pg_name", name));
  };
  const std::vector<std::string> files = {file("", "0"), file("", "0"), file("", "1"),
                                          file("", "1")};
  const std::string path = folder_ + "/groups.json";
  ASSERT_TRUE(write_file(path, R"({"0": [0, 1], "1": [2, 3]})"));
  Result<ChakraGroups> groups = read_chakra_groups(path, 4);
  ASSERT_TRUE(groups) << groups.error().message;
  const Result<Trace> given = read(files, {.groups = std::move(*groups)});
  ASSERT_TRUE(given) << given.error().message;
  ASSERT_EQ(given->families.size(), 2U);
  EXPECT_EQ(given->families[1].name, "1");
  EXPECT_EQ(given->families[1].groups, (std::vector<std::vector<int32_t>>{{2, 3}}));
  EXPECT_EQ(given->workers[3].nodes[0].family, 1);
  // The same name is another group elsewhere; other metadata is passed over; no ranks are all.
  const auto metadata = [](const std::string& json) {
    return node(90, kMetadata, {}, text(8, text(1, json))) +
           node(91, kMetadata, {}, text(8, text(1, "[{"))) +
           node(92, kMetadata, {}, text(8, text(1, R"([1, {"pg_name": 3}, {"ranks": []}])")));
  };
  const std::string low = metadata(R"([{"pg_name": "7", "ranks": [0, 1], "backend": "x"}])");
  const std::string high = metadata(R"(["[{\"pg_name\": \"7\", \"ranks\": [3, 2]}]"])");
  const Result<Trace> own =
      read({file(low, "7"), file(low, "7"), file(high, "7"), file(high, "7")});
  ASSERT_TRUE(own) << own.error().message;
  ASSERT_EQ(own->families.size(), 1U);
  EXPECT_EQ(own->families[0].groups, (std::vector<std::vector<int32_t>>{{0, 1}, {3, 2}}));
  const std::string world =
      file(metadata(R"([{"pg_name": "", "ranks": []}, {"pg_name": "0", "ranks": []}])"), "0");
  const Result<Trace> all = read({world, world, world, world});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->families[0].groups, (std::vector<std::vector<int32_t>>{{0, 1, 2, 3}}));
}

TEST_F(Chakra, NamesWhatIsWrong) {
  // A message of 2^24 + 1 bytes.
  const std::string wide = "\x81\x80\x80\x08" + std::string((1 << 24) + 1, '\0');
  const std::string long_cycle = node(1, kComp, {2}) + node(2, kComp, {3}) + node(3, kComp, {1});
  const struct {
    std::string file;
    std::string message;
  } cases[] = {
      {"", "t.0.et: the file is empty"},
      {kHead + "\x7f", "t.0.et: byte 8: message 1 is of 127 bytes and 0 are left"},
      {"\xff\xff\xff\xff\xff\x01",
       "t.0.et: byte 0: the length of message 0 is cut off or over 2^31"},
      {kHead + "\xff\xff\xff\xff\x0f",
       "t.0.et: byte 8: the length of message 1 is cut off or over 2^31"},
      {kHead + "\xff\xff\xff\xff\x07",
       "t.0.et: byte 8: message 1 is of 2147483647 bytes and 0 are left"},
      {kHead + "\x80", "t.0.et: byte 8: the length of message 1 is cut off or over 2^31"},
      {kHead + std::string(1000, '\0'), "t.0.et: byte 8: message 1 is an empty node"},
      {kHead + wide, "t.0.et: byte 8: message 1 is of 16777217 bytes, over 16777216"},
      {gzip(kHead + wide), "t.0.et: byte 8: message 1 is of 16777217 bytes, over 16777216"},
      {gzip(kHead + "\x7f"), "t.0.et: byte 8: message 1 is of 127 bytes and 0 are left"},
      {kHead, "t: worker 0 has nothing to do"},
      {framed("\x0a\x7f"), "t.0.et: byte 0: message 0 is no metadata"},
      {kHead + framed("\x0a\x7f"), "t.0.et: byte 8: message 1 is no node"},
      {kHead + node(1, kComp) + node(1, kComp),
       "t.0.et: node 1 ('n1'): another node has the same id"},
      {kHead + node(1, kComp, {2}), "t.0.et: node 1 ('n1'): waits for node 2, which is not there"},
      {kHead + node(1, kComp, {1}), "t.0.et: 1 nodes wait for each other: 1 ('n1')"},
      {kHead + node(4, kComp, {1}) + long_cycle + node(5, kComp),
       "t.0.et: 3 nodes wait for each other: 1 ('n1'), 2 ('n2'), 3 ('n3')"},
      {kHead + node(1, kInvalid), "t.0.et: node 1 ('n1'): nodes of kind 0 are not known"},
      {kHead + node(1, static_cast<Type>(8)),
       "t.0.et: node 1 ('n1'): nodes of kind 8 are not known"},
      {kHead + node(1, static_cast<Type>(10)),
       "t.0.et: node 1 ('n1'): nodes of kind 10 are not known"},
      {kHead + node(1, kComp, {}, duration(UINT64_MAX)),
       "t.0.et: node 1 ('n1'): a duration of 18446744073709551615 us is over 26 days"},
      {kHead + node(1, kComp, {}, int64_attribute("num_ops", 5)),
       "t.0.et: node 1 ('n1'): no duration, and no operations per second for its 5 operations"},
      {kHead + node(1, kLoad, {}, int64_attribute("tensor_size", 5)),
       "t.0.et: node 1 ('n1'): no duration, and no memory bandwidth for its 5 bytes"},
      {kHead + node(1, kComp, {}, int64_attribute("num_ops", -5)),
       "t.0.et: node 1 ('n1'): num_ops of -5 is not in [0, 9223372036854775807]"},
      {kHead + node(1, kColl), "t.0.et: node 1 ('n1'): it has no comm_type"},
      {kHead + node(1, kColl, {}, int64_attribute("comm_type", 0)),
       "t.0.et: node 1 ('n1'): it has no comm_size"},
      {kHead + node(1, kColl, {}, coll(0, 0)),
       "t.0.et: node 1 ('n1'): comm_size of 0 is not in [1, 9223372036854775807]"},
      {kHead + node(1, kColl, {}, coll(3, 5)), "t.0.et: node 1 ('n1'): gather is not supported"},
      {kHead + node(1, kColl, {}, coll(4, 5)), "t.0.et: node 1 ('n1'): scatter is not supported"},
      {kHead + node(1, kColl, {}, coll(10, 5)), "t.0.et: node 1 ('n1'): there is no collective 10"},
      {kHead + node(1, kColl, {}, coll(0, 5) + text_attribute("pg_name", "4")),
       "t.0.et: node 1 ('n1'): there is no group '4'"},
      {kHead + node(1, kColl, {}, coll(0, 5) + int64_attribute("pg_name", 4)),
       "t.0.et: node 1 ('n1'): pg_name is no text"},
      {kHead +
           node(1, kColl, {},
                coll(0, 5) + attribute("involved_dim", text(28, text(1, std::string("\1\0", 2))))),
       "t.0.et: node 1 ('n1'): a collective along some dimensions of a topology (involved_dim) is "
       "not supported; name its group (pg_name)"},
      {kHead + node(1, kSend, {}, int64_attribute("comm_size", 5)),
       "t.0.et: node 1 ('n1'): it has no comm_dst"},
      {kHead + node(1, kSend, {}, int64_attribute("comm_size", 5) + int64_attribute("comm_dst", 1)),
       "t.0.et: node 1 ('n1'): comm_dst of 1 is not in [0, 0]"},
      {kHead + node(1, kReceive, {}, int64_attribute("comm_dst", 1)),
       "t.0.et: node 1 ('n1'): comm_dst of 1 is not in [0, 0]"},
      {gzip(kHead + node(1, kComp)).substr(0, 20), "t.0.et: the gzip stream is cut off"},
      {"\x1f\x8bnoise, not deflate", "t.0.et: malformed gzip, 20 bytes before its end"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(error_of({one.file}), one.message);
  }
  EXPECT_TRUE(
      read({kHead + node(1, kColl, {},
                         coll(0, 5) + attribute("involved_dim", text(28, text(1, "\1\1"))))}));
}

TEST_F(Chakra, NamesWhatIsWrongBetweenRanks) {
  EXPECT_EQ(error_of({}), "there is no file 't.0.et'");
  const std::string reduces = kHead + node(1, kColl, {}, coll(0, 8));
  EXPECT_EQ(error_of({reduces, kHead}),
            "t: family 'all ranks', group 0, collective 0: worker 0 issues all_reduce of 8 bytes "
            "and worker 1 nothing");
  const std::string named = kHead + node(1, kColl, {}, coll(0, 8) + text_attribute("pg_name", "a"));
  EXPECT_EQ(error_of({named, named}, {.groups = ChakraGroups{{"a", {0}}}}),
            "t.1.et: node 1 ('n1'): group 'a' does not hold rank 1");
  EXPECT_EQ(error_of({named, named}, {.groups = ChakraGroups{{"b", {0, 1}}}}),
            "t.0.et: node 1 ('n1'): there is no group 'a'");
}

TEST_F(Chakra, NamesTheLineThatIsWrongInAFileOfGroups) {
  const std::string path = folder_ + "/groups.json";
  const struct {
    std::string groups;
    std::string message;
  } cases[] = {
      {"{\"a\": [0, 1],\n \"b\": [0,\n  2]}", ":3:3: group 'b': '2' is no rank from 0 to 1"},
      {R"({"a": [0, -1]})", ":1:11: group 'a': '-1' is no rank from 0 to 1"},
      {R"({"a": [0, [1]]})", ":1:11: group 'a': an array is no rank from 0 to 1"},
      {R"({"a": [0, 99999999999]})", ":1:11: group 'a': '99999999999' is no rank from 0 to 1"},
      {"{\"a\": [0,\n1, 1]}", ":2:4: group 'a': rank 1 is there twice"},
      {"{\n\"a/~\": 0}", ":2:8: group 'a/~': '0' is no list of ranks"},
      {"\n[0]", ":2:1: not a JSON object of groups, as {\"0\": [0, 1]}"},
      {"{\n\"a\"",
       ": no JSON: parse error at line 2, column 4: syntax error while parsing "
       "object separator - unexpected end of input; expected ':'"},
  };
  for (const auto& one : cases) {
    ASSERT_TRUE(write_file(path, one.groups));
    const Result<ChakraGroups> groups = read_chakra_groups(path, 2);
    ASSERT_FALSE(groups) << one.groups;
    EXPECT_EQ(groups.error().message, path + one.message);
  }
}

// A trace of two pipeline stages with tensor groups, and loads beside.
Trace written_trace(
    const Strategy& strategy = {
        .data = 2, .tensor = 2, .pipeline = 2, .micro_batches = 2, .tensor_sequence = true}) {
  Workload workload;
  workload.model.name = "chain";
  workload.batch = 2;
  MeasuredTimes times;
  for (int32_t layer = 0; layer < 4; ++layer) {
    ModelLayer one;
    one.name = "l" + std::to_string(layer);
    one.tensors = {{"weight", 64}};
    one.block = layer;
    one.output_elements = 3;
    one.is_split = layer % 2 == 0;
    one.forward_sum_elements = one.is_split ? 5 : 0;
    one.backward_sum_elements = one.is_split ? 6 : 0;
    workload.model.layers.push_back(one);
    times.layers.push_back({1'300'000 + layer, 2'600'000, 0});
  }
  workload.times = times;
  const Result<Trace> trace = build_trace({.workload = workload, .strategy = strategy});
  EXPECT_TRUE(trace) << trace.error().message;
  return *trace;
}

// Nodes that the format keeps.
std::vector<TraceNode> kept_nodes(const WorkerTrace& worker) {
  std::vector<TraceNode> kept;
  for (const TraceNode& one : worker.nodes) {
    if (one.kind != Kind::kGradient && one.kind != Kind::kForwardGate &&
        one.kind != Kind::kBackwardGate) {
      kept.push_back(one);
    }
  }
  return kept;
}

TEST_F(Chakra, ReadsWhatItWrites) {
  const Trace trace = written_trace();
  ASSERT_TRUE(write_chakra(trace, prefix()));
  const Result<Trace> again = read_written(prefix());
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->rank_count, trace.rank_count);
  for (const WorkerTrace& worker : trace.workers) {
    const std::vector<TraceNode> expected = kept_nodes(worker);
    for (std::size_t member = 0; member < worker.ranks.size(); ++member) {
      const int32_t rank = worker.ranks[member];
      const WorkerTrace& read = again->workers[at(rank)];
      ASSERT_EQ(read.nodes.size(), expected.size());
      int64_t exact_ps = 0;
      int64_t read_ps = 0;
      for (std::size_t index = 0; index < expected.size(); ++index) {
        const TraceNode& left = expected[index];
        const TraceNode& right = read.nodes[index];
        EXPECT_EQ(left.kind, right.kind);
        EXPECT_EQ(left.size_bytes, right.size_bytes);
        EXPECT_EQ(trace.names[at(left.name)], again->names[at(right.name)]);
        if (left.kind == Kind::kCollective) {
          EXPECT_EQ(left.collective, right.collective);
          const auto& group = again->families[at(right.family)].groups.at(0);
          EXPECT_NE(std::ranges::find(group, rank), group.end());
          const auto& groups = trace.families[at(left.family)].groups;
          EXPECT_NE(std::ranges::find(groups, group), groups.end());
        } else if (left.kind == Kind::kSend || left.kind == Kind::kReceive) {
          EXPECT_EQ(trace.workers[at(left.peer)].ranks[member], right.peer);
          EXPECT_EQ(left.tag, right.tag);
        }
        exact_ps += left.duration_ps;
        read_ps += right.duration_ps;
        EXPECT_LE(std::abs(exact_ps - read_ps), 1'000'000);
      }
    }
  }
  // A second round changes nothing more.
  const std::string other = folder_ + "/u";
  ASSERT_TRUE(write_chakra(*again, other));
  const Result<Trace> third = read_written(other);
  ASSERT_TRUE(third) << third.error().message;
  for (std::size_t worker = 0; worker < third->workers.size(); ++worker) {
    EXPECT_EQ(third->workers[worker].dependencies, again->workers[worker].dependencies);
    EXPECT_EQ(third->workers[worker].first_dependency, again->workers[worker].first_dependency);
    for (std::size_t index = 0; index < third->workers[worker].nodes.size(); ++index) {
      EXPECT_EQ(third->workers[worker].nodes[index].duration_ps,
                again->workers[worker].nodes[index].duration_ps);
    }
  }
}

// A send to several ranks: a broadcast of its source and those, which no other rank takes part in.
TEST_F(Chakra, WritesOutputsThatAreBroadcast) {
  const Trace trace = written_trace(
      {.data = 2, .tensor = 2, .pipeline = 2, .micro_batches = 2, .multicast_outputs = true});
  ASSERT_TRUE(write_chakra(trace, prefix()));
  const Result<Trace> again = read_written(prefix());
  ASSERT_TRUE(again) << again.error().message;
  // Ranks 0 and 1 are of the first stage, 2 and 3 of the second, and so are four others.
  const int32_t expected[] = {4, 2, 4, 2, 4, 2, 4, 2};
  for (const WorkerTrace& worker : again->workers) {
    for (const int32_t rank : worker.ranks) {
      const auto count = std::ranges::count_if(worker.nodes, [](const TraceNode& node) {
        EXPECT_NE(node.kind, Kind::kSend);
        EXPECT_NE(node.kind, Kind::kReceive);
        return node.kind == Kind::kCollective && node.collective == CollectiveKind::kBroadcast;
      });
      EXPECT_EQ(count, expected[rank]) << rank;
    }
  }
}

TEST_F(Chakra, PassesDependenciesOfGatesOn) {
  Trace trace;
  trace.rank_count = 1;
  trace.names = {"one"};
  trace.families = {{"data", {{0}}}};
  trace.gradient_groups = {{.name = "data",
                            .family = 0,
                            .workers = {0},
                            .rank_count = 1,
                            .layers = {{.name = "one", .tensor_bytes = {8}}}}};
  trace.workers.resize(1);
  WorkerTrace& worker = trace.workers[0];
  worker.ranks = {0};
  worker.add({.kind = Kind::kCompute, .duration_ps = 400'000}, {});
  worker.add({.kind = Kind::kCompute, .duration_ps = 400'000}, {});
  worker.add({.kind = Kind::kForwardGate, .gradient_group = 0, .layer = 0}, {0, 1});
  worker.add({.kind = Kind::kGradient, .gradient_group = 0, .layer = 0}, {2});
  worker.add({.kind = Kind::kCompute, .duration_ps = 400'000}, {1, 3});
  worker.add({.kind = Kind::kLoad, .duration_ps = 100'000, .size_bytes = 9}, {4});
  ASSERT_TRUE(write_chakra(trace, prefix()));
  const Result<Trace> again = read_chakra(prefix(), {});
  ASSERT_TRUE(again) << again.error().message;
  const WorkerTrace& read = again->workers[0];
  EXPECT_EQ(read.first_dependency, (std::vector<int32_t>{0, 0, 0, 2, 3}));
  EXPECT_EQ(read.dependencies, (std::vector<int32_t>{0, 1, 2}));
  // 0.4, 0.8 and 1.2 us, rounded as sums.
  EXPECT_EQ(read.nodes[0].duration_ps, 0);
  EXPECT_EQ(read.nodes[1].duration_ps, 1'000'000);
  EXPECT_EQ(read.nodes[2].duration_ps, 0);
}

TEST_F(Chakra, WritesTheTypesThatOthersRead) {
  const Trace trace = written_trace();
  ASSERT_TRUE(write_chakra(trace, prefix()));
  const Result<std::string> bytes = read_file(prefix() + ".0.et");
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(bytes->starts_with(kHead));
  const std::string expected[] = {
      attribute("is_cpu_op", number(27, 0)), attribute("comm_type", number(9, 2)),  // all_gather
      attribute("comm_size", number(9, 12)),  // 6 elements of 4 bytes, half of them its own
      attribute("pg_name", text(29, "4")),   attribute("comm_src", number(7, 0)),
      attribute("comm_dst", number(7, 2)),   attribute("comm_tag", number(7, 1)),
  };
  for (const std::string& piece : expected) {
    EXPECT_NE(bytes->find(piece), std::string::npos) << piece;
  }
  const Result<std::string> groups = read_file(prefix() + ".groups.json");
  ASSERT_TRUE(groups);
  EXPECT_TRUE(groups->starts_with("{\n  \"0\": [0, 4],\n  \"1\": [1, 5],")) << *groups;
}

// Loads and stores by I/O nodes: with their groups, and no duration.
TEST_F(Chakra, KeepsWhatPassesByIoNodes) {
  Trace trace{.name = "io", .rank_count = 4, .names = {"weights"}};
  trace.families = {{.name = "io", .groups = {{0, 2}, {1, 3}}, .role = FamilyRole::kIo},
                    {.name = "io", .groups = {{0, 1, 2, 3}}, .role = FamilyRole::kIo},
                    {.name = "io", .groups = {{0, 2}, {1, 3}}, .role = FamilyRole::kIo}};
  for (int32_t rank = 0; rank < 4; ++rank) {
    WorkerTrace& worker = trace.workers.emplace_back();
    worker.ranks = {rank};
    worker.add({.kind = Kind::kLoad, .family = 0, .size_bytes = 70}, {});
    worker.add({.kind = Kind::kLoad, .family = 1, .size_bytes = 80}, {});
    worker.add({.kind = Kind::kStore, .family = 2, .size_bytes = 70}, {0, 1});
  }
  ASSERT_TRUE(write_chakra(trace, prefix()));
  const Result<ChakraGroups> groups = read_chakra_groups(prefix() + ".groups.json", 4);
  ASSERT_TRUE(groups) << groups.error().message;
  const Result<Trace> again = read_chakra(prefix(), {.groups = *groups});
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->families.size(), 3U);
  for (std::size_t family = 0; family < 3; ++family) {
    EXPECT_EQ(again->families[family].role, FamilyRole::kIo);
    EXPECT_EQ(again->families[family].groups, trace.families[family].groups);
  }
  for (std::size_t worker = 0; worker < 4; ++worker) {
    for (std::size_t node = 0; node < 3; ++node) {
      const TraceNode& read = again->workers[worker].nodes[node];
      EXPECT_EQ(read.kind, trace.workers[worker].nodes[node].kind);
      EXPECT_EQ(read.family, trace.workers[worker].nodes[node].family);
      EXPECT_EQ(read.size_bytes, trace.workers[worker].nodes[node].size_bytes);
      EXPECT_EQ(read.duration_ps, 0);
    }
  }
  trace.workers[3].nodes[0].size_bytes = 71;
  EXPECT_EQ(write_chakra(trace, prefix()).error().message,
            "family 'io', group 1, collective 0: worker 1 issues broadcast of 70 bytes and worker "
            "3 broadcast of 71 bytes");
}

TEST_F(Chakra, RefusesToWriteWhatWouldBeMisread) {
  Trace trace = written_trace();
  for (const char* other : {".08.et", ".8.etc", ".-8.et", ".8x.et", "x.8.et", ".et"}) {
    ASSERT_TRUE(write_file(prefix() + other, "old"));
  }
  ASSERT_TRUE(write_chakra(trace, prefix()));
  ASSERT_TRUE(write_file(prefix() + ".9.et", "old"));
  EXPECT_EQ(write_chakra(trace, prefix()).error().message,
            "'" + prefix() + ".9.et' would be taken for a part of the trace of 8 ranks; remove it");
  ASSERT_TRUE(write_file(prefix() + ".8.et", "old"));
  const Status status = write_chakra(trace, prefix());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message,
            "'" + prefix() + ".8.et' would be taken for a part of the trace of 8 ranks; remove it");
  trace.rank_count = 10;
  EXPECT_EQ(write_chakra(trace, prefix()).error().message, "rank 8 is in no worker");
}

TEST_F(Chakra, RefusesATraceThatLacksARank) {
  const std::string file = kHead + node(1, kComp, {}, duration(3));
  EXPECT_EQ(error_of({}), "there is no file 't.0.et'");
  ASSERT_TRUE(write_file(prefix() + ".3.et", file));
  ASSERT_TRUE(write_file(prefix() + ".10.et", file));
  EXPECT_EQ(error_of({}), "there is no file 't.0.et', though there is one of rank 3");
  EXPECT_EQ(error_of({file, file}), "there is no file 't.2.et', though there is one of rank 3");
  EXPECT_EQ(error_of({file, file, file}),
            "there is no file 't.4.et', though there is one of rank 10");
}

// Whatever the bytes, there is a sound trace or an error of one line.
TEST_F(Chakra, SurvivesMutations) {
  const std::string message = int64_attribute("comm_src", 0) + int64_attribute("comm_dst", 0) +
                              int64_attribute("comm_size", 7);
  const std::string plain =
      kHead + node(0, kMetadata, {}, text(8, text(1, R"([{"pg_name": "7", "ranks": [0]}])"))) +
      node(1, kComp, {0}, duration(3)) + node(2, kLoad, {1}, duration(4)) +
      node(3, kColl, {1, 2}, coll(2, 64) + text_attribute("pg_name", "7")) +
      node(4, kComp, {3}, message + attribute("involved_dim", text(28, text(1, "\1\1"))));
  ASSERT_TRUE(read({plain})) << read({plain}).error().message;
  Rng rng(5);
  const std::string packed = gzip(plain);
  int32_t refused = 0;
  for (int32_t round = 0; round < 2000; ++round) {
    std::string bytes = round % 3 == 0 ? packed : plain;
    const uint64_t changes = 1 + rng.below(4);
    for (uint64_t change = 0; change < changes && !bytes.empty(); ++change) {
      const std::size_t at = rng.below(bytes.size());
      switch (rng.below(4)) {
        case 0:
          bytes.resize(at);
          break;
        case 1:
          bytes.erase(at, 1 + rng.below(4));
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(rng.below(256)));
          break;
        default:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
      }
    }
    const Result<Trace> trace = read({bytes});
    if (trace) {
      EXPECT_TRUE(check_trace(*trace));
    } else {
      ++refused;
      EXPECT_EQ(trace.error().message.find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 1980);
}

}  // namespace
}  // namespace pleach
