"""What beginners get wrong: each is the builtin exception that fits, and an `Error`, whose message says what to type."""

import os
import pathlib
import pickle
import subprocess
import tempfile
import time
import unittest

import pmuscope
from common import busy, program
from pmuscope import _program


def setUpModule():
    global FOLDER, GOOD
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    FOLDER = pathlib.Path(folder.name)
    GOOD = FOLDER / "good.data"
    with pmuscope.record(GOOD, frequency=1000, python=False):
        busy(0.3)


class Mistakes(unittest.TestCase):
    def fails(self, builtin, message, call, own=True):
        with self.assertRaisesRegex(builtin, message) as caught:
            call()
        if own:
            self.assertIsInstance(caught.exception, pmuscope.Error)
            self.assertIn(type(caught.exception).__module__, ("pmuscope", "pmuscope.errors"))
            self.assertNotIn("os error", str(caught.exception))
        return caught.exception


class Files(Mistakes):
    def test_a_file_that_is_missing(self):
        for call in (pmuscope.read, pmuscope.runs, lambda path: pmuscope.diff(GOOD, path)):
            error = self.fails(FileNotFoundError, "/no/such/file: No such file", lambda: call("/no/such/file"))
            self.assertEqual((error.errno, str(error.filename)), (2, "/no/such/file"))
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_a_folder(self):
        self.fails(IsADirectoryError, "is a directory", lambda: pmuscope.read(FOLDER))

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_a_file_of_another_user(self):
        path = FOLDER / "secret.data"
        path.write_bytes(b"")
        path.chmod(0)
        self.fails(PermissionError, "Permission denied", lambda: pmuscope.read(path))

    def test_a_file_that_is_no_recording(self):
        self.fails(ValueError, "is not a perf.data file: it starts with", lambda: pmuscope.read(__file__))
        csv = FOLDER / "table.csv"
        csv.write_text("a,b\n1,2\n")
        self.fails(ValueError, "is not a perf.data file", lambda: pmuscope.read(csv))
        self.fails(ValueError, "is not a run file", lambda: pmuscope.runs(csv))

    def test_an_empty_file(self):
        path = FOLDER / "empty.data"
        path.touch()
        self.fails(ValueError, "it is empty", lambda: pmuscope.read(path))

    def test_a_recording_for_the_other_function(self):
        self.fails(ValueError, "is a recording, not a run file. Try: pmuscope.diff", lambda: pmuscope.compare(GOOD, GOOD))
        path = FOLDER / "runs.json"
        done = program("stat", "-e", "task-clock", f"--json={path}", "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.fails(ValueError, "pmuscope.compare", lambda: pmuscope.read(path))

    def test_a_path_of_another_type(self):
        self.fails(TypeError, "os.PathLike", lambda: pmuscope.read(3.5), own=False)
        self.fails(TypeError, "os.PathLike", lambda: pmuscope.read(None), own=False)
        self.fails(TypeError, "paths, profiles, or lists of them, and not 3", lambda: pmuscope.diff(3, GOOD), own=False)

    def test_a_recording_without_samples(self):
        path = FOLDER / "idle.data"
        with pmuscope.record(path, events="alignment-faults", period=1, python=False):
            pass
        profile = pmuscope.read(path)
        self.assertIn("no samples", repr(profile).replace(": 0 samples", ": no samples"))
        with self.assertWarnsRegex(RuntimeWarning, "has no samples. Try:"):
            self.assertEqual(len(profile.functions()), 0)
        with self.assertWarnsRegex(RuntimeWarning, "has no samples. Try:"):
            self.assertEqual(len(profile.samples), 0)

    def test_a_recording_that_is_still_written(self):
        path = FOLDER / "growing.data"
        recorder = subprocess.Popen(
            [_program.find(), "record", "-F", "2000", "-o", str(path), "--", "sh", "-c", "while :; do :; done"],
            stderr=subprocess.DEVNULL,
        )
        try:
            end = time.monotonic() + 30
            while not path.exists() or path.stat().st_size < 100_000:
                self.assertLess(time.monotonic(), end, "nothing was written")
                time.sleep(0.1)
            with self.assertWarnsRegex(RuntimeWarning, "still being recorded, or its recorder was killed"):
                profile = pmuscope.read(path)
            samples = sum(profile.functions()["samples"])
            self.assertGreater(samples, 0)
            # It grows meanwhile; a table that was made stays.
            self.assertEqual(sum(profile.functions()["samples"]), samples)
        finally:
            recorder.terminate()
            recorder.wait()

    def test_a_recording_that_is_cut_off(self):
        path = FOLDER / "cut.data"
        path.write_bytes(GOOD.read_bytes()[:-200])
        self.fails(ValueError, "the file may be truncated", lambda: pmuscope.read(path))


class Tables(Mistakes):
    @classmethod
    def setUpClass(cls):
        cls.functions = pmuscope.read(GOOD).functions()

    def test_a_column_that_is_not_there(self):
        functions = self.functions
        for call in (
            lambda: functions["shares"],
            lambda: functions[["function", "shares"]],
            lambda: functions.filter(shares=1),
            lambda: functions.sort_values("shares"),
            lambda: functions.groupby("shares"),
            lambda: functions.groupby("comm")["shares"],
            lambda: functions.dtype("shares"),
        ):
            # Without the quotes and escapes that a KeyError has.
            error = self.fails(KeyError, "^no column \"shares\"; there are event, comm", call)
            self.assertFalse(str(error).startswith(("'", '"no')))

    def test_a_row_where_a_column_is_meant(self):
        self.fails(TypeError, r"and not 0. Try: table.filter\(...\)", lambda: self.functions[0], own=False)
        self.fails(TypeError, r"Try: table.filter", lambda: self.functions[[True, False]], own=False)

    def test_a_filter_of_another_type_than_the_column(self):
        self.fails(TypeError, "column share holds numbers, and the filter has 'large'", lambda: self.functions.filter(share="large"), own=False)
        self.fails(TypeError, "column comm holds text, and the filter has 7", lambda: self.functions.filter(comm=7), own=False)
        self.fails(ValueError, "filter needs a column. Try:", lambda: self.functions.filter())

    def test_sums_that_mean_nothing(self):
        self.fails(ValueError, 'the sum of column "share_low" means nothing', lambda: self.functions.groupby("comm")["share_low"].sum())

    def test_a_row_that_is_not_there(self):
        self.fails(IndexError, "no row 9999999; there are", lambda: self.functions.take([9_999_999]))

    def test_numbers_of_rows(self):
        self.fails(TypeError, "'str' object", lambda: self.functions.head("ten"), own=False)
        # As in pandas: all but the last.
        self.assertEqual(self.functions.head(-1).to_dicts(), self.functions.to_dicts()[:-1])
        self.assertEqual(self.functions.tail(-2).to_dicts(), self.functions.to_dicts()[2:])


class Filters(Mistakes):
    def test_wrong_types(self):
        for filters, message in [
            ({"comm": 7}, 'comm is a text or a list of texts, and not 7. Try: comm="main"'),
            ({"pid": "7"}, "pid is a number or a list of numbers, and not '7'. Try: pid=1234"),
            ({"pid": -1}, "pid is a number"),
            ({"pid": [1, "2"]}, "pid is a number"),
            ({"pid": True}, "pid is a number"),
            ({"time": (1, 2)}, r'time is a text of times in seconds or percent, and not \(1, 2\). Try: time="\+1,\+2"'),
            ({"symbol": b"main"}, "symbol is a text"),
            ({"cpu": 1.5}, "cpu is a number, a list of numbers, or a text"),
            ({"coom": "x"}, 'no filter "coom"; there are comm, pid'),
        ]:
            with self.subTest(filters=filters):
                self.fails(TypeError, message, lambda: pmuscope.read(GOOD, **filters), own=False)
                self.fails(TypeError, message, lambda: pmuscope.read(GOOD).functions(**filters), own=False)
                self.fails(TypeError, message, lambda: pmuscope.diff(GOOD, GOOD, **filters), own=False)

    def test_wrong_values(self):
        for filters, message in [
            ({"time": "yesterday"}, 'time "yesterday": use START,STOP in seconds'),
            ({"time": "40%-10%"}, "use parts of the recording"),
            ({"cpu": "3-1"}, 'cpu "3-1": .* Try: cpu="0-3,8"'),
            ({"node": 7}, "no node 7|does not record which CPUs are on which NUMA node. Try: cpu="),
            ({"event": "nothing"}, 'no event "nothing"; it has '),
        ]:
            with self.subTest(filters=filters):
                error = self.fails(ValueError, message, lambda: pmuscope.read(GOOD, **filters))
                self.assertNotIn("--", str(error))

    def test_an_event_that_is_not_there(self):
        self.fails(ValueError, 'no samples of event "x"; it has ', lambda: pmuscope.read(GOOD).functions("x"))

    def test_a_folder_of_binaries_that_is_not_there(self):
        self.fails(FileNotFoundError, "symfs /no/such: there is no such folder", lambda: pmuscope.read(GOOD, symfs="/no/such"))

    def test_an_order_that_is_not_there(self):
        self.fails(ValueError, 'no order "size". Try: sort="share"', lambda: pmuscope.diff(GOOD, GOOD, sort="size"))
        self.fails(ValueError, "diff needs a recording or more on each side; got 0 and 1", lambda: pmuscope.diff([], GOOD))


class Record(Mistakes):
    def test_wrong_arguments(self):
        self.fails(TypeError, "frequency is a whole number, and not 'fast'", lambda: pmuscope.record(frequency="fast"), own=False)
        self.fails(TypeError, "call_graph is a text", lambda: pmuscope.record(call_graph=True), own=False)
        self.fails(TypeError, r"args is a list of flags. Try: args=\['-m', '4'\]", lambda: pmuscope.record(args="-m 4"), own=False)

    def start(self, **arguments):
        with pmuscope.record(python=False, **arguments):
            self.fail("it began")

    def test_what_the_recorder_refuses(self):
        self.fails(ValueError, "no-such-event", lambda: self.start(events="no-such-event"))
        self.fails(ValueError, "wide", lambda: self.start(call_graph="wide"))

    def test_a_folder_that_is_not_there(self):
        self.fails(FileNotFoundError, "there is no folder /no/such", lambda: self.start(path="/no/such/file.data"))

    def test_lost_samples_are_a_warning_and_the_rest_is_there(self):
        with self.assertWarnsRegex(RuntimeWarning, "were lost because a ring buffer was full. Try: a lower rate"):
            with pmuscope.record(python=False, frequency=20_000, call_graph="dwarf,65528", args=["-m", "16"]) as recording:
                busy(0.5)
        self.assertGreater(sum(recording.profile.events["lost"]), 0)

    def test_too_early_and_twice(self):
        with pmuscope.record(frequency=1000, python=False) as recording:
            self.fails(RuntimeError, "after the with block", lambda: recording.profile)
        self.fails(RuntimeError, "made once", recording.__enter__)


if __name__ == "__main__":
    unittest.main()
