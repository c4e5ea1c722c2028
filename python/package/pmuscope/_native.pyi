import os
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__version__: str

class Error(Exception):
    """What pmuscope cannot do, why, and what to try."""

@final
class Table:
    """Columns of Arrow. Missing values are null."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> list[Any]:
        """A column as a list. Raises KeyError for a name that is not in `column_names`."""
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    @property
    def units(self) -> dict[str, str]:
        """What the numbers of each column are counted in; columns without a unit are left out."""
    def to_dicts(self, rows: int | None = None) -> list[dict[str, Any]]:
        """The first rows, all of them by default. Needs no other package."""
    def to_pyarrow(self) -> pyarrow.Table: ...
    def to_pandas(self) -> pandas.DataFrame:
        """A data frame, by pyarrow."""
    def to_polars(self) -> polars.DataFrame: ...

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
    def functions(self, event: str | None = None) -> Table:
        """Functions with their shares and 95% CIs: a row per event, comm and function."""
    def stacks(self, event: str | None = None) -> Table:
        """Distinct call stacks with their samples."""
    def frames(self) -> Table:
        """The frames of these stacks, one a row; depth 0 is the innermost."""

def read(
    path: str | os.PathLike[str],
    *,
    inlined: bool = True,
    lines: bool = True,
    symfs: str | os.PathLike[str] | None = None,
) -> Profile:
    """Reads a recording of pmuscope or perf, or a bundle.

    Without `inlined`, inlined functions count as part of the function that holds their code. Without `lines`, stacks are
    told apart by function only. Binaries are looked for below `symfs` first. Raises Error.
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
