"""Exceptions of pmuscope. Each is an `Error`, and the builtin exception that fits.

    MissingFileError      FileNotFoundError       no file at the path
    FilePermissionError   PermissionError         no right to read it
    FolderError           IsADirectoryError       a folder that is no recording
    FileError             OSError                 other failures of reading
    FormatError           ValueError              not a recording or run file, or damaged
    ArgumentError         ValueError              an argument that does not fit the file
    ColumnError           KeyError                no such column
    RowError              IndexError              no such row
    StateError            RuntimeError            called too early, or twice
    RecorderError         RuntimeError            the recorder failed
    PackageError          ModuleNotFoundError     another package is needed
"""

from __future__ import annotations

from ._native import Error


class FileError(Error, OSError):
    """A file that cannot be read. Has `errno` and `filename`, as every OSError."""

    def __str__(self) -> str:
        return str(self.strerror or super().__str__())


class MissingFileError(FileError, FileNotFoundError):
    """No file at the path."""


class FilePermissionError(FileError, PermissionError):
    """No right to read the file."""


class FolderError(FileError, IsADirectoryError):
    """A folder that is no recording."""


class FormatError(Error, ValueError):
    """A file that is not a recording or run file, or is damaged."""


class ArgumentError(Error, ValueError):
    """An argument that is malformed, or does not fit the file."""


class ColumnError(Error, KeyError):
    """A column that the table does not have."""

    def __str__(self) -> str:
        # A KeyError shows its message in quotes.
        return str(self.args[0]) if self.args else ""


class RowError(Error, IndexError):
    """A row that the table does not have."""


class StateError(Error, RuntimeError):
    """A call that comes too early, or a second time."""


class RecorderError(Error, RuntimeError):
    """The recorder failed."""


class PackageError(Error, ModuleNotFoundError):
    """Another package is needed for this."""

    def __str__(self) -> str:
        return str(self.msg)
