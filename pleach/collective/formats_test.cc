#include "pleach/collective/formats.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "pleach/base/files.h"
#include "pleach/base/index.h"
#include "pleach/base/rng.h"
#include "pleach/base/text.h"
#include "pleach/collective/verify.h"
#include "tests/support/counterexamples.h"

namespace pleach {
namespace {

using support::kCopy;
using support::kReduce;
using support::make_schedule;

const std::string kFolder = std::filesystem::path(__FILE__).parent_path().string();

const ScheduleFormat& format(const std::string& name) {
  for (const ScheduleFormat* known : schedule_formats()) {
    if (known->name == name) {
      return *known;
    }
  }
  ADD_FAILURE() << name;
  return **schedule_formats().begin();
}

std::vector<LinkId> links(const std::vector<int32_t>& values) {
  std::vector<LinkId> result;
  for (const int32_t value : values) {
    result.push_back(LinkId{value});
  }
  return result;
}

// One of everything.
Schedule rich() {
  Schedule schedule = make_schedule(
      {.rank_count = 4, .chunk_count = 8, .period = 3, .participants = {9, 4, 0, 1048575}},
      {{0, 2, 0, 1, kReduce, 0}, {1, 1, 1, 2, kCopy, 2}});
  schedule.chunks = ChunkGrid::weighted({1, 2, 1, 2, 1, 2, 1, int64_t{1} << 60});
  schedule.phase_steps = {1, 0, 2};
  schedule.transfers[1].route = schedule.routes.add(links({0, 16777215, 3}));
  schedule.routes.add(links({7}));
  schedule.provenance = {"two \"trees\" \\ / \xc3\xa9",
                         "a=1,b=2",
                         UINT64_MAX,
                         {1.5e11, 1e-300, 1.0 / 3.0, true, "cut {0, 1}", 1e22, 9007199254740993.0}};
  return schedule;
}

std::vector<std::pair<std::string, Schedule>> examples() {
  std::vector<std::pair<std::string, Schedule>> result = {{"rich", rich()}};
  for (const CollectiveKind kind : kAllCollectives) {
    result.emplace_back(
        to_text(kind),
        make_schedule(
            {.collective = kind, .rank_count = 3, .chunk_count = 9, .root = has_root(kind) ? 2 : 0},
            {{0, 1, 0, 1, kCopy, 0}}));
  }
  Schedule symmetric = make_schedule({.rank_count = 6, .chunk_count = 12},
                                     {{0, 1, 0, 1, kReduce, 0}, {0, 2, 1, 0, kReduce, 4}});
  symmetric.symmetry = Symmetry{{2, 3}};
  result.emplace_back("symmetric", symmetric);
  Schedule switches = make_schedule({.rank_count = 2}, {});
  switches.transfers = {{.source = NodeId{0}, .target = NodeId{5}, .op = kReduce},
                        {.source = NodeId{1}, .target = NodeId{5}, .op = kReduce},
                        {.source = NodeId{5}, .target = NodeId{0}},
                        {.source = NodeId{5}, .target = NodeId{1}}};
  result.emplace_back("switches", switches);
  Schedule alone = make_schedule({.rank_count = 1}, {});
  alone.phase_steps = {};
  alone.symmetry = Symmetry{};
  alone.chunks = ChunkGrid::weighted({1});
  result.emplace_back("alone", alone);
  return result;
}

TEST(Formats, KeepEverything) {
  for (const ScheduleFormat* known : schedule_formats()) {
    for (const auto& [name, schedule] : examples()) {
      SCOPED_TRACE(known->name + " " + name);
      const auto content = known->write(schedule);
      ASSERT_TRUE(content) << content.error().message;
      EXPECT_TRUE(known->recognises(*content));
      const auto copy = known->read(*content, "file");
      ASSERT_TRUE(copy) << copy.error().message;
      EXPECT_EQ(*copy, schedule);
      EXPECT_EQ(*known->write(*copy), *content);
    }
  }
}

// Within the ranges that files are held to; sense is not needed.
Schedule random_schedule() {
  const auto in = [](int32_t least, int32_t most) { return *rc::gen::inRange(least, most + 1); };
  Schedule schedule;
  schedule.collective = kAllCollectives[at(in(0, 5))];
  const int32_t rank_count = in(1, 5);
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    schedule.participants.push_back(NodeId{in(0, 1000) * 8 + rank});
  }
  schedule.root = Rank{has_root(schedule.collective) ? in(0, rank_count - 1) : 0};
  const int32_t chunk_count = in(1, 6);
  schedule.chunks = ChunkGrid::uniform(chunk_count);
  if (*rc::gen::arbitrary<bool>()) {
    std::vector<int64_t> weights;
    for (int32_t chunk = 0; chunk < chunk_count; ++chunk) {
      weights.push_back(*rc::gen::inRange<int64_t>(1, int64_t{1} << 60));
    }
    schedule.chunks = ChunkGrid::weighted(weights);
  }
  schedule.period = in(1, kMaxScheduleSteps);
  schedule.phase_steps = {in(1, 4), in(0, 1000)};
  if (*rc::gen::arbitrary<bool>() && !has_root(schedule.collective)) {
    schedule.symmetry = Symmetry{{rank_count, 1}};
  }
  for (int32_t route = in(0, 3); route > 0; --route) {
    schedule.routes.add(links({in(0, kMaxScheduleLinks - 1), in(0, 9)}));
  }
  for (int32_t transfer = in(0, 8); transfer > 0; --transfer) {
    const int32_t first = in(0, chunk_count - 1), source = in(0, 9000);
    schedule.transfers.push_back({first, in(1, chunk_count - first), NodeId{source},
                                  NodeId{source + in(1, 9)}, in(0, schedule.step_count() - 1),
                                  in(-1, schedule.routes.size() - 1),
                                  *rc::gen::arbitrary<bool>() ? kReduce : kCopy});
    if (*rc::gen::arbitrary<bool>()) {
      schedule.transfers.back().source_pass = *rc::gen::arbitrary<uint16_t>();
      schedule.transfers.back().target_pass = *rc::gen::arbitrary<uint16_t>();
    }
  }
  sort_transfers(schedule);
  schedule.provenance.algorithm = *rc::gen::string<std::string>();
  std::string& algorithm = schedule.provenance.algorithm;
  const bool has_control = std::any_of(algorithm.begin(), algorithm.end(), [](char letter) {
    return static_cast<unsigned char>(letter) < ' ' || letter == '\x7f';
  });
  if (!is_utf8(algorithm) || has_control) {
    algorithm = "ring";
  }
  schedule.provenance.topology_fingerprint = *rc::gen::arbitrary<uint64_t>();
  schedule.provenance.certificate.alpha_s = *rc::gen::arbitrary<double>();
  schedule.provenance.certificate.fraction = *rc::gen::arbitrary<double>();
  return schedule;
}

RC_GTEST_PROP(Formats, KeepRandomSchedules, ()) {
  const Schedule schedule = random_schedule();
  for (const ScheduleFormat* known : schedule_formats()) {
    const auto content = known->write(schedule);
    RC_ASSERT(content.has_value());
    const auto copy = known->read(*content, "file");
    RC_ASSERT(copy.has_value());
    RC_ASSERT(*copy == schedule);
    RC_ASSERT(*known->write(*copy) == *content);
  }
}

TEST(Formats, ReadTheWorkedExample) {
  const auto schedule = read_schedule(kFolder + "/formats/example.json");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->collective, CollectiveKind::kAllReduce);
  EXPECT_EQ(schedule->participants, (std::vector{NodeId{0}, NodeId{1}, NodeId{2}}));
  EXPECT_TRUE(schedule->chunks == ChunkGrid::uniform(3));
  EXPECT_EQ(schedule->period, 4);
  EXPECT_EQ(schedule->phase_steps, (std::vector{2, 2}));
  EXPECT_EQ(schedule->transfers.size(), 12u);
  EXPECT_EQ(schedule->transfers[4],
            (Transfer{1, 1, NodeId{2}, NodeId{0}, 1, kNoRoute, TransferOp::kReduce}));
  EXPECT_TRUE(verify(*schedule, nullptr).correct);
  const auto manual = read_file(kFolder + "/../../docs/formats.md");
  const auto example = read_file(kFolder + "/formats/example.json");
  ASSERT_TRUE(manual && example);
  EXPECT_NE(manual->find(*example), std::string::npos) << "docs/formats.md shows the example";
}

