"""Where the program `pmuscope` is."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import shutil

from .errors import MissingFileError


def find() -> str:
    """Path of the program: $PMUSCOPE_PROGRAM, else the one that was installed with this package, else that of PATH."""
    named = os.environ.get("PMUSCOPE_PROGRAM")
    if named:
        return named
    try:
        files = importlib.metadata.distribution("pmuscope").files or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "pmuscope" and file.parent.name in ("bin", "scripts"):
            path = os.path.normpath(str(file.locate()))
            if os.access(path, os.X_OK):
                return path
    found = shutil.which("pmuscope")
    if found is None:
        raise MissingFileError(
            errno.ENOENT, "cannot find the program pmuscope. Try: pip install --force-reinstall pmuscope", "pmuscope"
        )
    return found
