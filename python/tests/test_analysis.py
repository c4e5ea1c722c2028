"""An analyst's first lines: parts of tables, filters of recordings, groups, plots, differences; with and without other packages."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import pmuscope
from common import busy, need, program


def setUpModule():
    """Two recordings of this process, with a thread that has a name of its own."""
    global FOLDER, BEFORE, AFTER
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name)
    BEFORE, AFTER = FOLDER / "before.data", FOLDER / "after.data"
    for path, seconds in [(BEFORE, 0.6), (AFTER, 0.4)]:
        with pmuscope.record(path, frequency=2000, python=False):
            thread = threading.Thread(target=named_work, args=(seconds,))
            thread.start()
            busy(0.5)
            thread.join()


def named_work(seconds):
    pathlib.Path("/proc/thread-self/comm").write_text("worker")
    busy(seconds)


def report(path, *words):
    done = program("report", "-i", path, "--json", *words)
    assert done.returncode == 0, done.stderr
    return [row for event in json.loads(done.stdout)["events"] for row in event["functions"]]


class Parts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.profile = pmuscope.read(BEFORE)
        cls.functions, cls.samples = cls.profile.functions(), cls.profile.samples

    def test_shape_columns_and_iteration_are_as_of_data_frames(self):
        table = self.functions
        self.assertEqual(table.shape, (len(table), len(table.columns)))
        self.assertEqual(list(table), table.columns)
        self.assertEqual(table.columns, table.column_names)
        self.assertTrue("share" in table and "shares" not in table and 3 not in table)
        self.assertEqual(table.dtypes["share"], "float64")
        self.assertEqual((table.dtype("function"), table.dtype("samples")), ("text", "uint64"))

    def test_head_tail_and_slices_are_the_rows_of_a_list(self):
        for table in (self.functions, self.samples, self.profile.losses):
            rows = table.to_dicts()
            self.assertEqual(table.head().to_dicts(), rows[:5])
            self.assertEqual(table.head(len(rows) + 5).to_dicts(), rows)
            self.assertEqual(table.tail(3).to_dicts(), rows[-3:])
            self.assertEqual(table.head(0).to_dicts(), [])
            for part in (slice(2, 7), slice(-3, None), slice(None, None, -2), slice(5, 2), slice(1, 40, 3)):
                self.assertEqual(table[part].to_dicts(), rows[part], part)

    def test_columns_by_list_are_a_table(self):
        part = self.functions[["share", "function"]]
        self.assertEqual(part.columns, ["share", "function"])
        self.assertEqual(part["share"], self.functions["share"])

    def test_take_is_by_row(self):
        rows = self.samples.to_dicts()
        chosen = [len(rows) - 1, 0, 7, 7]
        self.assertEqual(self.samples.take(chosen).to_dicts(), [rows[row] for row in chosen])
        self.assertEqual(self.samples.take([]).shape, (0, len(self.samples.columns)))

    def test_rows_are_named_tuples(self):
        rows = list(self.functions.itertuples())
        self.assertEqual([row.function for row in rows], self.functions["function"])
        self.assertEqual(rows[0]._asdict(), self.functions.to_dicts(1)[0])
        samples = next(self.samples.itertuples())
        self.assertEqual(samples.time, self.samples["time"][0])

    def test_filters_of_tables_against_lists(self):
        rows = self.functions.to_dicts()

        def expect(table, meets):
            self.assertEqual(table.to_dicts(), [row for row in rows if meets(row)])

        functions = self.functions
        expect(functions.filter(comm="worker"), lambda row: row["comm"] == "worker")
        expect(functions.filter(share=lambda share: share > 0.01), lambda row: row["share"] > 0.01)
        names = [name for name in functions["function"] if name][:3]
        expect(functions.filter(function=names, comm="worker"), lambda row: row["function"] in names and row["comm"] == "worker")
        expect(functions.filter(function=set(names)), lambda row: row["function"] in names)
        expect(functions.filter(inlined_into=None), lambda row: row["inlined_into"] is None)
        expect(functions.filter(samples=1), lambda row: row["samples"] == 1)

    def test_order_is_that_of_sorted(self):
        functions = self.functions
        for ascending in (True, False):
            ordered = functions.sort_values("samples", ascending=ascending)
            self.assertEqual(ordered["samples"], sorted(functions["samples"], reverse=not ascending))
        bounds = functions.sort_values("share_low")["share_low"]
        known = [bound for bound in bounds if bound is not None]
        self.assertEqual(bounds, sorted(known) + [None] * (len(bounds) - len(known)))
        pairs = functions.sort_values(["comm", "samples"])
        self.assertEqual(list(zip(pairs["comm"], pairs["samples"])), sorted(zip(functions["comm"], functions["samples"])))

    def test_groups_against_sums_by_hand(self):
        for table, by, column in [
            (self.functions, ["comm"], "samples"),
            (self.functions, ["module", "comm"], "share"),
            (self.samples, ["tid"], "period"),
            (self.samples, ["function", "comm"], "period"),
        ]:
            expected = {}
            for row in table.to_dicts():
                key = tuple(row[name] for name in by)
                expected[key] = expected.get(key, 0) + row[column]
            found = table.groupby(by if len(by) > 1 else by[0])[column].sum()
            self.assertEqual(found.columns, [*by, column, "rows"])
            self.assertEqual(len(found), len(expected))
            for row in found.to_dicts():
                self.assertAlmostEqual(row[column], expected[tuple(row[name] for name in by)])
            self.assertEqual(found[column], sorted(found[column], reverse=True))
        sizes = self.samples.groupby("comm").size()
        self.assertEqual(dict(zip(sizes["comm"], sizes["rows"])), {
            comm: self.samples["comm"].count(comm) for comm in set(self.samples["comm"])
        })
        # All that adds up: no CIs.
        self.assertEqual(self.functions.groupby("comm").sum().columns, ["comm", "samples", "weight", "share", "rows"])
        self.assertEqual(self.functions.filter(comm="no").groupby("comm").sum().shape, (0, 5))

    def test_shares_of_several_events_are_not_added(self):
        path = FOLDER / "two.data"
        with pmuscope.record(path, events=["cpu-clock", "task-clock"], frequency=1000, python=False):
            busy(0.3)
        functions = pmuscope.read(path).functions()
        with self.assertRaisesRegex(ValueError, r'several events does not add up. Try: groupby\(\["event", "comm"\]\)'):
            functions.groupby("comm").sum()
        shares = functions.groupby(["event", "comm"])["share"].sum()
        self.assertTrue(all(share <= 1.0000001 for share in shares["share"]))
        self.assertEqual(sum(functions.groupby("comm")["samples"].sum()["samples"]), sum(functions["samples"]))

    def test_parts_share_their_columns(self):
        if not need_pyarrow():
            self.skipTest("not installed: pyarrow")
        import pyarrow

        def memory(table):
            buffers = [chunk.buffers()[-1] for chunk in pyarrow.table(table).column("time").chunks]
            return [(buffer.address, buffer.address + buffer.size) for buffer in buffers]

        whole = memory(self.samples)
        for part in (self.samples.head(3), self.samples.tail(3), self.samples[2:9], self.samples[["time"]]):
            for start, _ in memory(part):
                self.assertTrue(any(first <= start < end for first, end in whole))

    def test_html_is_rows_with_markup_escaped(self):
        html = self.functions._repr_html_()
        self.assertEqual(html.count("<tr>"), 1 + min(10, len(self.functions)))
        self.assertIn(f"{len(self.functions)} rows × {len(self.functions.columns)} columns", html)
        self.assertIn("share_low", html)
        path = FOLDER / "markup.data"
        hostile = "<b>&\"$x"
        with pmuscope.record(path, frequency=2000, python=False):
            def work():
                pathlib.Path("/proc/thread-self/comm").write_text(hostile)
                busy(0.2)
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        html = pmuscope.read(path, comm=[hostile]).functions()._repr_html_()
        self.assertIn("&lt;b&gt;&amp;&quot;&#36;x", html)
        self.assertNotIn("<b>", html)


def need_pyarrow():
    import importlib.util

    return importlib.util.find_spec("pyarrow") is not None


class Filters(unittest.TestCase):
    """Those of `read` and `functions` are those of the command line."""

    def test_each_filter_is_the_flag_of_the_program(self):
        profile = pmuscope.read(BEFORE)
        function = next(name for name in profile.functions()["function"] if name)
        module = os.path.basename(profile.functions()["module"][0])
        tid = profile.samples.filter(comm="worker")["tid"][0]
        cpu = profile.samples["cpu"][0]
        cases = [
            ({"comm": "worker"}, ["--comm", "worker"]),
            ({"comm": "worker,python3"}, ["--comm", "worker,python3"]),
            ({"comm": ["worker"]}, ["--comm", "worker"]),
            ({"pid": os.getpid()}, ["--pid", os.getpid()]),
            ({"tid": [tid, 1]}, ["--tid", f"{tid},1"]),
            ({"cpu": cpu}, ["--cpu", cpu]),
            ({"cpu": "0-1"}, ["--cpu", "0-1"]),
            ({"time": "10%-40%"}, ["--time", "10%-40%"]),
            ({"time": "+0.1,+0.3"}, ["--time", "+0.1,+0.3"]),
            ({"symbol": function}, ["--symbol-filter", function]),
            ({"symbol": f"={function}", "comm": "worker"}, ["--symbol-filter", f"={function}", "--comm", "worker"]),
            ({"dso": module}, ["--dsos", module]),
            ({"focus": function}, ["--focus", function]),
        ]
        for filters, flags in cases:
            with self.subTest(filters=filters):
                theirs = report(BEFORE, *flags)
                self.assertGreater(len(theirs), 0)
                read = pmuscope.read(BEFORE, **filters)
                for ours in (read.functions(), profile.functions(**filters)):
                    self.assertEqual(
                        [(row["function"], row["samples"], row["share"], row["share_low"], row["share_high"]) for row in theirs],
                        [tuple(row) for row in zip(*(ours[name] for name in KEYS))],
                    )
                # All tables are of the same samples.
                samples = sum(row["samples"] for row in theirs)
                self.assertEqual(len(read.samples), samples)
                self.assertEqual(sum(read.stacks()["samples"]), samples)
                self.assertEqual(sum(read.events["samples"]), samples)

    def test_filters_add_up(self):
        both = pmuscope.read(BEFORE, comm="worker", time="0%-50%").functions().to_dicts()
        self.assertEqual(pmuscope.read(BEFORE, comm="worker").functions(time="0%-50%").to_dicts(), both)
        with self.assertRaisesRegex(ValueError, "filtered by comm already"):
            pmuscope.read(BEFORE, comm="worker").functions(comm="python3")

    def test_a_filter_that_leaves_nothing_is_said(self):
        with self.assertWarnsRegex(RuntimeWarning, r'the filter leaves none of \d+ samples: comm="nobody"'):
            self.assertEqual(len(pmuscope.read(BEFORE, comm="nobody").functions()), 0)

    def test_an_event_without_its_modifier(self):
        path = FOLDER / "modified.data"
        with pmuscope.record(path, events="cpu-clock:u", frequency=1000, python=False):
            busy(0.2)
        profile = pmuscope.read(path, event="cpu-clock")
        self.assertEqual(profile.functions("cpu-clock").to_dicts(), profile.functions("cpu-clock:u").to_dicts())


KEYS = ["function", "samples", "share", "share_low", "share_high"]


class Diff(unittest.TestCase):
    """`diff` is the command `diff`."""

    def assert_same(self, ours, *words):
        done = program("diff", "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        theirs = [row for event in json.loads(done.stdout)["events"] for row in event["functions"]]
        self.assertEqual(len(ours), len(theirs))
        self.assertGreater(len(ours), 3)
        for we, they in zip(ours.to_dicts(), theirs):
            self.assertEqual(we["function"], they["function"])
            self.assertEqual((we["comm"], we["module"], we["verdict"]), (they["command"], they["module"], they["share_is"]))
            for our, their in [
                ("share_change", they["share_change"]["value"]),
                ("share_change_low", they["share_change"].get("low")),
                ("before_share", they["before"]["share"]["value"]),
                ("before_share_high", they["before"]["share"].get("high")),
                ("after_samples", they["after"]["samples"]),
                ("total_change", they["total_change"]["value"]),
                ("after_total", they["after"]["total"]),
                ("p", they["p"]),
            ]:
                self.assertEqual(we[our], their, our)
        self.assertEqual(set(ours["total_unit"]), {"s"})

    def test_two_recordings(self):
        self.assert_same(pmuscope.diff(BEFORE, AFTER), BEFORE, AFTER)
        self.assert_same(pmuscope.diff(str(BEFORE), str(AFTER), sort="total"), BEFORE, AFTER, "--sort", "total")

    def test_profiles_keep_their_filters(self):
        flags = [BEFORE, AFTER, "--comm", "worker"]
        worker = [pmuscope.read(path, comm="worker") for path in (BEFORE, AFTER)]
        self.assert_same(pmuscope.diff(*worker), *flags)
        self.assert_same(pmuscope.diff(BEFORE, AFTER, comm="worker"), *flags)
        self.assert_same(pmuscope.diff(pmuscope.read(BEFORE), AFTER, comm="worker"), *flags)

    def test_several_recordings_on_each_side(self):
        ours = pmuscope.diff([BEFORE, AFTER], [pmuscope.read(AFTER), BEFORE])
        self.assert_same(ours, BEFORE, AFTER, "--", AFTER, BEFORE)

    def test_events_that_do_not_meet(self):
        path = FOLDER / "faults.data"
        with pmuscope.record(path, events="page-faults", period=1, python=False):
            bytearray(1 << 24)
        with self.assertRaisesRegex(ValueError, "no event in common: .*page-faults"):
            pmuscope.diff(BEFORE, path)


# What an analyst types, without reading anything but the names that Tab shows.
FIRST_LINES = """
import sys
for name in {missing!r}:
    sys.modules[name] = None  # as if it were not installed
