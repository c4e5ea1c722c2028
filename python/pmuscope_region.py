"""Counters of regions inside a Python program: what one entry, one packet, one row costs.

    import pmuscope_region as pmu

    counters = pmu.setup(["task-clock", "instructions:u"])
    for block in blocks:
        with pmu.region("parse") as entry:      # of the set that was set up last
            entry.did(parse(block))
    print(counters.text({"row": None}))         # per row that entries did
    rows = counters.report({"packet": 10e6})    # the same as a dict; schema pmuscope/region/1

One file without dependencies, over libpmuscope_c.so (`cargo build --release -p pmuscope-region-c`), which is
looked for at $PMUSCOPE_LIBRARY, beside this file, and where the system looks for libraries. What is counted,
how counters are read and what the figures mean is in docs/region.md. A region costs several microseconds
here, most of them Python's; the report says what of it is counted.
"""

import ctypes
import ctypes.util
import functools
import json
import os
import threading

__all__ = ["CounterSet", "Error", "is_available", "measure", "region", "setup", "switch_off"]

_CODES = {1: "event", 2: "unavailable", 3: "open", 4: "misuse", 5: "failed"}
_SYSTEM_CALLS = 1


class Error(Exception):
    """What cannot be done, and why. `kind`: event, unavailable, open, misuse, failed, library."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class _Unit(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("total", ctypes.c_double)]


@functools.lru_cache(maxsize=None)
def _library():
    """The library with the types of its functions; loaded once it is needed."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libpmuscope_c.so")
    named = os.environ.get("PMUSCOPE_LIBRARY")
    path = named or (beside if os.path.exists(beside) else ctypes.util.find_library("pmuscope_c"))
    if path is None:
        raise Error(
            "library",
            "libpmuscope_c.so is not there. Try: cargo build --release -p pmuscope-region-c, and "
            "PMUSCOPE_LIBRARY=target/release/libpmuscope_c.so",
        )
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise Error("library", f"cannot load {path}: {error}") from error
    pointer, text, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    signatures = {
        "pmuscope_message": (text, []),
        "pmuscope_code": (status, []),
        "pmuscope_is_available": (status, []),
        "pmuscope_setup": (pointer, [ctypes.POINTER(text), ctypes.c_size_t, ctypes.c_uint]),
        "pmuscope_free": (None, [pointer]),
        "pmuscope_switch_to": (status, [pointer]),
        "pmuscope_region_named": (pointer, [pointer, text]),
        "pmuscope_enter": (status, [pointer]),
        "pmuscope_exit": (status, [pointer, ctypes.c_double]),
        # As an address: it is freed after it was copied.
        "pmuscope_report": (pointer, [pointer, ctypes.POINTER(_Unit), ctypes.c_size_t, status]),
        "pmuscope_free_text": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _message():
    return (_library().pmuscope_message() or b"").decode()


def _failure(status):
    return Error(_CODES.get(status, "failed"), _message())


def _check(status):
    if status != 0:
        raise _failure(status)


def _address(address):
    """An address that is not NULL."""
    if address is None:
        raise _failure(_library().pmuscope_code())
    return address


def is_available():
    """Whether hardware counters can be read here, and the reason why not (or None)."""
    available = _library().pmuscope_is_available() == 0
    return available, None if available else _message()


class _Entry:
    """One entry into a region."""

    __slots__ = ("units",)

    def __init__(self):
        self.units = 0.0

    def did(self, units):
        """This entry did so many (more) units of work."""
        self.units += units


class _Region:
    """A region of a set: `with` it, as often and in as many threads as you like."""

    def __init__(self, counters, name):
        self._counters = counters  # the address is good as long as the set is
        self._address = _address(
            _library().pmuscope_region_named(counters._address, name.encode())
        )
        self._enter, self._exit = _library().pmuscope_enter, _library().pmuscope_exit
        self._entries = threading.local()

    def __enter__(self):
        entry = _Entry()
        try:
            self._entries.open.append(entry)
        except AttributeError:
            self._entries.open = [entry]
        _check(self._enter(self._address))
        return entry

    def __exit__(self, kind, error, trace):
        status = self._exit(self._address, self._entries.open.pop().units)
        if kind is None:
            _check(status)
        return False


class CounterSet:
    """Events that are counted together; `setup` makes one."""

    def __init__(self, events, system_calls=False):
        self._address = None
        texts = [events] if isinstance(events, str) else list(events)
        array = (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
        flags = _SYSTEM_CALLS if system_calls else 0
        self._address = _address(_library().pmuscope_setup(array, len(texts), flags))
        self._regions = {}

    def __del__(self):
        if getattr(self, "_address", None) is not None:
            _library().pmuscope_free(self._address)

    def region(self, name):
        """The region of this name, to be used with `with`."""
        found = self._regions.get(name)
        if found is None:
            found = self._regions.setdefault(name, _Region(self, name))
        return found

    def switch_to(self):
        """Counts into this set in this thread from now on."""
        _check(_library().pmuscope_switch_to(self._address))

    def text(self, units=None):
        """What was counted so far, as a table. `units`: {name: total, or None for what entries did}."""
        return self._report(units, False)

    def report(self, units=None):
        """What was counted so far, as a dict (docs/json.md, pmuscope/region/1)."""
        return json.loads(self._report(units, True))

    def _report(self, units, as_json):
        pairs = [_Unit(name.encode(), total or 0.0) for name, total in (units or {}).items()]
        array = (_Unit * len(pairs))(*pairs)
        library = _library()
        address = _address(
            library.pmuscope_report(self._address, array, len(pairs), int(as_json))
        )
        try:
            return ctypes.string_at(address).decode()
        finally:
            library.pmuscope_free_text(address)


_last = None


def setup(events, system_calls=False):
    """Proves that `events` (a list of perf's names) can be counted together, and starts them in this thread."""
    global _last
    _last = CounterSet(events, system_calls)
    return _last


def region(name):
    """The region of this name in the set that was set up last."""
    if _last is None:
        raise Error("misuse", "no events are set up: setup(events) first")
    return _last.region(name)


def switch_off():
    """Stops the counters of this thread; the next region starts them again."""
    _check(_library().pmuscope_switch_to(None))


def measure(function, events):
    """Counts `events` while `function()` runs, once: its result and the report."""
    counters = CounterSet(events)
    with counters.region("measure"):
        result = function()
    return result, counters.report()
