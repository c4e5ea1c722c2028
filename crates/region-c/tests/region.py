"""The module itself: nesting, threads, units, errors, a fork, sets in turns."""

import os
import sys
import time

import pmuscope_region as pmu


def fails(kind, part, call):
    try:
        call()
    except pmu.Error as error:
        assert error.kind == kind and part in str(error), (error.kind, str(error))
    else:
        raise AssertionError(f"{call} did not fail")


def rows(report, name):
    found = next(region for region in report["regions"] if region["name"] == name)
    return found, {row["event"]: row for row in found["rows"]}


def wait():
    time.sleep(0.0002)


def main():
    available, why = pmu.is_available()
    assert available == (why is None)
    fails("misuse", "setup", lambda: pmu.region("early"))
    fails("event", "tusk-clock", lambda: pmu.setup(["tusk-clock"]))
    fails("event", "no event", lambda: pmu.setup([]))
    if not available:
        fails("unavailable", "cycles:u", lambda: pmu.setup("cycles:u"))

    counters = pmu.setup(["context-switches", "task-clock"])
    for number in range(10):
        with pmu.region("outer") as outer, pmu.region("inner") as inner:
            wait()
            outer.did(1)
            inner.did(number)
    with pmu.region("again"), pmu.region("again"):
        wait()
    report = counters.report({"piece": None, "batch": 5})
    assert report["schema"] == "pmuscope/region/1" and report["threads"] == 1
    outer, events = rows(report, "outer")
    assert (outer["entries"], outer["inner"]) == (10, 10)
    assert [unit["amount"] for unit in outer["units"]] == [10, 5]
    assert events["context-switches"]["total"] >= 10
    inner, events = rows(report, "inner")
    assert inner["units"][0]["amount"] == 45
    assert events["task-clock"]["per_unit"][0]["value"] > 0
    assert rows(report, "again")[0]["entries"] == 1

    # An exception leaves the region, and comes through.
    try:
        with pmu.region("fails"):
            raise KeyError("own")
    except KeyError:
        pass
    with pmu.region("open"):
        fails("open", "are open", pmu.switch_off)
    assert rows(counters.report(), "fails")[0]["entries"] == 1

    other = pmu.CounterSet(["page-faults"])
    with other.region("other"):
        pass
    counters.switch_to()
    with counters.region("outer"):
        pass
    assert rows(counters.report(), "outer")[0]["entries"] == 11
    assert rows(other.report(), "other")[0]["entries"] == 1

    result, report = pmu.measure(lambda: 42, ["task-clock"])
    assert result == 42 and rows(report, "measure")[0]["entries"] == 1

    child = os.fork()
    if child == 0:
        with counters.region("child"):
            pass
        own = pmu.setup(["context-switches"])
        with pmu.region("own"):
            wait()
        good = rows(own.report(), "own")[0]["entries"] == 1
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert "child" not in [region["name"] for region in counters.report()["regions"]]
    print("all well")


main()
sys.stdout.flush()
