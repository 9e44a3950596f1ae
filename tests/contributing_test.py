#!/usr/bin/env python3
"""Holds CONTRIBUTING.md to the code: what a new thing takes is one file and one row in one table.

Every table of the source tree is named there once, with where its entries are defined; and every
row of a table is a descriptor that just one source file at that place defines.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "pleach").rglob("*.cc")}
# (type, name) -> files
DEFINITIONS = {}
for source, text in SOURCES.items():
    for descriptor in re.findall(r"^extern const (\w+) (k\w+)", text, re.M):
        DEFINITIONS.setdefault(descriptor, []).append(source)


def documented():
    """table file -> pattern of the files that define its entries."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## How to add")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [\w ]+ \| `([^`]+)` \| `([^`]+)` \|$", section, re.M)
    return {table: place for place, table in rows}


def tables():
    """table file -> (type of its entries, their names)."""
    found = {}
    for path, text in SOURCES.items():
        match = re.search(r'^PLEACH_REGISTRY\(\w+, (\w+), "[^"]*", "[^"]*",([^)]*)\)', text, re.M)
        if match:
            found[str(path)] = (match[1], re.findall(r"\w+", match[2]))
    return found


class Contributing(unittest.TestCase):
    def test_names_every_table_once(self):
        self.assertEqual(sorted(documented()), sorted(tables()))
        self.assertGreaterEqual(len(tables()), 10)

    def test_every_row_is_one_descriptor_in_one_file_at_its_place(self):
        for table, place in documented().items():
            entry_type, names = tables()[table]
            self.assertEqual(len(names), len(set(names)), table)
            self.assertTrue(names, table)
            pattern = place.replace("NAME/", "*/*.cc") if place.endswith("NAME/") \
                else place.replace("NAME", "*")
            for name in names:
                files = DEFINITIONS.get((entry_type, name), [])
                self.assertEqual(len(files), 1, f"{table}: {name}")
                self.assertTrue(files[0].match(pattern), f"{files[0]} is not at {place}")

    def test_every_descriptor_has_a_row(self):
        for table in documented():
            entry_type, names = tables()[table]
            defined = [name for kind, name in DEFINITIONS if kind == entry_type]
            self.assertEqual(sorted(defined), sorted(names), table)

    def test_counts_the_rows(self):
        """The number that CONTRIBUTING.md gives is that of its table."""
        words = {8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve"}
        text = (ROOT / "CONTRIBUTING.md").read_text()
        self.assertIn(f"{words[len(tables())]} tables", text)


if __name__ == "__main__":
    unittest.main()
