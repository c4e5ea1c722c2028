"""Profiles, runs and comparisons of pmuscope as Arrow tables.

    import pmuscope

    profile = pmuscope.read("perf.data")     # of pmuscope record or perf record
    functions = profile.functions()          # a table: shares with 95% CIs
    functions.head(10)
    functions.filter(comm="python3")
    functions.groupby("module").sum()
    functions.to_pandas()                    # or polars.DataFrame(...), pyarrow.table(...), DuckDB
    profile.functions(time="10%-40%")        # of a part of the samples
    profile.samples                          # every sample
    pmuscope.diff("before.data", "after.data")
    pmuscope.runs("before.json", "after.json")
    pmuscope.compare("before.json", "after.json")

    with pmuscope.record() as recording:     # this process
        work()
    recording.profile.functions()

Tables implement the Arrow PyCapsule interface; none of the packages above is required. `pmuscope.regions` counts events
around parts of a program. What was not measured is null.
"""

from . import errors
from ._native import Error, Profile, Table, __version__, compare, diff, read, runs
from ._record import Recording, record

__all__ = [
    "Error",
    "Profile",
    "Recording",
    "Table",
    "__version__",
    "compare",
    "diff",
    "errors",
    "read",
    "record",
    "runs",
]
