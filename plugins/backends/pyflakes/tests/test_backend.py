"""Tests: `python -m unittest discover tests`, with requirements.txt installed."""

import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyflakes import messages  # noqa: E402

from backend import flakes, nesting, settings  # noqa: E402
from backend.bounded import BoundedFindings  # noqa: E402
from backend.findings import Finding, Invalid  # noqa: E402
from backend.lint import Linter  # noqa: E402
from backend.paths import inside  # noqa: E402
from backend.settings import Settings  # noqa: E402


def lint(source, select=(), found=None):
    data = source if isinstance(source, bytes) else source.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        findings = Linter(found or Settings(), list(select)).check("a.py", data)
    return [(finding.line, finding.column, finding.code) for finding in findings]


class Bounds(unittest.TestCase):
    def test_many_findings_are_counted_and_spread_over_files(self):
        bounded = BoundedFindings()
        minified = [Finding(line, 1, "W291", "words") for line in range(1, 150_001)]
        bounded.add("large.py", [*minified, Finding(150_001, 1, "E999", "words")])
        for number in range(5_000):
            bounded.add(f"{number}.py", [Finding(line, 1, "E501", "words") for line in range(10)])
        kept, left_out = bounded.finish()
        self.assertLessEqual(len(kept), 10_000)
        self.assertEqual(len({path for path, _ in kept}), 5_001)
        self.assertIn(("large.py", Finding(150_001, 1, "E999", "words")), kept)
        for code, is_warning, total in [("W291", True, 150_000), ("E501", False, 50_000)]:
            listed = sum(found.code == code for _, found in kept)
            self.assertEqual(listed + left_out[code, is_warning], total)


class Findings(unittest.TestCase):
    def test_both_linters_report_in_order(self):
        self.assertEqual(
            lint("import os\nx = 1 ;y=undefined\n"),
            [(1, 1, "F401"), (2, 6, "E203"), (2, 7, "E231"), (2, 7, "E702"), (2, 9, "E225"),
             (2, 10, "F821")],
        )  # fmt: skip

    def test_columns_count_characters(self):
        for text in ["é", "😀", "ab"]:
            with self.subTest(text):
                before = len(f'x = "{text}", ')
                self.assertEqual(lint(f'x = "{text}", y\n'), [(1, before + 1, "F821")])

    def test_line_ends_and_byte_order_marks_do_not_shift_positions(self):
        wanted = [(1, 1, "F401"), (2, 6, "W291")]
        for data in [b"import os\nx = 1 \n", b"import os\r\nx = 1 \r\n", b"import os\rx = 1 \r"]:
            self.assertEqual(lint(data), wanted)
            self.assertEqual(lint(b"\xef\xbb\xbf" + data), wanted)

    def test_files_that_are_not_python(self):
        for data, wanted in [
            (b"", []),
            (b"def f(:\n    pass\n", [(1, 7, "syntax-error")]),
            (b"x = '\n", [(1, 5, "syntax-error")]),
            (b"x = 1\n\xff = 2\n", [(2, 0, "E902")]),
            (b"\xff\xfe", [(1, 0, "E902")]),
            (b"# coding: nonsense\n", [(1, 0, "syntax-error")]),
            (b"# coding: latin-1\nx = '\xe9', y\n", [(2, 10, "F821")]),
            (b"if x:\n        y = 1\n    z = 2\n", [(3, 10, "syntax-error")]),
        ]:
            with self.subTest(data):
                self.assertEqual(lint(data), wanted)
        self.assertEqual(lint(b"x = 1\0\n")[0][2], "syntax-error")

    def test_many(self):
        self.assertEqual(len(lint("".join(f"import m{n}\n" for n in range(1500)))), 1500)

    def test_deep_expressions_are_refused_and_long_ones_are_not(self):
        deep, long = 3 * nesting.LIMIT, "x = [" + "1, " * 20000 + "1]\n"
        for chain in ["x = a" + "+a" * deep, "x = a" + ".a" * deep, "x = a" + "()" * deep,
                      "x = f(" + "a" + "[0]" * deep + ")"]:  # fmt: skip
            self.assertEqual(lint(chain + "\n"), [(0, 0, "syntax-error")])
        self.assertFalse(nesting.is_too_deep([long]))
        self.assertFalse(nesting.is_too_deep(["x = a + b\n"] * 10000))
        self.assertFalse(nesting.is_too_deep(["x = a.b(c, d.e)\n"] * 10000 + ["x = '''"]))

    def test_a_selection_filters_and_enables_rules_and_keeps_syntax_errors(self):
        source = "import os\nx=1\ny = a \\\n    or b\n"
        self.assertEqual(lint(source, ["F4"]), [(1, 1, "F401")])
        self.assertEqual(lint(source, ["E2", "F4"]), [(1, 1, "F401"), (2, 2, "E225")])
        self.assertEqual(lint("x = (a +\n     b)\n", ["W504"]), [(1, 8, "W504")])
        self.assertEqual(lint("def (\n", ["E501"]), [(1, 5, "syntax-error")])
        with self.assertRaises(Invalid):
            lint("", [" "])

    def test_every_message_of_pyflakes_has_a_code(self):
        bases = {"Message"}
        names = {
            name
            for name, value in vars(messages).items()
            if isinstance(value, type) and issubclass(value, messages.Message)
        }
        self.assertEqual(names - bases - set(flakes.CODES), set())