// What names no pass is a file of the first version.
TEST(Formats, WriteTheLeastVersion) {
  Schedule schedule;
  schedule.participants = {NodeId{0}, NodeId{1}};
  schedule.phase_steps = {1};
  schedule.transfers = {{0, 1, NodeId{0}, NodeId{2}, 0}, {0, 1, NodeId{2}, NodeId{1}, 0}};
  EXPECT_NE(format("json").write(schedule)->find("\"version\": 1"), std::string::npos);
  const std::string plain = *format("binary").write(schedule);
  schedule.transfers[0].target_pass = schedule.transfers[1].source_pass = 7;
  const std::string text = *format("json").write(schedule);
  EXPECT_NE(text.find("\"version\": 2"), std::string::npos);
  EXPECT_NE(text.find("\"target\": 2, \"op\": \"copy\", \"target_pass\": 7}"), std::string::npos);
  EXPECT_LT(plain.size(), format("binary").write(schedule)->size());
}

TEST(Json, TakesFilesWrittenByHand) {
  const auto schedule = format("json").read(
      "\n {\"transfers\": [{\"op\": \"copy\", \"target\": 7, \"source\": 8, \"first_chunk\": 1,\n"
      "\"step\": 4}, {\"step\": 0, \"op\": \"copy\", \"target\": 7, \"source\": 8, "
      "\"first_chunk\": 0, \"chunk_count\": 2}],\n"
      "\"chunk_weights\": [1, 3], \"participants\": [7, 8], \"collective\": \"broadcast\", "
      "\"root\": 1, \"format\": \"pleach_schedule\", \"version\": 1,\n"
      "\"provenance\": {\"certificate\": {\"alpha_s\": 2, \"fraction\": 18446744073709551615}}}",
      "file");
  ASSERT_TRUE(schedule) << schedule.error().message;
  EXPECT_EQ(schedule->phase_steps, std::vector{5});
  EXPECT_EQ(schedule->period, 5);
  EXPECT_EQ(schedule->root, Rank{1});
  EXPECT_EQ(schedule->chunks.weight(1), 3);
  EXPECT_EQ(schedule->transfers.front().step, 0) << "sorted";
  EXPECT_EQ(schedule->provenance.certificate.alpha_s, 2.0);
  EXPECT_EQ(schedule->provenance.certificate.fraction, 18446744073709551616.0);
}

