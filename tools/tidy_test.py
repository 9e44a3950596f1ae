#!/usr/bin/env python3
"""Tests tidy.py: a clean tree passes, and each planted violation is found at its line."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import tidy

TIDY = pathlib.Path(__file__).with_name("tidy.py")
CMAKE = """
pleach_layer(base DEPS)
pleach_layer(network DEPS base)
pleach_layer(cli DEPS network)
"""


def members(count):
    return "".join(f"  int m{number}_ = 0;\n" for number in range(count))


def body(lines, rows=0):
    """A function of so many lines, and as many rows of a table in it."""
    table = "  int b[] = {\n" + "      {1, 2},\n" * rows + "  };\n" if rows else ""
    return "void f(int a) {\n" + table + "  a = 1;\n" * (lines - 2 - 2 * (rows > 0)) + "}\n"


# Ten members, and what looks like more.
FULL_CLASS = """#pragma once
template <typename T, typename = int>
class Full final : public std::vector<T>, private Base<(3 > 2)> {
 public:
  using Row = std::pair<int, int>;
  enum class Kind : uint8_t { kNone, kSome, kAll };
  struct Point {
    int x = 0, y = 0;
  };
  explicit Full(int a) : Base{a, 1}, m0_(a), m1_{Row{1, 2}} {}
  Full(const Full&) = delete;
  template <typename Visit>
  void visit(Visit visit, int limit = int{3}) const {
    struct Local {
      int a, b, c, d, e, f, g, h;
    };
    const auto lambda = [limit](int a) { return a < limit; };
    visit(Local{}, lambda);
  }
  bool operator==(const Full&) const = default;
  friend bool operator<(const Full& left, const Full& right);
  virtual int size() const = 0;
  static constexpr std::array<int, 3> kSizes = {1, 2, 3};
  static int count_;
  static_assert(sizeof(int) == 4, "int count; int size;");
  PLEACH_CHECK(m0_);

