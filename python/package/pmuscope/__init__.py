"""Profiles, runs and comparisons of pmuscope as Arrow tables.

    import pmuscope

    profile = pmuscope.read("perf.data")     # of pmuscope record or perf record
    profile.functions().to_pandas()          # or polars.DataFrame(...), pyarrow.table(...), DuckDB
    profile.samples                          # every sample
    pmuscope.runs("before.json", "after.json")
    pmuscope.compare("before.json", "after.json")

    with pmuscope.record() as recording:     # this process
        work()
    recording.profile.functions()

Tables implement the Arrow PyCapsule interface; none of the packages above is required. `pmuscope.regions` counts events
around parts of a program. What was not measured is null.
"""

from ._native import Error, Profile, Table, __version__, compare, read, runs
from ._record import Recording, record

__all__ = [
    "Error",
    "Profile",
    "Recording",
    "Table",
    "__version__",
    "compare",
    "read",
    "record",
    "runs",
]
