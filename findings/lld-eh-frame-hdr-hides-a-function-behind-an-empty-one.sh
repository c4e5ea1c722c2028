#!/bin/sh
# lld's .eh_frame_hdr keeps one entry for two functions with the same first address, and that may be the empty one.
#
# A function that never returns and does nothing (`__builtin_unreachable()`) has no code: the next function begins where it
# begins. Both have an entry in .eh_frame, one of 0 bytes and one with the real size. The table in .eh_frame_hdr, by which
# unwinders search, has one row for that address, which leads to the entry of 0 bytes. An unwinder that trusts the table ends
# there with "no unwind information", though .eh_frame has it.
#
# Seen with lld 18 (ziglang 0.13.0) on x86-64; pyelftools 0.31 reads the sections.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target packages ziglang==0.13.0 pyelftools==0.31

cat > two.c <<'C'
__attribute__((cold, noinline)) void never(void) { __builtin_unreachable(); }
__attribute__((cold, noinline)) long behind(long n) { volatile long pad[40]; pad[0] = n; return pad[n & 7]; }
void (*volatile kept)(void) = never;
int main(int count, char **arguments) { if (count > 5) kept(); return (int)behind(count); }
C
export PYTHONPATH=$folder/packages ZIG_GLOBAL_CACHE_DIR=$folder/cache ZIG_LOCAL_CACHE_DIR=$folder/cache
python3 -m ziglang cc -target x86_64-linux-gnu -O2 -fno-function-sections -Wl,--eh-frame-hdr -o two two.c

python3 - <<'PYTHON'
import struct
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

with open("two", "rb") as file:
    elf = ELFFile(file)
    symbols = {symbol.name: symbol["st_value"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
    start = symbols["behind"]
    frames = elf.get_section_by_name(".eh_frame")
    entries = {
        entry.offset: entry.header
        for entry in elf.get_dwarf_info().EH_CFI_entries()
        if isinstance(entry, FDE) and entry.header.initial_location == start
    }
    table = elf.get_section_by_name(".eh_frame_hdr")
    data = table.data()
    # Version 1, number of 32 bits, rows of two 32-bit numbers that count from the table.
    assert data[:4] == bytes([1, 0x1B, 0x03, 0x3B]), data[:4]
    (number,) = struct.unpack_from("<I", data, 8)
    rows = [struct.unpack_from("<ii", data, 12 + 8 * row) for row in range(number)]
    found = [table["sh_addr"] + entry - frames["sh_addr"] for address, entry in rows if table["sh_addr"] + address == start]

sizes = sorted(header.address_range for header in entries.values())
print(f"never and behind begin at {start:#x}: {symbols['never'] == start}")
print(f"entries of .eh_frame for that address, bytes: {sizes}")
print(f"rows of .eh_frame_hdr for it: {len(found)}, which lead to entries of {[entries[offset].address_range for offset in found]} bytes")
assert symbols["never"] == start and len(sizes) == 2 and sizes[0] == 0 < sizes[1], sizes
assert [entries[offset].address_range for offset in found] == [0], found
PYTHON
echo "as described"