TEST(Json, NamesWhatIsWrong) {
  struct Case {
    std::string find, replace, error;
  };
  const std::string good =
      "{\"format\": \"pleach_schedule\", \"version\": 1,\n\"collective\": \"all_reduce\", "
      "\"participants\": [0, 1], \"chunk_count\": 2,\n\"phase_steps\": [2], \"routes\": [[0]],\n"
      "\"transfers\": [\n{\"step\": 0, \"first_chunk\": 0, \"source\": 0, \"target\": 1, \"op\": "
      "\"reduce\"},\n{\"step\": 1, \"first_chunk\": 1, \"source\": 1, \"target\": 0, \"op\": "
      "\"copy\", \"route\": 0}]}";
  const ScheduleFormat& json = format("json");
  ASSERT_TRUE(json.read(good, "file"));
  const std::vector<Case> cases = {
      {"\"version\": 1", "\"version\": 3", "file: version: 3; this program reads versions up to 2"},
      {"\"version\": 1", "\"version\": 0", "file: version: 0; this program reads versions up to 2"},
      {"\"version\": 1", "\"later\": 3, \"version\": 3",
       "file: version: 3; this program reads versions up to 2"},
      {"\"copy\"", "\"copy\", \"source_pass\": 1",
       "file: version: 1 knows no passes of switches, 2 does"},
      {"\"copy\"", "\"copy\", \"target_pass\": 65536",
       "file: transfers[1]: target_pass: 65536 is not in 0..65535"},
      {"\"copy\"", "\"copy\", \"source_pass\": -1",
       "file: transfers[1]: source_pass: -1 is not in 0..65535"},
      {"\"version\": 1,", "", "file: 'version' is missing"},
      {"pleach_schedule", "plan", "file: format: expected 'pleach_schedule', got 'plan'"},
      {"all_reduce", "all_reduc", "did you mean 'all_reduce'?"},
      {"\"collective\"", "\"colective\"",
       "file: unknown key 'colective'; did you mean 'collective'?"},
      {"\"chunk_count\": 2,", "", "file: 'chunk_count' or 'chunk_weights' is missing"},
      {"\"chunk_count\": 2", "\"chunk_count\": 0", "file: chunk_count: 0 is less than 1"},
      {"\"chunk_count\": 2", "\"chunk_count\": 2, \"chunk_weights\": [1]",
       "file: chunk_weights: 1 of them for a chunk_count of 2"},
      {"\"chunk_count\": 2", "\"chunk_weights\": [1, 0]", "file: chunk_weights: must be positive"},
      {"\"chunk_count\": 2", "\"chunk_weights\": []", "file: chunk_weights: must be positive"},
      {"\"chunk_count\": 2", "\"chunk_weights\": [9223372036854775807, 1]", "sum within int64"},
      {"\"chunk_count\": 2", "\"chunk_weights\": [9223372036854775808]",
       "file: chunk_weights[0]: 9223372036854775808 is out of range"},
      {"\"chunk_count\": 2", "\"chunk_count\": 2000000000",
       "file: chunk_count: 2000000000 is more"},
      {"[0, 1]", "[0, 0]", "file: participants[1]: node 0 is already rank 0"},
      {"[0, 1]", "[0, 5000000000]", "file: participants[1]: 5000000000 is out of range"},
      {"[0, 1]", "[0, -1]", "file: participants[1]: node -1 is not in"},
      {"[0, 1]", "[0, true]", "file: participants[1]: expected an integer, got true or false"},
      {"[0, 1]", "[0, \"1\"]", "file: participants[1]: expected an integer, got a text"},
      {"[0, 1]", "[0, [1]]", "file: participants[1]: expected an integer, got an array"},
      {"[0, 1]", "[0, 1.0]", "file: participants[1]: expected an integer, got a number"},
      {"[0, 1]", "3", "file: participants: expected an array, got an integer"},
      {"[0, 1]", "null", "file: participants: null is no value here"},
      {"[2]", "[1]",
       "file: transfers[1] (chunks [1, 2), node 1 -> node 0, copy, step 1): the "
       "phases have 1 steps"},
      {"[[0]]", "[0]", "file: routes[0]: expected an array, got an integer"},
      {"[[0]]", "[[0, {}]]", "file: routes[0][1]: expected an integer, got an object"},
      {"[[0]]", "[]",
       "file: transfers[1] (chunks [1, 2), node 1 -> node 0, copy, step 1): route 0"},
      {"\"step\": 1", "\"stpe\": 1",
       "file: transfers[1]: unknown key 'stpe'; did you mean 'step'?"},
      {"\"step\": 1", "\"step\": 1, \"step\": 1", "file: transfers[1]: step: the key is repeated"},
      {"\"step\": 1, ", "", "file: transfers[1]: 'step' is missing"},
      {"\"step\": 1", "\"step\": 99999999999999999999",
       "file: transfers[1]: step: expected an integer, got a number"},
      {"\"step\": 1", "\"step\": -3", "step -3): the phases have 2 steps"},
      {"\"copy\"", "\"move\"", "file: transfers[1]: op: expected 'copy' or 'reduce', got 'move'"},
      {"\"copy\"", "\"\\u0000\\n\"", "got '\\x00\\x0a'"},
      {"\"phase_steps\": [2]", "\"phase_steps\": [2], \"root\": 1",
       "file: root: all_reduce has none"},
      {"\"phase_steps\": [2]", "\"phase_steps\": [2], \"symmetry\": [3]", "multiply to 3"},
      {"\"phase_steps\": [2]",
       "\"phase_steps\": [2], \"provenance\": {\"topology_fingerprint\": "
       "\"12\"}",
       "file: provenance.topology_fingerprint: expected '0x'"},
      {"\"phase_steps\": [2]",
       "\"phase_steps\": [2], \"provenance\": {\"certificate\": "
       "{\"exact\": 1}}",
       "file: certificate.exact: expected true or false, got an integer"},
      {"\"phase_steps\": [2]", "\"phase_steps\": [2 2]", "file:3: no valid JSON at "},
      {"\"step\": 1", "\"step\": 1e999", "file:6: no valid JSON at "},
      {"\"step\": 1", "\"step\": \"\xff\"", "file:6: no valid JSON at "},
      {"}]}", "}]", "file:6: the file ends too early"},
      {"}]}", "}]} {", "file:6: no valid JSON at "},
  };
  for (const Case& test : cases) {
    std::string text = good;
    const std::size_t position = text.find(test.find);
    ASSERT_NE(position, std::string::npos) << test.find;
    text.replace(position, test.find.size(), test.replace);
    const auto schedule = json.read(text, "file");
    ASSERT_FALSE(schedule) << text;
    EXPECT_NE(schedule.error().message.find(test.error), std::string::npos)
        << schedule.error().message << "\nexpected: " << test.error;
    EXPECT_EQ(schedule.error().message.find('\n'), std::string::npos);
  }
}

