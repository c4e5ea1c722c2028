"""Metrics per function of a small perf.data file, by the usual formulas.

Reads the file's bytes itself. One group of: cycles, instructions, branch-misses, cache-references,
cache-misses, context-switches; samples carry id, ip, pid, tid, time, cpu and the group's counts.
"""

import struct
import sys

BASE, SPACE = 0x40_0000, 0x1_0000
data = open(sys.argv[1], "rb").read()
start, size = struct.unpack_from("<QQ", data, 40)
streams = {}
at = start
while at < start + size:
    kind, _, length = struct.unpack_from("<IHH", data, at)
    if kind == 9:
        ident, ip, pid, tid, time, cpu, number = struct.unpack_from("<QQIIQQQ", data, at + 8)
        pairs = struct.unpack_from(f"<{2 * number}Q", data, at + 8 + 48)
        assert length == 8 + 48 + 16 * number
        streams.setdefault(ident, []).append((tid, (ip - BASE) // SPACE, pairs[0::2]))
    at += length

lengths = [b[2][0] - a[2][0] for s in streams.values() for a, b in zip(s, s[1:])]
limit = (min(lengths) + max(lengths)) / 2 if max(lengths) > 10 * min(lengths) else max(lengths)
samples, discarded, sums, begun_elsewhere = {}, {}, {}, {}
for stream in streams.values():
    for (tid, before, old), (other, symbol, new) in zip(stream, stream[1:]):
        counts = [b - a for a, b in zip(old, new)]
        if counts[0] > limit:
            continue
        samples[symbol] = samples.get(symbol, 0) + 1
        if symbol != before or tid != other or counts[5]:
            discarded[symbol] = discarded.get(symbol, 0) + 1
            if tid == other and not counts[5]:
                begun_elsewhere[symbol] = begun_elsewhere.get(symbol, 0) + 1
            continue
        total = sums.setdefault(symbol, [0] * 6)
        sums[symbol] = [a + b for a, b in zip(total, counts)]
# In shares of all, the windows that count stand for those that began in another function too.
kept = {symbol: samples[symbol] - discarded.get(symbol, 0) for symbol in sums}
stands_for = {symbol: 1 / (kept[symbol] / (kept[symbol] + begun_elsewhere.get(symbol, 0))) for symbol in sums}
whole = [sum(stands_for[symbol] * one[at] for symbol, one in sums.items()) for at in range(6)]


def ratio(above, below, factor=1):
    return f"{factor * above / below:.12e}" if below else "-"


lines = []
for symbol, number in samples.items():
    cy, ins, bm, refs, cm, _ = sums.get(symbol, [0] * 6)
    part = [stands_for.get(symbol, 0) * one for one in sums.get(symbol, [0] * 6)]
    cells = [
        ratio(cy, ins),
        ratio(bm, ins, 1000),
        ratio(cm, ins, 1000),
        ratio(cm, refs, 100),
        ratio(part[0], whole[0], 100),
        ratio(part[1], whole[1], 100),
        ratio(part[2], whole[2], 100),
        ratio(part[3], whole[3], 100),
        ratio(part[4], whole[4], 100),
    ]
    if symbol not in sums:
        cells = ["-"] * 9
    cells = [c.replace("e+0", "e").replace("e-0", "e-").replace("e+", "e") for c in cells]
    lines.append(f"{symbol} {number} {discarded.get(symbol, 0)} {' '.join(cells)}")
print("\n".join(sorted(lines)))
