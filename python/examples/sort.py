"""What sorting costs per number, in two threads.

    cargo build --release -p pmuscope-region-c
    PMUSCOPE_LIBRARY=target/release/libpmuscope_c.so PYTHONPATH=python python3 python/examples/sort.py
"""

import random
import sys
import threading

import pmuscope_region as pmu

BLOCKS = 50
NUMBERS = 2000


def work(seed):
    generator = random.Random(seed)
    for _ in range(BLOCKS):
        with pmu.region("fill") as entry:
            numbers = [generator.random() for _ in range(NUMBERS)]
            entry.did(NUMBERS)
        with pmu.region("sort") as entry:
            numbers.sort()
            entry.did(NUMBERS)


def main():
    available, why = pmu.is_available()
    if not available:
        print(f"no hardware counters: {why}", file=sys.stderr)
    try:
        counters = pmu.setup(sys.argv[1:] or ["task-clock", "page-faults", "cycles:u"])
    except pmu.Error as error:
        print(error, file=sys.stderr)
        return 3
    other = threading.Thread(target=work, args=(2,))
    other.start()
    work(1)
    other.join()
    print(counters.text({"number": None}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
