#include "pleach/base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "pleach/base/index.h"
#include "pleach/base/options.h"
#include "pleach/base/rng.h"

namespace pleach {
namespace {

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "pleach_files_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t entry_count() const {
    const std::filesystem::directory_iterator entries(folder_);
    return at(std::distance(begin(entries), end(entries)));
  }

  std::string folder_;
};

TEST_F(Files, WrittenIsRead) {
  for (const std::string& content :
       {std::string(), std::string("a\0b\n", 4), std::string(3'000'000, 'x')}) {
    ASSERT_TRUE(write_file(path("file"), content));
    const Result<std::string> read = read_file(path("file"));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, content);
  }
  EXPECT_EQ(entry_count(), 1U);
}

TEST_F(Files, TextsAreReadWithoutAByteOrderMark) {
  for (const std::string text : {"", "text", "\xef\xbb", "text\xef\xbb\xbf"}) {
    for (const std::string mark : {"", "\xef\xbb\xbf"}) {
      ASSERT_TRUE(write_file(path("text"), mark + text));
      EXPECT_EQ(read_file(path("text")).value(), mark + text);
      EXPECT_EQ(read_text_file(path("text")).value(), text);
    }
  }
}

TEST_F(Files, PathsMayHaveCommas) {
  ASSERT_TRUE(std::filesystem::create_directory(path("a,b")));
  for (const char* file : {"a", "a,b/c", "a,b/c,d"}) {
    ASSERT_TRUE(write_file(path(file), ""));
  }
  const struct {
    std::string text, known;
  } cases[] = {{"a", "a"},
               {"a,x=1", "a"},
               {"a,b", "a"},  // a folder is no file
               {"a,b/c,x=1", "a,b/c"},
               {"a,b/c,d,e", "a,b/c,d"},
               {"b,a", ""},
               {",", ""}};
  for (const auto& [text, known] : cases) {
    EXPECT_EQ(path_length(path(text)), known.empty() ? 0 : path(known).size()) << text;
  }
  EXPECT_EQ(path_length(""), 0U);

  const std::string file = path("a,b/c,d");
  EXPECT_EQ(split_specs("ring," + file + ",x=1," + path("a") + ",b").value(),
            (std::vector<std::string>{"ring", file + ",x=1", path("a"), "b"}));
}

TEST_F(Files, ReadingStopsAtTheLimit) {
  ASSERT_TRUE(write_file(path("file"), "12345"));
  EXPECT_TRUE(read_file(path("file"), 5));
  const Result<std::string> read = read_file(path("file"), 4);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "cannot read '" + path("file") + "': it is larger than 4 bytes");
  EXPECT_FALSE(read_file("/dev/zero", 1000));
}

TEST_F(Files, ErrorsNameThePathAndTheCause) {
  const std::string missing = path("missing/file");
  const std::string no_such = "': No such file or directory";
  EXPECT_EQ(read_file(missing).error().message, "cannot read '" + missing + no_such);
  EXPECT_EQ(write_file(missing, "x").error().message, "cannot write '" + missing + no_such);
  const std::string is_folder = "': it is a directory";
  EXPECT_EQ(read_file(folder_).error().message, "cannot read '" + folder_ + is_folder);
  EXPECT_EQ(write_file(folder_, "x").error().message, "cannot write '" + folder_ + is_folder);
  EXPECT_EQ(read_file(folder_).error().code, ErrorCode::kIo);
}

// Nobody may ever write to a pipe with a name.
TEST_F(Files, WhatIsNoFileIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_file(path("pipe")).error().message,
            "cannot read '" + path("pipe") + "': it is no regular file");
  EXPECT_FALSE(write_file(path("pipe"), "x"));
  EXPECT_EQ(new_file_name(path("pipe")).error().message,
            "cannot write '" + path("pipe") + "': it is no regular file");
  EXPECT_EQ(write_new_file("/dev/full", "x").error().message,
            "cannot write '/dev/full': it is no regular file");
  EXPECT_FALSE(std::filesystem::exists("/dev/full.0"));
  int ends[2] = {-1, -1};
  ASSERT_EQ(pipe(ends), 0);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(write(ends[1], "given", 5), 5);
    close(ends[1]);
  });
  const Result<std::string> given = read_file("/dev/fd/" + std::to_string(ends[0]));
  writer.join();
  close(ends[0]);
  ASSERT_TRUE(given) << given.error().message;
  EXPECT_EQ(*given, "given");
}

