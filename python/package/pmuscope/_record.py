"""Records the process that this runs in."""

from __future__ import annotations

import errno
import os
import platform
import select
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import warnings
import weakref
from types import TracebackType
from typing import Sequence

from . import _program
from ._native import Profile, read
from .errors import ArgumentError, FilePermissionError, MissingFileError, RecorderError, StateError

# Seconds until the recorder has opened its events, and until it has written its file.
_START_S = 60.0
_STOP_S = 600.0
# Unwound by tables, as Python is mostly built without frame pointers. A call of a Python function takes some 500 bytes of the copy.
_CALL_GRAPH = "dwarf,32768"
# Status of the program for bad arguments, and for what this machine or these rights do not allow.
_BAD_ARGUMENTS, _NOT_POSSIBLE = 2, 3
# Status of the program where something is missing of what was recorded: samples were lost.
_INCOMPLETE = 1


class Recording:
    """A recording of this process, made by `record`.

    `path` is the recording; without one of your own it is a temporary file that lasts as long as this object. `messages` is
    what the recorder said. `profile` is there after the `with` block.
    """

    def __init__(self, path: str | os.PathLike[str] | None, flags: Sequence[str], python: bool, call_graph: str) -> None:
        if path is None:
            folder = tempfile.mkdtemp(prefix="pmuscope-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, "pmuscope.data")
        self.path = os.fspath(path)
        self.messages = ""
        self._flags = list(flags)
        self._python = python
        self._call_graph = call_graph
        self._process: subprocess.Popen[bytes] | None = None
        self._profile: Profile | None = None
        self._ended = False
        self._trampoline = False

    @property
    def profile(self) -> Profile:
        """What was recorded. Raises Error while the recording runs."""
        if not self._ended:
            raise StateError("the recording is not finished. Try: recording.profile after the with block")
        if self._profile is None:
            self._profile = read(self.path)
        return self._profile

    def __enter__(self) -> Recording:
        if self._process is not None or self._ended:
            raise StateError("a recording is made once. Try: another pmuscope.record()")
        program = _program.find()
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        command = [program, "record", "-p", str(os.getpid()), "-o", self.path, "-D", "-1"]
        command += ["--control", f"fd:{commands},{answers}", *self._flags]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=(commands, answers),
            )
        except OSError as error:
            os.close(self._commands)
            os.close(self._answers)
            raise RecorderError(f"cannot start {program}: {error.strerror}") from error
        finally:
            os.close(commands)
            os.close(answers)
        self._said: list[bytes] = []
        # Else a recorder with much to say would wait for a reader.
        self._listener = threading.Thread(target=self._listen, name="pmuscope-record", daemon=True)
        self._listener.start()
        try:
            try:
                os.write(self._commands, b"enable\n")
            except BrokenPipeError:
                pass  # It has ended: there is no answer, and then its status and words say why.
            self._await_answer()
        except BaseException:
            self._end(kill=True)
            raise
        self._name_python_functions()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._trampoline:
            sys.deactivate_stack_trampoline()
        try:
            os.write(self._commands, b"stop\n")
        except BrokenPipeError:
            pass  # It has ended; its status says why.
        status = self._end()
        self._ended = True
        if status == _INCOMPLETE and os.path.exists(self.path):
            warned = [line.removeprefix("warning: ") for line in self.messages.splitlines() if line.startswith("warning: ")]
            warnings.warn("\n".join(warned) or "the recording is incomplete", RuntimeWarning, stacklevel=2)
        elif status != 0 and kind is None:
            raise self._failure(status)

    def _listen(self) -> None:
        output = self._process.stdout
        for line in output:
            self._said.append(line)
        output.close()

    def _await_answer(self) -> None:
        """Waits until events are enabled."""
        answer = b""
        while b"\n" not in answer:
            ready, _, _ = select.select([self._answers], [], [], _START_S)
            if not ready:
                raise RecorderError(f"pmuscope record did not start within {_START_S:.0f} s. Try: pmuscope doctor")
            piece = os.read(self._answers, 256)
            if not piece:
                raise self._failure(self._end())
            answer += piece

    def _end(self, kill: bool = False) -> int:
        """Waits for the recorder's end; its status."""
        process = self._process
        if kill and process.poll() is None:
            process.terminate()
        try:
            status = process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        self._listener.join()
        if self._commands is not None:
            os.close(self._commands)
            os.close(self._answers)
            self._commands = None
        self.messages = b"".join(self._said).decode(errors="replace")
        return status

    def _failure(self, status: int) -> Exception:
        errors = [line for line in self.messages.splitlines() if line.startswith("error: ")]
        text = "\n".join(line.removeprefix("error: ") for line in errors) or self.messages.strip()
        text = text or f"pmuscope record ended with status {status}"
        if status == _BAD_ARGUMENTS:
            return ArgumentError(text)
        if status == _NOT_POSSIBLE and "permission" in text.lower():
            return FilePermissionError(errno.EACCES, text, self.path)
        return RecorderError(text)

    def _name_python_functions(self) -> None:
        """Since 3.12 Python can give each of its functions code that profilers see."""
        if not self._python:
            return
        version = f"{platform.python_implementation()} {sys.version_info.major}.{sys.version_info.minor}"
        if not hasattr(sys, "activate_stack_trampoline"):
            _warn(f"no names of Python functions: {version} does not support perf trampolines. Try: CPython 3.12 or later")
            return
        if not sys.is_stack_trampoline_active():
            try:
                sys.activate_stack_trampoline("perf")
            except (RuntimeError, ValueError) as error:
                _warn(f"no names of Python functions: {version}: {error}. Try: CPython 3.12 or later of x86-64 or aarch64")
                return
            # CPython 3.14.10 and 3.15.2 crash at their end once it was activated three times, and cannot activate it
            # more than eight times: there it stays active.
            self._trampoline = sys.version_info < (3, 14)
        if self._call_graph.startswith("fp") and not _has_frame_pointers():
            _warn(
                f"Python functions have no callers: this {version} was built without frame pointers. "
                'Try: call_graph="dwarf"'
            )