import pmuscope
profile = pmuscope.read({before!r})
functions = profile.functions()
print(functions)
print(functions.head())
print(functions.filter(comm="worker").head(3))
print(functions.groupby("module")["samples"].sum())
print(profile.samples.groupby("comm").size())
print(pmuscope.diff({before!r}, {after!r}).head(3))
for row in functions.head(3).itertuples():
    print(row.function, row.share)
"""

WITH_PANDAS = """
frame = functions.to_pandas()
print(frame.head())
print(frame[frame.comm == "worker"].head(3))
print(frame.groupby("module", observed=True)["samples"].sum().sort_values(ascending=False))
print(frame.dtypes)
"""

WITH_PLOT = """
import matplotlib
matplotlib.use("agg")
functions.head(10).plot.barh(x="function", y="share").figure.savefig({picture!r})
"""

PLOT_ALONE = """
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
top = functions.head(10)
plt.barh([name or "?" for name in top["function"]], top["share"])
plt.savefig({picture!r})
"""


class FirstLines(unittest.TestCase):
    def run_lines(self, lines, missing=()):
        picture = FOLDER / "plot.png"
        picture.unlink(missing_ok=True)
        values = {"before": str(BEFORE), "after": str(AFTER), "picture": str(picture), "missing": list(missing)}
        script = "".join(lines).format(**values)
        done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, cwd=FOLDER)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(picture.exists(), "savefig" in script)
        return done.stdout

    def test_without_any_package(self):
        said = self.run_lines([FIRST_LINES], ["pandas", "pyarrow", "polars", "numpy", "matplotlib"])
        self.assertIn("share_low", said)

    @need("pandas", "pyarrow", "matplotlib")
    def test_with_all(self):
        self.run_lines([FIRST_LINES, WITH_PANDAS, WITH_PLOT])

    @need("pandas", "matplotlib")
    def test_with_pandas_alone(self):
        self.run_lines([FIRST_LINES, WITH_PANDAS, WITH_PLOT], ["pyarrow"])

    @need("matplotlib")
    def test_plot_without_pandas(self):
        self.run_lines([FIRST_LINES, PLOT_ALONE], ["pandas", "pyarrow"])

    def test_a_package_that_is_missing_is_named_with_what_to_type(self):
        for call, name in [("to_pandas()", "pandas"), ("to_polars()", "polars"), ("to_pyarrow()", "pyarrow"), ("plot", "matplotlib")]:
            lines = f"try:\n    functions.{call}\nexcept ImportError as error:\n    print(error, error.name)\n"
            said = self.run_lines([FIRST_LINES, lines], ["pandas", "pyarrow", "polars", "matplotlib"])
            self.assertRegex(said, rf"needs {name}, which is not installed. Try: pip install {name}; .* {name}\n")

    @need("pandas", "pyarrow")
    def test_frames_without_pyarrow_are_those_with_it(self):
        import pandas

        from pmuscope import _tables

        profile = pmuscope.read(BEFORE)
        tables = [profile.samples, profile.functions(), profile.stacks(), profile.frames(), profile.events, profile.losses]
        for table in tables:
            ours = _tables._frame(pandas, table)
            theirs = table.to_pandas()
            self.assertEqual(list(ours.columns), list(theirs.columns))
            for name in theirs.columns:
                with self.subTest(column=name):
                    if table.dtypes[name] == "list":
                        self.assertEqual([list(row) for row in ours[name]], [list(row) for row in theirs[name]])
                    elif table.dtypes[name] == "text":
                        self.assertEqual(list(ours[name].astype(object).fillna("")), list(theirs[name].astype(object).fillna("")))
                    else:
                        pandas.testing.assert_series_equal(ours[name], theirs[name])


if __name__ == "__main__":
    unittest.main()