class Noqa(unittest.TestCase):
    def test_comments_suppress_their_codes(self):
        for source, wanted in [
            ("import os  # noqa\n", []),
            ("import os  # NOQA: f401\n", []),
            ("import os  # noqa: F4,E2\n", []),
            ("import os  # noqa:E501\n", [(1, 1, "F401")]),
            ("import os  # noqa: because\n", []),
            ("x = '# noqa'; import os\n", [(1, 13, "E702"), (1, 15, "F401")]),
            ("import os\nx = 1  # noqa\n", [(1, 1, "F401")]),
            ("# flake8: noqa\nimport os\nx=1\n", []),
            ("# flake8: noqa: F401\nimport os\nx=1\n", [(3, 2, "E225")]),
            ('x = """a \nb """  # noqa\n', []),
            ('x = """a \nb """\n', [(1, 9, "W291")]),
            ("x = [a,\n     b]  # noqa\n", [(1, 6, "F821")]),
        ]:
            with self.subTest(source):
                self.assertEqual(lint(source), wanted)


class Configuration(unittest.TestCase):
    def find(self, files, paths=("src/a.py",), config=None):
        data = {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}
        return settings.find(data.get, config, list(paths))

    def test_the_nearest_configuration_is_used(self):
        files = {
            "setup.cfg": "[pycodestyle]\nmax-line-length = 100\n",
            "src/tox.ini": "[pycodestyle]\nmax_line_length = 120\nignore = E1, W6,\n",
        }
        found = self.find(files).style
        self.assertEqual((found.max_line_length, found.ignore), (120, ("E1", "W6")))
        self.assertEqual(self.find(files, ["src/a.py", "b.py"]).style.max_line_length, 100)
        self.assertEqual(self.find(files, [""]).style.max_line_length, 100)
        self.assertEqual(self.find(files, config="setup.cfg").style.max_line_length, 100)
        self.assertEqual(self.find({}), Settings())

    def test_settings_change_the_findings(self):
        found = self.find({"setup.cfg": "[pycodestyle]\nmax-line-length = 20\nignore = E225\n"})
        self.assertEqual(lint("x=1\ny = 'aaaaaaaaaaaaaaaaaaaa'\n", found=found), [(2, 21, "E501")])

    def test_unparsable_files_are_findings(self):
        for text, wanted in [
            ("[pycodestyle", "setup.cfg: File contains no section headers"),
            ("[pycodestyle]\nmax-line-length = abc\n",
             "setup.cfg: [pycodestyle]: max-line-length has to be a number, not 'abc'"),
            ("[pep8]\nhang-closing = maybe\n", "hang-closing has to be true or false"),
            (b"\xff", "setup.cfg: it is no UTF-8 at byte 0"),
        ]:  # fmt: skip
            with self.subTest(text), self.assertRaises(Invalid) as caught:
                self.find({"setup.cfg": text})
            self.assertIn(wanted, str(caught.exception))
        with self.assertRaises(Invalid):
            self.find({}, config="none.cfg")

    def test_excluded_files(self):
        found = self.find({"src/setup.cfg": "[pycodestyle]\nexclude = old, gen/*.py\n"})
        for path, wanted in [("old/a.py", True), ("src/gen/a.py", True), ("gen/a.py", False),
                             ("src/a.py", False), ("cold.py", False)]:  # fmt: skip
            self.assertEqual(found.leave_out(path), wanted, path)
        self.assertTrue(Settings().leave_out("a/__pycache__/b.py"))


class Paths(unittest.TestCase):
    def test_paths_stay_inside(self):
        for path, wanted in [("", ""), (".", ""), ("a/./b/", "a/b"), ("a/../b", "b"), ("a..b", "a..b")]:
            self.assertEqual(inside(path), wanted)
        for path in ["/etc", "..", "../a", "a/../../b", "a\0b"]:
            with self.subTest(path), self.assertRaises(Invalid):
                inside(path)


if __name__ == "__main__":
    unittest.main()
