"""What tables do in Python: filters, order, groups, and data frames of other packages."""

from __future__ import annotations

import importlib
from collections import namedtuple
from typing import TYPE_CHECKING, Any, Callable, Collection, Iterator, Sequence

from .errors import ArgumentError, PackageError

if TYPE_CHECKING:
    from types import ModuleType

    from ._native import Table


# Rows of which Python has values at once, when they are gone through.
_ROWS_AT_ONCE = 1024


def package(name: str, what: str, instead: str) -> ModuleType:
    """Imports a package that is not required."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise PackageError(
            f"{what} needs {name}, which is not installed. Try: pip install {name}; or without it: {instead}", name=name
        ) from None


def to_pyarrow(table: Table) -> Any:
    return package("pyarrow", "to_pyarrow", "table.to_dicts()").table(table)


def to_polars(table: Table) -> Any:
    return package("polars", "to_polars", "table.to_dicts()").DataFrame(table)


def to_pandas(table: Table) -> Any:
    pandas = package("pandas", "to_pandas", "table.to_dicts()")
    try:
        import pyarrow
    except ModuleNotFoundError:
        return _frame(pandas, table)
    return pyarrow.table(table).to_pandas()


def _frame(pandas: ModuleType, table: Table) -> Any:
    """A data frame without pyarrow."""
    columns = {name: _series(pandas, table, name) for name in table.columns}
    return pandas.DataFrame(columns, columns=table.columns)


def _series(pandas: ModuleType, table: Table, name: str) -> Any:
    """A column with the type that pyarrow would give it."""
    values, kind = table[name], table.dtypes[name]
    if kind == "text":
        return pandas.Categorical(values)
    if kind in ("list", "bool"):
        return pandas.Series(values, dtype="bool" if kind == "bool" and None not in values else "object")
    return pandas.Series(values, dtype="float64" if None in values else kind)


def plot(table: Table) -> Any:
    package("matplotlib", "plot", "the columns as lists, for any other library: table[name]")
    package("pandas", "plot", "matplotlib.pyplot.barh(table[name], table[name])")
    return to_pandas(table).plot


def filtered(table: Table, conditions: dict[str, Any]) -> Table:
    if not conditions:
        raise ArgumentError('filter needs a column. Try: table.filter(comm="python3")')
    tests = []
    for name, condition in conditions.items():
        test = _test(table, name, condition)
        tests.append([test(value) for value in table[name]])
    return table.take([row for row, results in enumerate(zip(*tests)) if all(results)])


def _test(table: Table, name: str, condition: Any) -> Callable[[Any], Any]:
    """Whether a value meets the condition. Raises ColumnError and TypeError."""
    kind = table.dtype(name)
    if callable(condition):
        return lambda value: value is not None and condition(value)
    if condition is None:
        return lambda value: value is None
    if isinstance(condition, (str, bytes)) or not isinstance(condition, Collection):
        return _wanted(name, kind, [condition]).__contains__
    return _wanted(name, kind, list(condition)).__contains__


def _wanted(name: str, kind: str, values: list[Any]) -> list[Any]:
    for value in values:
        fits = {"text": isinstance(value, str), "list": isinstance(value, list), "bool": isinstance(value, bool)}
        is_number = hasattr(value, "__float__") and not isinstance(value, str)
        if value is not None and not fits.get(kind, is_number):
            raise TypeError(f"column {name} holds {_WORDS.get(kind, 'numbers')}, and the filter has {value!r}")
    return values


_WORDS = {"text": "text", "list": "lists", "bool": "True and False"}


def ordered(table: Table, by: str | list[str], ascending: bool) -> Table:
    names = [by] if isinstance(by, str) else list(by)
    columns = [table[name] for name in names]
    rows: Sequence[int] = range(len(table))
    # Missing values come last in either order.
    for column in reversed(columns):
        known = sorted((row for row in rows if column[row] is not None), key=column.__getitem__, reverse=not ascending)
        rows = [*known, *(row for row in rows if column[row] is None)]
    return table.take(list(rows))


def rows(table: Table) -> Iterator[Any]:
    """Rows as named tuples; a name that Python does not take becomes the column's number, as in `_3`."""
    row = namedtuple("Row", table.columns, rename=True)  # type: ignore[misc]
    for start in range(0, len(table), _ROWS_AT_ONCE):
        for values in table[start : start + _ROWS_AT_ONCE]._rows():
            yield row._make(values)


def grouped(table: Table, by: str | list[str]) -> GroupBy:
    names = [by] if isinstance(by, str) else list(by)
    if not names:
        raise ArgumentError('groupby needs a column. Try: table.groupby("comm")')
    for name in names:
        table.dtype(name)
    return GroupBy(table, names)


class GroupBy:
    """Rows of a table with the same values in some columns."""

    def __init__(self, table: Table, by: list[str], columns: list[str] | None = None) -> None:
        self._table, self._by, self._columns = table, by, columns

    def __getitem__(self, columns: str | list[str]) -> GroupBy:
        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            self._table.dtype(name)
        return GroupBy(self._table, self._by, names)

    def sum(self) -> Table:
        """Sums of the selected columns, or of all columns whose sums mean something, the largest first."""
        return self._table._sums(self._by, self._columns)

    def size(self) -> Table:
        """Numbers of rows, the largest first."""
        return self._table._sums(self._by, [])

    def __repr__(self) -> str:
        return f"<pmuscope.GroupBy {', '.join(self._by)}: .sum(), .size()>"
