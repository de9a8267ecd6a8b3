"""Each container that a peer might fill, and each slice of work, is in server/accounts.md."""

import re
import tempfile
import unittest
from pathlib import Path

from cpp_members import container_members, sources, stripped
from gateway import REPOSITORY

SERVER = REPOSITORY / "server"
TABLES = (SERVER / "accounts.md").read_text()


def rows():
    """The cells of each row, without those of the tables' heads."""
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLES.splitlines() if line.startswith("|")]
    return [cells for cells in found if cells[0] != "container" and not cells[0].startswith("---")]


def named(cell):
    return re.findall(r"`((?:\w+::)+\w+)`", cell)


class AccountsTest(unittest.TestCase):
    def test_every_container_has_an_account_or_a_reason(self):
        containers = container_members(SERVER)
        self.assertGreater(len(containers), 200)
        listed = [name for cells in rows() for name in named(cells[0])]
        self.assertEqual(sorted(set(containers) - set(listed)), [], "without an account")
        self.assertEqual(sorted(set(listed) - set(containers)), [], "not in the sources any more")
        self.assertEqual(sorted(name for name in set(listed) if listed.count(name) > 1), [], "twice")

    def test_every_row_says_all_that_it_should(self):
        for cells in rows():
            self.assertIn(len(cells), (2, 5), cells)
            for cell in cells:
                self.assertTrue(cell, cells)

    def test_every_slice_is_named(self):
        slices = set()
        for path in sources(SERVER):
            slices.update(re.findall(r"\b(\w+_a_turn)(?: =|\{)", stripped(path.read_text())))
        self.assertIn("work_a_turn", slices)
        self.assertEqual(sorted(name for name in slices if f"`{name}`" not in TABLES), [])

    def test_each_buffer_for_http_has_a_bound(self):
        """Beast's parser does not count everything that it makes its buffer keep."""
        bounds = [bound for path in sources(SERVER)
                  for bound in re.findall(r"\bflat_buffer (\w+[^;]*);", stripped(path.read_text()))]
        self.assertGreater(len(bounds), 3)
        self.assertEqual([bound for bound in bounds if "most_unparsed_http" not in bound], [])

    def test_no_string_is_emptied_in_a_way_that_keeps_its_memory(self):
        """`text = {}` does; free_memory and clear say what they do."""
        found = []
        for path in sources(SERVER):
            text = stripped(path.read_text())
            header = path.with_suffix(".h")
            declared = text + (stripped(header.read_text()) if header.exists() else "")
            strings = set(re.findall(r"\b(?:std::string|Buffer)&? (\w+)\b", declared))
            emptied = re.findall(r"^\s*(?:if \(.*\) )?(?:\w+(?:\.|->))*(\w+) = \{\};", text, re.MULTILINE)
            found += [f"{path.name}: {name}" for name in emptied if name in strings]
        self.assertEqual(found, [])

    def test_a_new_container_is_found_wherever_it_stands(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        Path(folder, "new.h").write_text("""
            namespace pulsegate {
            using Names = std::set<std::string>;
            struct Outer : Base<std::vector<int>> {
                explicit Outer(std::vector<int> lent) : sum_{0} { for (int each : lent) { std::deque<int> here; } }
                std::vector<int> copy() const { return own; }
                const std::vector<int>& lent() const;
                class Inner final {
                    mutable boost::unordered_flat_map<std::string, std::vector<int>, Hash> by_name_;  // a, b
                    std::array<Names, 2> both_{};
                    std::list<int>::iterator place_;
                    std::array<int, 3> three_ = {1, 2, 3};
                };
                std::unique_ptr<std::deque<int>> own = make({1, 2});
                boost::intrusive::list<Node, boost::intrusive::constant_time_size<false>> nodes;
                std::vector<int>* lent_;
                const Names& names_;
            };
            std::map<int, int> everywhere;
            }
            """)
        self.assertEqual(sorted(container_members(folder)), [
            "::everywhere", "Outer::Inner::both_", "Outer::Inner::by_name_", "Outer::nodes", "Outer::own"])