def _warn(message: str) -> None:
    # Three calls above: the line of the with statement.
    warnings.warn(f"{message}. python=False turns this warning off", RuntimeWarning, stacklevel=4)


def _has_frame_pointers() -> bool:
    flags = " ".join(str(sysconfig.get_config_var(name)) for name in ("PY_CORE_CFLAGS", "CFLAGS"))
    return "-fno-omit-frame-pointer" in flags


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    events: str | Sequence[str] | None = None,
    frequency: int | None = None,
    period: int | None = None,
    call_graph: str | None = _CALL_GRAPH,
    python: bool = True,
    args: Sequence[str] = (),
) -> Recording:
    """Records this process, all of its threads and what it starts, for the time of a `with` block.

        with pmuscope.record() as recording:
            work()
        recording.profile.functions()

    `events` are those of `-e`, `frequency` samples per second and thread that runs (`-F`), `period` events per sample
    (`-c`), `call_graph` as `--call-graph` ("no" or None: without callers), `args` further flags of `pmuscope record`.

    On CPython 3.12 and later, functions of Python have names in call stacks, as in `py::work:/home/me/program.py`;
    `python=False` leaves that off. Warns (RuntimeWarning) if this Python cannot do that. Raises Error.
    """
    if path is not None:
        folder = os.path.dirname(os.fspath(path)) or "."
        if not os.path.isdir(folder):
            message = f"cannot create {os.fspath(path)}: there is no folder {folder}"
            raise MissingFileError(errno.ENOENT, message, os.fspath(path))
    flags: list[str] = []
    if events is not None:
        flags += ["-e", events if isinstance(events, str) else ",".join(events)]
    if frequency is not None:
        flags += ["-F", _number("frequency", frequency)]
    if period is not None:
        flags += ["-c", _number("period", period)]
    if call_graph is not None and not isinstance(call_graph, str):
        raise TypeError(f'call_graph is a text such as "dwarf", "fp" or "no", and not {call_graph!r}')
    if isinstance(args, str):
        raise TypeError(f"args is a list of flags. Try: args={args.split()!r}")
    own = [flag for flag in args if flag == "-g" or flag.startswith("--call-graph")]
    call_graph = "no" if call_graph is None else call_graph
    if not own and call_graph != "no":
        flags += [f"--call-graph={call_graph}"]
    if not own and call_graph.startswith("dwarf"):
        # Copies of stacks are megabytes a second, of which zstd leaves some percent.
        flags += ["-z"]
    return Recording(path, [*flags, *args], python, "" if own else call_graph)


def _number(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is a whole number, and not {value!r}. Try: {name}=1000")
    return str(value)
