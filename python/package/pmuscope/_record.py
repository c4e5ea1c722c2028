"""Records the process that this runs in."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from types import TracebackType
from typing import Sequence

from . import _program
from ._native import Error, Profile, read

# Seconds until the recorder has opened its events, and until it has written its file.
_START_S = 60.0
_STOP_S = 600.0


class Recording:
    """A recording of this process, made by `record`.

    `path` is the recording; without one of your own it is a temporary file that lasts as long as this object. `messages` is
    what the recorder said. `profile` is there after the `with` block.
    """

    def __init__(self, path: str | os.PathLike[str] | None, flags: Sequence[str], python: bool) -> None:
        if path is None:
            folder = tempfile.mkdtemp(prefix="pmuscope-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, "pmuscope.data")
        self.path = os.fspath(path)
        self.messages = ""
        self._flags = list(flags)
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._profile: Profile | None = None
        self._ended = False
        self._trampoline = False

    @property
    def profile(self) -> Profile:
        """What was recorded. Raises Error while the recording runs."""
        if not self._ended:
            raise Error("the recording is not finished. Try: recording.profile after the with block")
        if self._profile is None:
            self._profile = read(self.path)
        return self._profile

    def __enter__(self) -> Recording:
        if self._process is not None or self._ended:
            raise Error("a recording is made once. Try: another pmuscope.record()")
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
            raise Error(f"cannot start {program}: {error.strerror}") from error
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
        if status != 0 and kind is None:
            raise Error(self._failure(status))

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
                raise Error(f"pmuscope record did not start within {_START_S:.0f} s. Try: pmuscope doctor")
            piece = os.read(self._answers, 256)
            if not piece:
                raise Error(self._failure(self._end()))
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

    def _failure(self, status: int) -> str:
        errors = [line for line in self.messages.splitlines() if line.startswith("error: ")]
        text = "\n".join(line.removeprefix("error: ") for line in errors) or self.messages.strip()
        return text or f"pmuscope record ended with status {status}"

    def _name_python_functions(self) -> None:
        """Since 3.12 Python can give each of its functions code that profilers see."""
        if not self._python or not hasattr(sys, "activate_stack_trampoline"):
            return
        if not sys.is_stack_trampoline_active():
            try:
                sys.activate_stack_trampoline("perf")
            except (RuntimeError, ValueError):
                return  # Built without it, or not for this CPU.
            # CPython 3.14.10 and 3.15.2 crash at their end once it was activated three times, and cannot activate it
            # more than eight times: there it stays active.
            self._trampoline = sys.version_info < (3, 14)


def record(
    path: str | os.PathLike[str] | None = None,
    *,
    events: str | Sequence[str] | None = None,
    frequency: int | None = None,
    period: int | None = None,
    call_graph: str | None = None,
    python: bool = True,
    args: Sequence[str] = (),
) -> Recording:
    """Records this process, all of its threads and what it starts, for the time of a `with` block.

        with pmuscope.record(frequency=5000, call_graph="fp") as recording:
            work()
        recording.profile.functions()

    `events` are those of `-e`, `frequency` samples per second and thread that runs (`-F`), `period` events per sample
    (`-c`), `call_graph` as `--call-graph`, `args` further flags of `pmuscope record`. From Python 3.12 on, functions of Python
    have their names in call stacks where Python was built with frame pointers; `python=False` leaves that off. Raises Error.
    """
    flags: list[str] = []
    if events is not None:
        flags += ["-e", events if isinstance(events, str) else ",".join(events)]
    if frequency is not None:
        flags += ["-F", str(frequency)]
    if period is not None:
        flags += ["-c", str(period)]
    if call_graph is not None:
        flags += [f"--call-graph={call_graph}"]
    return Recording(path, [*flags, *args], python)
