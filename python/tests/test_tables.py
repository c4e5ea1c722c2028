"""The installed package: tables of recordings and run files, as pandas, polars, pyarrow and DuckDB take them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import pmuscope
from pmuscope import _program

from common import ROOT, busy, need, program


class Recorded(unittest.TestCase):
    """One recording of this process for all tests of tables."""

    @classmethod
    def setUpClass(cls):
        with pmuscope.record(frequency=2000, call_graph="fp", python=False) as cls.recording:
            busy(1.0)
        cls.profile = cls.recording.profile

    def test_samples_are_in_the_order_of_time_and_of_this_process(self):
        samples = self.profile.samples
        self.assertGreater(len(samples), 20)
        times = samples["time"]
        self.assertEqual(times, sorted(times))
        self.assertEqual(set(samples["pid"]), {os.getpid()})
        self.assertEqual(samples.units["time"], "ns")

    def test_sums_agree_between_tables(self):
        samples, events = len(self.profile.samples), sum(self.profile.events["samples"])
        self.assertEqual(samples, events)
        self.assertEqual(samples, sum(self.profile.functions()["samples"]))
        self.assertEqual(samples, sum(self.profile.stacks()["samples"]))
        self.assertAlmostEqual(sum(self.profile.functions()["share"]), 1.0)
        self.assertAlmostEqual(sum(self.profile.stacks()["share"]), 1.0)

    def test_stack_ids_are_those_of_stacks_and_frames(self):
        of_samples = set(self.profile.samples["stack_id"])
        self.assertEqual(of_samples, set(self.profile.stacks()["stack_id"]))
        self.assertEqual(of_samples, set(self.profile.frames()["stack_id"]))
        for row in self.profile.stacks().to_dicts(20):
            self.assertEqual(len(row["functions"]), row["depth"])
            self.assertEqual(row["functions"][-1], row["function"])

    def test_intervals_hold_the_share(self):
        for row in self.profile.functions().to_dicts():
            if row["share_low"] is not None:
                self.assertLessEqual(row["share_low"], row["share"])
                self.assertLessEqual(row["share"], row["share_high"])

    def test_nothing_lost_is_no_row(self):
        lost = sum(row["lost"] for row in self.profile.losses.to_dicts())
        self.assertEqual(lost == 0, len(self.profile.losses) == 0 or lost == 0)

    def test_the_program_says_the_same(self):
        report = program("report", "-i", self.recording.path, "--json")
        self.assertEqual(report.returncode, 0, report.stderr)
        theirs = json.loads(report.stdout)["events"][0]["functions"]
        ours = self.profile.functions().to_dicts()
        self.assertEqual(len(theirs), len(ours))
        for they, we in zip(theirs, ours):
            self.assertEqual((they["function"], they["samples"]), (we["function"], we["samples"]))
            self.assertAlmostEqual(they["share"], we["share"])
            self.assertEqual(they["share_low"] is None, we["share_low"] is None)

    def test_an_event_that_is_not_there(self):
        with self.assertRaisesRegex(pmuscope.Error, "no samples of event 'x'|no samples of event \"x\""):
            self.profile.functions("x")

    def test_a_column_that_is_not_there(self):
        with self.assertRaisesRegex(KeyError, "no column"):
            self.profile.events["x"]

    def test_repr_shows_rows(self):
        self.assertIn("share_low", repr(self.profile.functions()))
        self.assertIn("samples", repr(self.profile))

    @need("pyarrow")
    def test_pyarrow_takes_it_without_copies(self):
        import pyarrow

        table = pyarrow.table(self.profile.samples)
        self.assertEqual(table.column_names, self.profile.samples.column_names)
        self.assertTrue(pyarrow.types.is_dictionary(table.schema.field("function").type))
        # The same memory, however often it is asked for.
        first = [column.chunk(0).buffers()[-1].address for column in table.select(["time", "ip"]).columns]
        again = pyarrow.table(self.profile.samples).select(["time", "ip"])
        self.assertEqual(first, [column.chunk(0).buffers()[-1].address for column in again.columns])
        table.validate(full=True)
        pyarrow.table(self.profile.stacks()).validate(full=True)
        self.assertEqual(pyarrow.schema(self.profile.frames()).names, self.profile.frames().column_names)

    @need("pandas", "pyarrow")
    def test_pandas_takes_it(self):
        for table in self.tables():
            frame = table.to_pandas()
            self.assertEqual(list(frame.columns), table.column_names)
            self.assertEqual(len(frame), len(table))

    @need("polars")
    def test_polars_takes_it(self):
        import polars

        for table in self.tables():
            frame = polars.DataFrame(table)
            self.assertEqual(frame.columns, table.column_names)
            self.assertEqual(frame.height, len(table))

    @need("duckdb", "pyarrow")
    def test_duckdb_takes_it(self):
        import duckdb

        for one in self.tables():
            rows = duckdb.sql("SELECT count(*) FROM one").fetchall()[0][0]
            self.assertEqual(rows, len(one))
        samples = self.profile.samples
        query = "SELECT function, count(*) AS n FROM samples GROUP BY function ORDER BY n DESC"
        self.assertEqual(sum(n for _, n in duckdb.sql(query).fetchall()), len(samples))

    def tables(self):
        profile = self.profile
        return [profile.samples, profile.functions(), profile.stacks(), profile.frames(), profile.events, profile.losses]


class Recordings(unittest.TestCase):
    def test_other_threads_are_recorded_and_run_while_a_file_is_read(self):
        thread = threading.Thread(target=busy, args=(0.5,))
        with pmuscope.record(frequency=1000) as recording:
            thread.start()
            thread.join()
        self.assertGreater(len(set(recording.profile.samples["tid"])), 0)
        self.assertIn(thread.native_id, recording.profile.samples["tid"])

    def test_a_file_of_ones_own_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "own.data"
            with pmuscope.record(path, frequency=1000) as recording:
                busy(0.2)
            self.assertEqual(pmuscope.read(path).events.to_dicts(), recording.profile.events.to_dicts())

    def test_a_temporary_file_goes_with_its_recording(self):
        with pmuscope.record(frequency=1000) as recording:
            busy(0.1)
        path, profile = recording.path, recording.profile
        samples = sum(profile.events["samples"])
        del recording
        self.assertFalse(os.path.exists(path))
        # It was opened once.
        self.assertEqual(len(profile.samples), samples)

    def test_an_error_in_the_block_is_what_is_raised(self):
        with self.assertRaises(ZeroDivisionError):
            with pmuscope.record(frequency=1000) as recording:
                busy(0.1)
                1 / 0
        self.assertGreater(len(recording.profile.samples), 0)

    def test_what_cannot_be_recorded_is_an_error_with_the_programs_words(self):
        with self.assertRaisesRegex(pmuscope.Error, "no-such-event"):
            with pmuscope.record(events="no-such-event"):
                self.fail("it began")

    def test_a_recorder_that_ends_before_it_is_asked_to_begin_is_the_same_error(self):
        write = os.write

        def late(file, data):
            time.sleep(1)
            return write(file, data)

        with mock.patch("os.write", late):
            with self.assertRaisesRegex(pmuscope.Error, "no-such-event"):
                with pmuscope.record(events="no-such-event"):
                    self.fail("it began")

    def test_a_process_can_be_recorded_again_and_again(self):
        script = "import pmuscope\nfor _ in range(10):\n    with pmuscope.record(frequency=100): sum(range(1000))"
        ran = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)

    def test_a_profile_is_there_after_the_block(self):
        with pmuscope.record(frequency=1000) as recording:
            with self.assertRaisesRegex(pmuscope.Error, "after the with block"):
                recording.profile
        with self.assertRaisesRegex(pmuscope.Error, "made once"):
            recording.__enter__()



class RunFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.files = []
        for name, numbers in [("a", 100_000), ("b", 300_000)]:
            file = pathlib.Path(folder.name) / f"{name}.json"
            code = f"sum(i * i for i in range({numbers}))"
            words = ["stat", "-e", "task-clock,page-faults", "-r", "6", f"--json={file}", "--", sys.executable, "-c", code]
            done = program(*words)
            assert done.returncode == 0, done.stderr
            cls.files.append(file)

    def test_runs_are_one_row_for_each_value(self):
        rows = pmuscope.runs(*self.files).to_dicts()
        clock = [row for row in rows if row["metric"] == "task-clock"]
        self.assertEqual(len(clock), 12)
        self.assertTrue(all(row["usable"] and row["value"] > 0 for row in clock))
        self.assertEqual({row["file"] for row in rows}, {str(file) for file in self.files})

    def test_compare_says_what_the_program_says(self):
        ours = {row["metric"]: row for row in pmuscope.compare(*self.files).to_dicts()}
        theirs = program("compare", *map(str, self.files), "--json")
        for row in json.loads(theirs.stdout)["rows"]:
            pair = row["pairs"][0]
            self.assertEqual(pair["verdict"], ours[row["metric"]]["verdict"])
            if pair["ratio"]:
                self.assertAlmostEqual(pair["ratio"]["value"], ours[row["metric"]]["ratio"])
        self.assertGreater(ours["task-clock"]["base_mean"], 0)

    def test_what_cannot_be_compared(self):
        with self.assertRaisesRegex(pmuscope.Error, "no column is called"):
            pmuscope.compare(*self.files, base="c.json")
        with self.assertRaisesRegex(pmuscope.Error, "unit of work"):
            pmuscope.compare(*self.files, per=["packet"])
        with self.assertRaises(pmuscope.Error):
            pmuscope.runs(__file__)


class Regions(unittest.TestCase):
    def test_the_library_came_along(self):
        from pmuscope import regions

        counters = regions.setup(["task-clock"])
        with regions.region("work") as entry:
            busy(0.05)
            entry.did(3)
        report = counters.report({"row": None})
        self.assertEqual(report["schema"], "pmuscope/region/1")


class R(unittest.TestCase):
    """What docs/python.md has for R."""

    @unittest.skipUnless(shutil.which("Rscript"), "Rscript is not installed")
    def test_the_recipe_for_csv_runs(self):
        blocks = (ROOT / "docs/python.md").read_text().split("```r\n")[1:]
        recipe = blocks[0].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            with pmuscope.record(os.path.join(folder, "perf.data"), frequency=1000):
                busy(0.5)
            path = os.path.dirname(_program.find()) + ":" + os.environ["PATH"]
            done = subprocess.run(
                ["Rscript", "-"], input=recipe, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("share_low", done.stdout)


class Names(unittest.TestCase):
    """Functions of Python have names where Python gives them code: by perf maps since 3.12, by jitdumps since 3.13."""

    # Many calls: where Python was built without frame pointers, a function has samples only while its own code runs.
    SOURCE = """
