"""What several tests share."""

import importlib.util
import pathlib
import subprocess
import time
import unittest

from pmuscope import _program

ROOT = pathlib.Path(__file__).resolve().parents[2]


def need(*names):
    """Skips a test that needs a package which is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


def busy(seconds):
    """Uses a CPU; its name is looked for in profiles."""
    end, total = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        total += sum(number * number for number in range(1000))
    return total


def program(*words):
    """Runs the program that came with the package."""
    return subprocess.run([_program.find(), *map(str, words)], capture_output=True, text=True)