// A damaged file gives one line, or a schedule that keeps the ranges.
void expect_survival(const ScheduleFormat& known, const std::string& content) {
  const auto schedule = known.read(content, "file");
  if (!schedule) {
    EXPECT_TRUE(schedule.error().message.starts_with("file:")) << schedule.error().message;
    EXPECT_EQ(schedule.error().message.find('\n'), std::string::npos);
    return;
  }
  check_form(*schedule, nullptr);
  EXPECT_TRUE(known.write(*schedule));
}

TEST(Formats, SurviveTruncation) {
  for (const ScheduleFormat* known : schedule_formats()) {
    const std::string content = std::move(known->write(rich())).value();
    for (std::size_t length = 0; length < content.size(); ++length) {
      expect_survival(*known, content.substr(0, length));
      if (known->name == "json" && length + 1 < content.size()) {
        EXPECT_FALSE(known->read(content.substr(0, length), "file")) << length;
      }
    }
  }
}

TEST(Formats, SurviveDamage) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  for (const ScheduleFormat* known : schedule_formats()) {
    const std::string good = std::move(known->write(rich())).value();
    int refused = 0;
    for (int trial = 0; trial < 20'000; ++trial) {
      std::string content = good;
      for (uint64_t changes = 1 + rng.below(3); changes > 0; --changes) {
        const std::size_t position = rng.below(content.size());
        switch (rng.below(4)) {
          case 0:
            content[position] = static_cast<char>(rng.below(256));
            break;
          case 1:
            content[position] = static_cast<char>(content[position] ^ (1 << rng.below(8)));
            break;
          case 2:
            content.erase(position, 1 + rng.below(8));
            break;
          default:
            content.insert(position, content.substr(rng.below(content.size()), rng.below(20)));
            break;
        }
      }
      refused += known->read(content, "file").has_value() ? 0 : 1;
      expect_survival(*known, content);
    }
    EXPECT_GT(refused, 5'000) << known->name;
  }
}