TEST_F(Files, FailedWritesLeaveTheOldFile) {
  ASSERT_TRUE(write_file(path("file"), "old"));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status written = write_file(path("file"), std::string(100'000, 'x'));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message,
            "cannot write '" + path("file") +
                "': a file of this process may have 1000 bytes (ulimit -f)");
  EXPECT_EQ(*read_file(path("file")), "old");
  EXPECT_EQ(entry_count(), 1U);
  EXPECT_FALSE(write_file("/dev/full", "x"));
}

TEST_F(Files, LinksAndDevicesStayWhatTheyAre) {
  ASSERT_TRUE(write_file(path("file"), "old"));
  std::filesystem::create_symlink(path("file"), path("link"));
  ASSERT_TRUE(write_file(path("link"), "new"));
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(*read_file(path("file")), "new");
  ASSERT_TRUE(write_file("/dev/null", "gone"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(Files, ReplacedOnesKeepTheirMode) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(write_file(path("file"), "old"));
  for (const auto mode : {fs::perms::owner_all, fs::perms(0640), fs::perms(0444)}) {
    fs::permissions(path("file"), mode);
    ASSERT_TRUE(write_file(path("file"), "new"));
    EXPECT_EQ(fs::status(path("file")).permissions(), mode);
  }
}

TEST_F(Files, OfASetAppearTogetherOrNotAtAll) {
  ASSERT_TRUE(write_file(path("b"), "old"));
  {
    FileSet set;
    ASSERT_TRUE(set.add(path("a"), "1"));
    ASSERT_TRUE(set.add(path("b"), "2"));
    EXPECT_EQ(read_file(path("b")).value(), "old");
    EXPECT_FALSE(std::filesystem::exists(path("a")));
    EXPECT_FALSE(set.add(path("missing/c"), "3"));
  }
  EXPECT_EQ(entry_count(), 1U) << "nothing is left of what was not committed";
  FileSet set;
  ASSERT_TRUE(set.add(path("a"), "1"));
  ASSERT_TRUE(set.add(path("b"), "2"));
  ASSERT_TRUE(set.commit());
  EXPECT_EQ(read_file(path("a")).value(), "1");
  EXPECT_EQ(read_file(path("b")).value(), "2");
  EXPECT_EQ(entry_count(), 2U);
}

// A signal in the midst of a set ends the program after the set: all of it is there, or nothing.
TEST_F(Files, OfASetSurviveASignalTogether) {
  for (const bool commits : {true, false}) {
    ASSERT_TRUE(write_file(path("a"), "old"));
    ASSERT_TRUE(write_file(path("b"), "old"));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto set = std::make_unique<FileSet>();
      const bool has_first = set->add(path("a"), "new").has_value();
      raise(SIGTERM);
      const bool has_both = has_first && set->add(path("b"), "new").has_value();
      if (has_both && commits) {
        static_cast<void>(set->commit());  // ends here
      }
      if (has_both && !commits) {
        set.reset();  // or here
      }
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    for (const char* name : {"a", "b"}) {
      EXPECT_EQ(*read_file(path(name)), commits ? "new" : "old");
    }
    EXPECT_EQ(entry_count(), 2U);
  }
}

TEST_F(Files, NewOnesKeepWhatIsThere) {
  EXPECT_EQ(new_file_name(path("x")).value(), path("x"));
  for (const char* name : {"x", "x.0", "x.1"}) {
    EXPECT_EQ(new_file_name(path("x")).value(), path(name));
    EXPECT_EQ(write_new_file(path("x"), name).value(), path(name));
  }
  EXPECT_EQ(read_file(path("x")).value(), "x");
  EXPECT_EQ(read_file(path("x.1")).value(), "x.1");
  EXPECT_EQ(entry_count(), 3U);
  const auto folder = new_file_name(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().message, "cannot write '" + folder_ + "': it is a directory");
  EXPECT_EQ(new_file_name(path("missing/x")).error().message,
            "cannot write '" + path("missing/x") + "': No such file or directory");
}

}  // namespace
}  // namespace pleach