import time

def leaf_in_python():
    return 1

def name_in_python(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(1000):
            leaf_in_python()

name_in_python(3.0)
"""

    def assert_named(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "python.data")
            words = ["record", "-F", "8000", "-g", "-o", path, "--", sys.executable, *flags, "-c", self.SOURCE]
            done = program(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            names = {name for name in pmuscope.read(path).frames()["function"] if name}
        found = [name for name in names if name.startswith(("py::leaf_in_python", "py::name_in_python"))]
        self.assertTrue(found, sorted(name for name in names if name.startswith("py::")))

    @unittest.skipUnless(sys.version_info >= (3, 12), "perf maps are made by Python 3.12 and later")
    def test_by_a_perf_map(self):
        self.assert_named("-X", "perf")

    @unittest.skipUnless(sys.version_info >= (3, 13), "jitdumps are made by Python 3.13 and later")
    def test_by_a_jitdump(self):
        self.assert_named("-X", "perf_jit")

    @unittest.skipUnless(hasattr(sys, "activate_stack_trampoline"), "Python gives its functions code since 3.12")
    def test_record_turns_it_on(self):
        # In a process of its own: no test before it has turned it on.
        script = (
            "import sys, pmuscope\n"
            "active = [sys.is_stack_trampoline_active()]\n"
            "with pmuscope.record(frequency=1000):\n"
            "    active.append(sys.is_stack_trampoline_active())\n"
            "print(active + [sys.is_stack_trampoline_active()])"
        )
        said = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True).stdout
        stays_on = sys.version_info >= (3, 14)
        self.assertEqual(said.strip(), str([False, True, stays_on]))


class Callers(unittest.TestCase):
    """By default, `record` gives Python functions names and callers, or a warning says why there are none."""

    SOURCE = """
import json, time, warnings
import pmuscope

def leaf_in_python(numbers):
    return sum([number * number for number in range(numbers)])

def caller_in_python(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        leaf_in_python(2000)

def recursion(depth, seconds):
    return recursion(depth - 1, seconds) if depth else caller_in_python(seconds)

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with pmuscope.record(%s) as recording:
        recursion(20, 0.7)
stacks = [[row["samples"], [name or "" for name in row["functions"]]] for row in recording.profile.stacks().to_dicts()]
print(json.dumps({"stacks": stacks, "warnings": [[str(one.message), one.filename, one.lineno] for one in caught]}))
"""

    def recorded(self, arguments=""):
        script = self.SOURCE % arguments
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @unittest.skipUnless(hasattr(sys, "activate_stack_trampoline"), "Python gives its functions code since 3.12")
    def test_functions_have_names_and_callers(self):
        found = self.recorded()
        self.assertEqual(found["warnings"], [])
        all_samples = sum(samples for samples, _ in found["stacks"])

        def share(*wanted):
            """Samples with these functions among their callers, outermost first."""
            total = 0
            for samples, names in found["stacks"]:
                names = [name.split(":")[2] for name in names if name.startswith("py::")]
                remaining = iter(names)
                total += samples if all(name in remaining for name in wanted) else 0
            return total / all_samples

        self.assertGreater(all_samples, 30)
        self.assertGreater(share("caller_in_python", "leaf_in_python"), 0.9)
        self.assertGreater(share(*["recursion"] * 21, "caller_in_python", "leaf_in_python"), 0.9)

    @unittest.skipIf(hasattr(sys, "activate_stack_trampoline"), "this Python gives its functions code")
    def test_a_python_without_support_is_named_in_a_warning(self):
        [(message, file, line)] = self.recorded()["warnings"]
        self.assertRegex(message, r"no names of Python functions: CPython 3\.\d+ .* Try: CPython 3.12 or later")
        # The line of the with statement.
        self.assertEqual((file, self.SOURCE.splitlines()[line - 1].strip()[:4]), ("<string>", "with"))
        self.assertEqual(self.recorded("python=False")["warnings"], [])

    @unittest.skipUnless(hasattr(sys, "activate_stack_trampoline"), "Python gives its functions code since 3.12")
    def test_frame_pointers_that_python_does_not_keep_are_named_in_a_warning(self):
        from pmuscope import _record

        warned = [message for message, _, _ in self.recorded('call_graph="fp"')["warnings"]]
        expected = [] if _record._has_frame_pointers() else [1]
        self.assertEqual(len(warned), len(expected), warned)
        self.assertTrue(all("built without frame pointers" in message for message in warned))


if __name__ == "__main__":
    unittest.main()
