#!/bin/sh
# In a PID namespace, machine-wide perf events report every task outside it as process 0, also its name and its exec.
#
# perf_event_open(2) with pid -1 needs only privileges, so a recorder in a privileged container gets samples and COMM records
# of the whole machine. Tasks that its PID namespace cannot see are not left out and do not have the host's ids: pid and tid
# are 0, which is also the id of the idle task. A tool that keys names by tid then calls idle time, and all tasks outside, by
# the name of whatever was executed last.
#
# Seen with Linux 6.18.44 on x86-64, Python 3.11: "own id 1; exec records of true: {(0, 0)}". No package is needed. Takes root, unshare(1) and Python 3.
set -eu
folder=$(mktemp -d)
trap 'kill "$outside" 2>/dev/null || true; rm -rf "$folder"' EXIT
sh -c 'while :; do /bin/true; done' &
outside=$!

cat > "$folder/inside.py" <<'PYTHON'
import ctypes
import mmap
import os
import platform
import struct
import time

CALL = {"x86_64": 298, "aarch64": 241}[platform.machine()]
SOFTWARE, DUMMY = 1, 9
# enum perf_event_record_type, and the bit of an exec.
COMM, EXECUTED = 3, 1 << 13
# comm, comm_exec
FLAGS = 1 << 9 | 1 << 24
attributes = struct.pack("<IIQQQQQ", SOFTWARE, 112, DUMMY, 0, 0, 0, FLAGS).ljust(112, b"\0")

libc = ctypes.CDLL(None, use_errno=True)
rings = []
for cpu in range(os.cpu_count()):
    descriptor = libc.syscall(CALL, attributes, -1, cpu, -1, 0)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), f"perf_event_open on CPU {cpu}")
    rings.append(mmap.mmap(descriptor, (1 + 64) * mmap.PAGESIZE))
time.sleep(1)

executed = {}
for ring in rings:
    head = struct.unpack_from("<Q", ring, 1024)[0]
    data = ring[mmap.PAGESIZE :]
    at = 0
    while at + 8 <= min(head, len(data)):
        kind, misc, size = struct.unpack_from("<IHH", data, at)
        if kind == COMM and misc & EXECUTED:
            pid, tid = struct.unpack_from("<ii", data, at + 8)
            name = data[at + 16 : at + size].split(b"\0")[0].decode()
            executed.setdefault(name, set()).add((pid, tid))
        at += size
print(f"own id {os.getpid()}; exec records of true: {executed.get('true')}")
assert executed.get("true") == {(0, 0)}, executed
PYTHON
unshare --pid --fork --mount-proc python3 "$folder/inside.py"
echo "as described"