 private:
  class Inner;
  int m0_ = 1'000, m1_{2};
  std::map<int, std::vector<std::string>> m2_, m3_ = {{1, {}}};
  std::function<void(int, int)> m4_ = [](int a, int b) { use(a, b); };
  Result<int> (*m5_)(const char* name, int number) = nullptr;
  const char* m6_ = R"(int a; int b; } ")";  // int c;
  char m7_[2][2], m8_ = '"';
  struct {
    int x, y;
  } m9_;
};
"""
CLEAN = {
    "pleach/base/good.h": "#pragma once\n",
    "pleach/base/good.cc": '#include "pleach/base/good.h"\n\n#include <fmt/format.h>\n',
    "pleach/base/full.h": FULL_CLASS,
    "pleach/base/record.h": "#pragma once\nstruct Record {\n" + members(16) +
        "  bool operator==(const Record&) const = default;\n};\n",
    "pleach/base/function.cc": "namespace {\n" + body(70) + "}\nTEST(A, B) {\n" + "\n" * 68 +
                               "}\n",
    "pleach/base/table.cc": body(70, rows=200) + "auto g() {\n  return {\n" + "{1},\n" * 99 +
                            "  };\n}\n",
    "tools/function.py": "def f():\n" + "    a = 1\n" * 69,
    "python/function.py": 'def f():\n    """Contract.\n\n    More.\n    """\n' + "    a = 1\n" * 69,
    "pleach/base/good_test.cc": '#include <gtest/gtest.h>\nvoid f() { exit(1); }\n',
    "pleach/base/words.cc": '// never calls exit(1) or abort()\nauto t = "abort( printf(";\n',
    "pleach/network/child.cc": "void f() { _exit(1); request.exit(); snprintf(a, b, c); }\n",
    "examples/good.c": '#include <pleach/api/pleach.h>\nvoid f() { printf("x"); }\n',
    "python/pleach/torch/shim/good.cc": '#include <torch/torch.h>\n'
                                        '#include "pleach/api/pleach.h"\n',
    "pleach/cli/show.cc": "void f() { print_text(out, text); printer.print(text); }\n",
}
# path, content, line, part of the message
PLANTED = [
    ("pleach/base/bind.cc", "#include <nanobind/nanobind.h>\n", 1, "may include nanobind"),
    ("python/pleach/a.cc", "#include <torch/torch.h>\n", 1, "may include torch"),
    ("python/pleach/torch/shim/a.cc", '#include "pleach/api/library.h"\n', 1, "C interface alone"),
    ("pleach/base/up.cc", '#include "pleach/network/model.h"\n', 1, "may not include network"),
    ("pleach/stray/a.cc", "int a;\n", 1, "not a pleach_layer"),
    ("pleach/base/bare.h", "int f();\n", 1, "#pragma once"),
    ("pleach/base/wide.cc", "\n// " + "x" * 100 + "\n", 2, "over 100 columns"),
    ("pleach/base/long.cc", "\n" * 801, 801, "over 800 lines"),
    ("pleach/base/long.h", "#pragma once\n" + "\n" * 300, 301, "over 300 lines"),
    ("pleach/base/quit.cc", "void f() { std::exit(1); }\n", 1, "returns Result"),
    ("pleach/base/quit2.cc", "void f() { abort(); }\n", 1, "returns Result"),
    ("pleach/cli/quit.cc", "void f() { exit(2); }\n", 1, "returns Result"),
    ("pleach/base/quit3.cc", "void f() { ::exit(1); }\n", 1, "returns Result"),
    ("pleach/base/quit4.cc", "void f() { std::terminate(); }\n", 1, "returns Result"),
    ("pleach/base/other.cpp", "int a;\n", 1, "sources end in .cc"),
    ("pleach/base/other.c", "int a;\n", 1, "C is for examples"),
    ("examples/stray.c", "#include <Eigen/Dense>\n", 1, "no library that"),
    ("pleach/base/relative.cc", '#include "../base/good.h"\n', 1, "from the root"),
    ("pleach/base/eigen.cc", "#include <Eigen/Dense>\n", 1, "no library that"),
    ("pleach/base/loud4.cc", "void f() { fputs(text, stdout); }\n", 1, "does not print"),
    ("pleach/cli/loud5.cc", "void f() { fmt::print(out, text); }\n", 1, "does not print"),
    ("pleach/base/loud.cc", "\nvoid f() { std::cout << 1; }\n", 2, "does not print"),
    ("pleach/base/loud2.cc", "void f() { printf(text); }\n", 1, "does not print"),
    ("pleach/base/loud3.cc", "void f() { fmt::print(text); }\n", 1, "does not print"),
    ("pleach/base/chance.cc", "std::random_device seed;\n", 1, "pass a seed"),
    ("pleach/base/chance2.cc", "int f() { return rand(); }\n", 1, "base/rng.h"),
    ("pleach/base/chance3.cc", "std::mt19937 engine;\n", 1, "base/rng.h"),
    ("pleach/base/names.cc", "using namespace std;\n", 1, "using namespace"),
    ("pleach/base/short.cc", "int f(int src);\n", 1, "source or target"),
    ("pleach/base/json.cc", "#include <nlohmann/json.hpp>\n", 1, "may include nlohmann"),
    ("pleach/cli/verify.cc", "#include <CLI/CLI.hpp>\n", 1, "may include CLI"),
    ("pleach/base/format.h", "#pragma once\n#include <fmt/format.h>\n", 2, "header may not"),
    ("pleach/base/tested.cc", "#include <gtest/gtest.h>\n", 1, "only tests"),
    ("pleach/base/tested2.cc", '#include "tests/support/a.h"\n', 1, "may not include tests"),
    ("pleach/base/later.cc", "// FIXME\n", 1, "fix it"),
    ("pleach/network/good_test.cc", "\n", 1, "second test named good_test"),
    ("pleach/base/class.h", FULL_CLASS.replace("static int", "int"), 2, "Full over 10 members: 11"),
    ("pleach/base/comma.h", FULL_CLASS.replace("x, y;\n  } m9_", "x, y;\n  } m9_, ma_"), 2,
     "Full over 10 members: 11"),
    ("pleach/base/inner.h", FULL_CLASS.replace("int x = 0, y = 0;", members(17)), 7,
     "Point over 16 members: 17"),
    ("pleach/base/local.cc", "void f() {\n  struct Local {\n" + members(17) + "  };\n}\n", 2,
     "Local over 16 members: 17"),
    ("pleach/base/record2.cc", "struct Record {\n" + members(17) + "};\n", 1,
     "Record over 16 members: 17"),
    ("pleach/base/method.cc", "\nstruct Record {\n" + members(11) + "  int sum() const;\n};\n", 2,
     "Record over 10 members: 11"),
    ("pleach/base/base.cc", "struct Record : Base {\n" + members(11) + "};\n", 1,
     "Record over 10 members: 11"),
    ("pleach/base/hidden.cc", "struct Record {\n" + members(10) + " private:\n  int a;\n};\n", 1,
     "Record over 10 members: 11"),
    ("pleach/base/function2.cc", "int a;\n\n" + body(71), 3, "f over 70 lines: 71"),
    ("pleach/base/table2.cc", body(71, rows=200), 1, "f over 70 lines: 71"),
    ("pleach/base/lambda.cc", "void f() {\n  g = [] {\n" + "\n" * 67 + "  };\n}\n", 1, "f over"),
    ("pleach/base/head.cc", "template <typename T>\nint\n" + body(70)[5:], 1, "f over 70"),
    ("pleach/base/inline.cc", "class A {\n public:\n" + body(71) + "};\n", 3, "f over 70"),
    ("pleach/base/create.cc", "A::A(int a) : B{a}, c_{{1}} {\n" + "\n" * 69 + "}\n", 1,
     "A over 70 lines: 71"),
    ("pleach/base/later.h", "#pragma once\nauto f() -> int {\n" + "\n" * 69 + "}\n", 2,
     "f over 70 lines: 71"),
    ("pleach/base/raw.cc", 'auto t = R"x(\n)" } { ")x";\n' + body(71), 3, "f over 70 lines: 71"),
    ("pleach/base/test_test.cc", "TEST_F(A, B) {\n" + "\n" * 69 + "}\n", 1, "A.B over 70"),
    ("bench/function.py", "class A:\n  def f():\n" + "    a = 1\n" * 70, 2, "f over 70 lines: 71"),
    ("tools/wide.py", "# " + "x" * 100 + "\n", 1, "over 100 columns"),
]


def errors_of(files, find=tidy.find_errors):
    """What tidy says about a tree of these files, line by line."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "CMakeLists.txt").write_text(CMAKE)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        return find(root)


