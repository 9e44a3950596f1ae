#!/usr/bin/env python3
"""Tests tidy.py: a clean tree passes, and each planted violation is found at its line."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TIDY = pathlib.Path(__file__).with_name("tidy.py")
CMAKE = """
pleach_layer(base DEPS)
pleach_layer(network DEPS base)
pleach_layer(cli DEPS network)
"""
CLEAN = {
    "pleach/base/good.h": "#pragma once\n",
    "pleach/base/good.cc": '#include "pleach/base/good.h"\n\n#include <fmt/format.h>\n',
    "pleach/base/good_test.cc": '#include <gtest/gtest.h>\nvoid f() { exit(1); }\n',
    "pleach/base/words.cc": '// never calls exit(1) or abort()\nauto t = "abort( printf(";\n',
    "pleach/network/child.cc": "void f() { _exit(1); request.exit(); snprintf(a, b, c); }\n",
    "pleach/cli/show.cc": "void f() { std::fputs(text, out); fmt::print(out, text); }\n",
}
# path, content, line, part of the message
PLANTED = [
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
    ("pleach/base/relative.cc", '#include "../base/good.h"\n', 1, "from the root"),
    ("pleach/base/eigen.cc", "#include <Eigen/Dense>\n", 1, "no library that"),
    ("pleach/base/loud4.cc", "void f() { fputs(text, stdout); }\n", 1, "does not print"),
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
    ("tools/wide.py", "# " + "x" * 100 + "\n", 1, "over 100 columns"),
]


def run_tidy(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "CMakeLists.txt").write_text(CMAKE)
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
        return subprocess.run([sys.executable, TIDY, folder], capture_output=True, text=True,
                              check=False)


class Tidy(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        result = run_tidy(CLEAN)
        self.assertEqual((result.returncode, result.stdout), (0, "tidy: ok\n"), result.stderr)

    def test_each_planted_violation_is_found(self):
        for path, content, line, message in PLANTED:
            with self.subTest(path):
                result = run_tidy({**CLEAN, path: content})
                self.assertEqual(result.returncode, 1, path)
                lines = result.stdout.splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertTrue(lines[0].startswith(f"{path}:{line}: "), lines)
                self.assertIn(message, lines[0])


if __name__ == "__main__":
    unittest.main()