TEST(Binary, ReadsContentAtAnyAddress) {
  const ScheduleFormat& binary = format("binary");
  const std::string content = std::move(binary.write(rich())).value();
  for (std::size_t shift = 0; shift < 9; ++shift) {
    const std::string shifted = std::string(shift, ' ') + content;
    const auto schedule = binary.read(std::string_view(shifted).substr(shift), "file");
    ASSERT_TRUE(schedule);
    EXPECT_EQ(*schedule, rich());
  }
}

TEST(Formats, RefuseToWriteWhatCannotBeRead) {
  for (const ScheduleFormat* known : schedule_formats()) {
    Schedule schedule = rich();
    schedule.provenance.certificate.witness = "\xff";
    EXPECT_FALSE(known->write(schedule));
    schedule = rich();
    schedule.provenance.certificate.fraction = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(known->write(schedule));
    schedule = rich();
    schedule.transfers[0].step = 99;
    const auto content = known->write(schedule);
    ASSERT_FALSE(content);
    EXPECT_NE(content.error().message.find("the phases have 3 steps"), std::string::npos);
  }
}

TEST(Files, AreWrittenByExtensionAndReadByContent) {
  const std::string folder = testing::TempDir() + "pleach_formats_test";
  std::filesystem::create_directories(folder);
  const Schedule schedule = rich();
  for (const ScheduleFormat* known : schedule_formats()) {
    const std::string path = folder + "/schedule" + known->extension;
    ASSERT_TRUE(write_schedule(schedule, path));
    EXPECT_EQ(*read_schedule(path), schedule);
    std::filesystem::rename(path, folder + "/other");
    EXPECT_EQ(*read_schedule(folder + "/other"), schedule);
    EXPECT_EQ(*known->write(schedule), *read_file(folder + "/other"));
  }
  const auto unknown = write_schedule(schedule, folder + "/schedule.xml");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find(".json (json), .pleach (binary)"), std::string::npos);
  EXPECT_FALSE(read_schedule(folder + "/absent.json"));
  ASSERT_TRUE(write_file(folder + "/noise", "\x01\x02noise"));
  const auto noise = read_schedule(folder + "/noise");
  ASSERT_FALSE(noise);
  EXPECT_NE(noise.error().message.find("it begins with '\\x01\\x02noise'"), std::string::npos)
      << noise.error().message;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace pleach