def run_tidy(root):
    return subprocess.run([sys.executable, TIDY, root], capture_output=True, text=True, check=False)


class Tidy(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        result = errors_of(CLEAN, run_tidy)
        self.assertEqual((result.returncode, result.stdout), (0, "tidy: ok\n"), result.stderr)

    def test_an_error_fails(self):
        result = errors_of({**CLEAN, "pleach/base/bare.h": "int f();\n"}, run_tidy)
        self.assertEqual((result.returncode, result.stdout),
                         (1, "pleach/base/bare.h:1: header without #pragma once\n"), result.stderr)

    def test_each_planted_violation_is_found(self):
        for path, content, line, message in PLANTED:
            with self.subTest(path):
                errors = errors_of({**CLEAN, path: content})
                self.assertEqual(len(errors), 1, errors)
                self.assertTrue(errors[0].startswith(f"{path}:{line}: "), errors)
                self.assertIn(message, errors[0])

    def test_an_exception_holds_while_it_is_needed(self):
        large = "class Big {\n" + members(11) + "};\n" + body(71)
        names = ("pleach/base/big.cc: Big", "pleach/base/big.cc: f", "pleach/base/gone.cc")
        with unittest.mock.patch.object(tidy, "LARGE", dict.fromkeys(names, "it is so")):
            self.assertEqual(errors_of({**CLEAN, "pleach/base/big.cc": large}), [])
            self.assertEqual(errors_of({**CLEAN, "pleach/base/big.cc": body(71)}),
                             [f"pleach/base/big.cc:1: '{names[0]}' is in LARGE, but needs no "
                              "exception"])


if __name__ == "__main__":
    unittest.main()
