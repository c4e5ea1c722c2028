import os
from typing import TYPE_CHECKING, Any, Iterator, Literal, Sequence, TypedDict, final, overload

from ._tables import GroupBy

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from typing_extensions import Unpack

__version__: str

class Error(Exception):
    """What pmuscope cannot do, why, and what to try. `pmuscope.errors` has the kinds, each of which is a builtin exception."""

class Filters(TypedDict, total=False):
    comm: str | list[str] | None
    pid: int | list[int] | None
    tid: int | list[int] | None
    cpu: str | int | list[int] | None
    node: str | int | list[int] | None
    time: str | None
    dso: str | list[str] | None
    symbol: str | list[str] | None
    focus: str | list[str] | None

class EventFilters(Filters, total=False):
    event: str | list[str] | None

@final
class Table:
    """Columns of Arrow. Missing values are null. Iterates over names of columns, as a data frame does."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def __contains__(self, name: object) -> bool: ...
    @overload
    def __getitem__(self, wanted: str) -> list[Any]:
        """A column as a list, some columns as a table, or a slice of rows. Raises KeyError for a column that is not there."""
    @overload
    def __getitem__(self, wanted: list[str] | tuple[str, ...] | slice) -> Table: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
    @property
    def columns(self) -> list[str]: ...
    @property
    def column_names(self) -> list[str]:
        """The same as `columns`, by pyarrow's name."""
    @property
    def dtypes(self) -> dict[str, str]:
        """Types of the columns: numpy's names of numbers, `bool`, `text` or `list`."""
    def dtype(self, name: str) -> str: ...
    @property
    def units(self) -> dict[str, str]:
        """Units of the columns with numbers; columns without a unit are left out."""
    def head(self, n: int = 5) -> Table:
        """The first rows. Columns are shared, as with `tail` and slices."""
    def tail(self, n: int = 5) -> Table: ...
    def take(self, rows: list[int]) -> Table:
        """Rows by their numbers, in the order given."""
    def filter(self, **conditions: Any) -> Table:
        """Rows that meet all conditions.

        A condition is a value, a list of values, None (missing), or a function of the value:
        `functions.filter(comm="python3", share=lambda share: share > 0.01)`. Raises KeyError for a column that is not there,
        TypeError for a value of another type than the column's.
        """
    def sort_values(self, by: str | list[str], ascending: bool = True) -> Table:
        """Rows in the order of columns; missing values come last."""
    def groupby(self, by: str | list[str]) -> GroupBy:
        """Rows with the same values: `functions.groupby("module")["samples"].sum()`."""
    def itertuples(self) -> Iterator[Any]:
        """Rows as named tuples: `row.function`."""
    def to_dicts(self, rows: int | None = None) -> list[dict[str, Any]]:
        """The first rows, all of them by default. Needs no other package."""
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_pandas(self) -> pandas.DataFrame:
        """A data frame. Columns are copied where pyarrow is not installed."""
    def to_polars(self) -> polars.DataFrame: ...
    @property
    def plot(self) -> Any:
        """`pandas.DataFrame.plot`: `functions.head(10).plot.barh(x="function", y="share")`. Takes pandas and matplotlib."""
    def _repr_html_(self) -> str: ...
    def _rows(self) -> list[tuple[Any, ...]]: ...
    def _sums(self, by: list[str], columns: list[str] | None = None) -> Table: ...

@final
class Profile:
    """What a recording holds."""

    @property
    def path(self) -> str | os.PathLike[str]: ...
    @property
    def duration_s(self) -> float | None:
        """Seconds that were recorded; None if the recording does not say it."""
    @property
    def samples(self) -> Table:
        """Every sample, in the order of time. Read at the first use, and kept."""
    @property
    def events(self) -> Table:
        """The events with samples."""
    @property
    def losses(self) -> Table:
        """CPUs that lost records or were throttled; no row if nothing was lost."""
    def functions(self, event: str | None = None, **filters: Unpack[Filters]) -> Table:
        """Functions with their shares and 95% CIs: a row per event, comm and function.

        `filters` are those of `read`, in addition to its own: with them the recording is read anew. Shares and CIs are of the
        samples that are left.
        """
    def stacks(self, event: str | None = None, **filters: Unpack[Filters]) -> Table:
        """Distinct call stacks with their samples. `filters` as of `functions`."""
    def frames(self) -> Table:
        """The frames of these stacks, one a row; depth 0 is the innermost."""

def read(
    path: str | os.PathLike[str],
    *,
    inlined: bool = True,
    lines: bool = True,
    symfs: str | os.PathLike[str] | None = None,
    **filters: Unpack[EventFilters],
) -> Profile:
    """Reads a recording of pmuscope or perf, or a bundle.

    Without `inlined`, inlined functions count as part of the function that holds their code. Without `lines`, stacks are
    distinguished by function only. Binaries are looked for below `symfs` first. `filters` keep samples, with the syntax of the
    command line's flags:

        comm    names of threads: "python3", "a,b", or a list        --comm
        pid     processes: 7, or a list; tid: threads                --pid, --tid
        cpu     CPUs: "0-3,8", 2, or a list; node: NUMA nodes        --cpu, --node
        time    "+1,+2" (seconds from the first sample), "10%-40%"   --time
        event   names of events                                      --event
        dso     binaries and libraries                               --dsos
        symbol  part of a function's name; "=NAME": the whole name   --symbol-filter
        focus   the same, anywhere in the call stack                 --focus

    Raises FileNotFoundError, ValueError (not a recording) and others, all of them an `Error`; warns (RuntimeWarning) if the
    recording was not closed.
    """

def diff(
    before: str | os.PathLike[str] | Profile | Sequence[str | os.PathLike[str] | Profile],
    after: str | os.PathLike[str] | Profile | Sequence[str | os.PathLike[str] | Profile],
    *,
    sort: Literal["share", "total"] = "share",
    inlined: bool = True,
    symfs: str | os.PathLike[str] | None = None,
    **filters: Unpack[EventFilters],
) -> Table:
    """What changed between recordings, as `pmuscope diff` has it: a row per event and function, the largest change first.

    A side is a path, a Profile (with its filters), or a list of them: with several recordings on each side, CIs include the
    variation from run to run. Shares are from 0 to 1, changes are after minus before. `verdict` is more, less or unclear (within
    chance), and missing where chance is not known. Raises Error.
    """

def runs(*paths: str | os.PathLike[str]) -> Table:
    """Every value of every run of run files (`pmuscope stat`, `sweep` or `bench` with `--json`), one a row. Raises Error."""

def compare(
    *paths: str | os.PathLike[str],
    base: str | None = None,
    per: list[str] = [],
    metric: str | None = None,
    alpha: float | None = None,
) -> Table:
    """What differs between run files: a row per metric and pair, with CIs and corrected p-values. Raises Error."""
