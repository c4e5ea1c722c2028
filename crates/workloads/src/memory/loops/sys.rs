//! The loops that load and store, in assembler: so that every byte is loaded and stored as asked, by the widest
//! vectors there are, whatever a compiler thinks of numbers that nobody uses; and so that it does not matter
//! who else changes them.

use crate::memory::sys::Part;

use super::Width;

/// Bytes of one round of a loop.
pub(super) const BLOCK: usize = 256;

/// What loops put into memory: ones, as 64-bit numbers.
static ONES: [u64; 8] = [1; 8];

/// What is done in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopKind {
    Read,
    Write,
    Both,
    Stream,
    Copy,
    CopyStream,
}

/// Goes through `part`, if `backward` from its last block to its first, which copies and streams cannot; copies
/// go to `to`.
///
/// # Panics
/// If it is not whole blocks, or `to` is not as long.
pub(super) fn sweep(work: LoopKind, width: Width, backward: bool, part: Part<'_>, to: Part<'_>) {
    let blocks = part.bytes() / BLOCK;
    assert!(part.bytes().is_multiple_of(BLOCK) && to.bytes() == part.bytes(), "whole blocks");
    if blocks == 0 {
        return;
    }
    let last = if backward { (blocks - 1) * BLOCK } else { 0 };
    let step = if backward { -(BLOCK as isize) } else { BLOCK as isize };
    // SAFETY: both parts are readable and writable memory of so many blocks, aligned to 64 bytes, and so are
    // the first and last blocks in it; the CPU has the width. No reference into them exists.
    unsafe {
        let (from, to) = (part.start().add(last), to.start().add(last));
        arch::loop_of(work, width, backward)(from, to, ONES.as_ptr(), blocks, step);
    }
}

/// Touches these cache lines of `part`, one after the other, each as a whole: reads, adds ones and stores, or
/// else stores the number that `value` has twice.
///
/// # Panics
/// If one is not there.
pub(super) fn lines(work: LoopKind, part: Part<'_>, lines: &[u64], value: &[u64; 2]) {
    let there = (part.bytes() / 64) as u64;
    assert!(lines.iter().all(|&line| line < there), "lines of the part");
    if lines.is_empty() {
        return;
    }
    // SAFETY: all lines are within the part, which is readable and writable memory that begins at a multiple of
    // 64; there is at least one.
    unsafe {
        let of_lines = match work {
            LoopKind::Read => arch::lines_read,
            LoopKind::Both => arch::lines_both,
            _ => arch::lines_write,
        };
        of_lines(part.start(), lines.as_ptr(), value.as_ptr(), lines.len());
    }
}

/// Stores zeroes.
pub(super) fn zero(part: Part<'_>) {
    // SAFETY: the part is writable memory, into which no reference exists.
    unsafe { part.start().write_bytes(0, part.bytes()) };
}

/// Follows a circle of offsets into `part` from the one at `at`, 16 loads for each batch; the offset where it
/// is then. At every offset in the circle is another one of it, which the caller has put there.
///
/// # Panics
/// If `at` is not within the part.
pub(super) fn chase(part: Part<'_>, at: u64, batches: u64) -> u64 {
    assert!((at as usize) < part.bytes(), "an offset into the part");
    if batches == 0 {
        return at;
    }
    // SAFETY: the part is readable memory, and each offset that is loaded leads to another one of the circle,
    // all of which lie in it.
    unsafe { arch::chase(part.start(), at, batches) }
}

type Loop = unsafe fn(*mut u8, *mut u8, *const u64, usize, isize);

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;

    use super::{Loop, LoopKind, Width};

    /// A loop of one instruction set, width and direction: `$body` at each of `$offsets` from `p` and `d`.
    macro_rules! make {
        ($name:ident, $preload:expr, $offsets:expr, [$($body:expr),+], $end:expr) => {
            unsafe fn $name(p: *mut u8, d: *mut u8, ones: *const u64, n: usize, step: isize) {
                // SAFETY: the caller promises `n` blocks of memory at `p` and at `d`, one after the other by
                // `step`, at multiples of 64, and that the CPU has these instructions. Only registers that
                // are named are changed, and of them also what is beyond the xmm part.
                unsafe {
                    asm!(
                        $preload,
                        ".p2align 5",
                        "2:",
                        $offsets, $($body,)+ ".endr",
                        "add {p}, {step}", "add {d}, {step}", "dec {n}", "jnz 2b",
                        $end,
                        p = inout(reg) p => _, d = inout(reg) d => _, n = inout(reg) n => _,
                        step = in(reg) step, ones = in(reg) ones,
                        out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
                        out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
                        out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
                        out("xmm15") _,
                        options(nostack)
                    );
                }
            }
        };
    }

    /// All loops of a width. What is loaded to be stored goes through four registers at once; `$groups` and
    /// `$back` are the places of such fours.
    macro_rules! width {
        ($module:ident, $r:literal, $load:literal, $unaligned:literal, $stream:literal,
         [$($register:literal $within:literal $add:literal),+], $forward:literal, $backward:literal,
         $groups:literal, $back:literal, $end:literal) => {
            mod $module {
                use super::*;

                make!(
                    read,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $forward),
                    [
                        concat!($load, " ", $r, "1, [{p}+\\o]")
                    ],
                    $end
                );
                make!(
                    read_back,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $backward),
                    [
                        concat!($load, " ", $r, "1, [{p}+\\o]")
                    ],
                    $end
                );
                make!(
                    write,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $forward),
                    [
                        concat!($load, " [{p}+\\o], ", $r, "0")
                    ],
                    $end
                );
                make!(
                    write_back,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $backward),
                    [
                        concat!($load, " [{p}+\\o], ", $r, "0")
                    ],
                    $end
                );
                make!(
                    both,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $groups),
                    [
                        $(concat!($load, " ", $r, $register, ", [{p}+\\o+", $within, "]"),)+
                        $($add,)+
                        $(concat!($load, " [{p}+\\o+", $within, "], ", $r, $register)),+
                    ],
                    $end
                );
                make!(
                    both_back,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $back),
                    [
                        $(concat!($load, " ", $r, $register, ", [{p}+\\o+", $within, "]"),)+
                        $($add,)+
                        $(concat!($load, " [{p}+\\o+", $within, "], ", $r, $register)),+
                    ],
                    $end
                );
                make!(
                    stream,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $forward),
                    [
                        concat!($stream, " [{p}+\\o], ", $r, "0")
                    ],
                    concat!("sfence\n", $end)
                );
                make!(
                    copy,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $groups),
                    [
                        $(concat!($load, " ", $r, $register, ", [{p}+\\o+", $within, "]"),)+
                        $(concat!($load, " [{d}+\\o+", $within, "], ", $r, $register)),+
                    ],
                    $end
                );
                make!(
                    copy_stream,
                    concat!($unaligned, " ", $r, "0, [{ones}]"),
                    concat!(".irp o,", $groups),
                    [
                        $(concat!($load, " ", $r, $register, ", [{p}+\\o+", $within, "]"),)+
                        $(concat!($stream, " [{d}+\\o+", $within, "], ", $r, $register)),+
                    ],
                    concat!("sfence\n", $end)
                );

                pub(super) fn of(work: LoopKind, backward: bool) -> Loop {
                    match (work, backward) {
                        (LoopKind::Read, false) => read,
                        (LoopKind::Read, true) => read_back,
                        (LoopKind::Write, false) => write,
                        (LoopKind::Write, true) => write_back,
                        (LoopKind::Both, false) => both,
                        (LoopKind::Both, true) => both_back,
                        (LoopKind::Stream, _) => stream,
                        (LoopKind::Copy, _) => copy,
                        (LoopKind::CopyStream, _) => copy_stream,
                    }
                }
            }
        };
    }

    width!(
        v128,
        "xmm",
        "movdqa",
        "movdqu",
        "movntdq",
        [
            "1" "0" "paddq xmm1, xmm0",
            "2" "16" "paddq xmm2, xmm0",
            "3" "32" "paddq xmm3, xmm0",
            "4" "48" "paddq xmm4, xmm0"
        ],
        "0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240",
        "240,224,208,192,176,160,144,128,112,96,80,64,48,32,16,0",
        "0,64,128,192",
        "192,128,64,0",
        ""
    );
    width!(
        v256,
        "ymm",
        "vmovdqa",
        "vmovdqu",
        "vmovntdq",
        [
            "1" "0" "vpaddq ymm1, ymm1, ymm0",
            "2" "32" "vpaddq ymm2, ymm2, ymm0",
            "3" "64" "vpaddq ymm3, ymm3, ymm0",
            "4" "96" "vpaddq ymm4, ymm4, ymm0"
        ],
        "0,32,64,96,128,160,192,224",
        "224,192,160,128,96,64,32,0",
        "0,128",
        "128,0",
        "vzeroupper"
    );
    width!(
        v512,
        "zmm",
        "vmovdqa64",
        "vmovdqu64",
        "vmovntdq",
        [
            "1" "0" "vpaddq zmm1, zmm1, zmm0",
            "2" "64" "vpaddq zmm2, zmm2, zmm0",
            "3" "128" "vpaddq zmm3, zmm3, zmm0",
            "4" "192" "vpaddq zmm4, zmm4, zmm0"
        ],
        "0,64,128,192",
        "192,128,64,0",
        "0",
        "0",
        "vzeroupper"
    );

    pub(super) fn loop_of(work: LoopKind, width: Width, backward: bool) -> Loop {
        match width {
            Width::V128 => v128::of(work, backward),
            Width::V256 => v256::of(work, backward),
            Width::V512 => v512::of(work, backward),
        }
    }

    macro_rules! of_lines {
        ($name:ident, [$($body:literal),+]) => {
            pub(super) unsafe fn $name(base: *mut u8, lines: *const u64, value: *const u64, n: usize) {
                // SAFETY: the caller promises `n` numbers, at least one, a line of memory at each of them, at
                // multiples of 64, and two numbers at `value`.
                unsafe {
                    asm!(
                        "movdqu xmm1, [{value}]",
                        "2:",
                        "mov {t}, [{l}]", "shl {t}, 6", "add {t}, {base}",
                        ".irp o,0,16,32,48", $($body,)+ ".endr",
                        "add {l}, 8", "dec {n}", "jnz 2b",
                        base = in(reg) base, l = inout(reg) lines => _, n = inout(reg) n => _,
                        value = in(reg) value, t = out(reg) _, out("xmm0") _, out("xmm1") _, options(nostack)
                    );
                }
            }
        };
    }

    of_lines!(lines_read, ["movdqa xmm0, [{t}+\\o]"]);
    of_lines!(lines_write, ["movdqa [{t}+\\o], xmm1"]);
    of_lines!(lines_both, ["movdqa xmm0, [{t}+\\o]", "paddq xmm0, xmm1", "movdqa [{t}+\\o], xmm0"]);

    pub(super) unsafe fn chase(base: *mut u8, at: u64, batches: u64) -> u64 {
        let mut at = at;
        // SAFETY: the caller promises that each offset leads to another one within the memory; `batches` is not
        // 0.
        unsafe {
            asm!(
                "2:", ".rept 16", "mov {at}, [{base}+{at}]", ".endr", "dec {n}", "jnz 2b",
                base = in(reg) base, at = inout(reg) at, n = inout(reg) batches => _,
                options(readonly, nostack)
            );
        }
        at
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    use super::{Loop, LoopKind, Width};

    /// A loop of one direction: `$body` at each of `$offsets` from `p` and `d`.
    macro_rules! make {
        ($name:ident, $offsets:literal, [$($body:literal),+]) => {
            unsafe fn $name(p: *mut u8, d: *mut u8, ones: *const u64, n: usize, step: isize) {
                // SAFETY: the caller promises `n` blocks of memory at `p` and at `d`, one after the other by
                // `step`. Only registers that are named, or that any function may change, are changed.
                unsafe {
                    asm!(
                        "ldr q0, [{ones}]",
                        ".p2align 5",
                        "2:",
                        concat!(".irp o,", $offsets), $($body,)+ ".endr",
                        "add {p}, {p}, {step}", "add {d}, {d}, {step}", "subs {n}, {n}, #1", "b.ne 2b",
                        p = inout(reg) p => _, d = inout(reg) d => _, n = inout(reg) n => _,
                        step = in(reg) step, ones = in(reg) ones,
                        out("v0") _, out("v1") _, out("v2") _, options(nostack)
                    );
                }
            }
        };
    }

    make!(read, "0,32,64,96,128,160,192,224", ["ldp q1, q2, [{p}, #\\o]"]);
    make!(read_back, "224,192,160,128,96,64,32,0", ["ldp q1, q2, [{p}, #\\o]"]);
    make!(write, "0,32,64,96,128,160,192,224", ["stp q0, q0, [{p}, #\\o]"]);
    make!(write_back, "224,192,160,128,96,64,32,0", ["stp q0, q0, [{p}, #\\o]"]);
    make!(
        both,
        "0,32,64,96,128,160,192,224",
        [
            "ldp q1, q2, [{p}, #\\o]",
            "add v1.2d, v1.2d, v0.2d",
            "add v2.2d, v2.2d, v0.2d",
            "stp q1, q2, [{p}, #\\o]"
        ]
    );
    make!(
        both_back,
        "224,192,160,128,96,64,32,0",
        [
            "ldp q1, q2, [{p}, #\\o]",
            "add v1.2d, v1.2d, v0.2d",
            "add v2.2d, v2.2d, v0.2d",
            "stp q1, q2, [{p}, #\\o]"
        ]
    );
    make!(stream, "0,32,64,96,128,160,192,224", ["stnp q0, q0, [{p}, #\\o]"]);
    make!(
        copy,
        "0,32,64,96,128,160,192,224",
        ["ldp q1, q2, [{p}, #\\o]", "stp q1, q2, [{d}, #\\o]"]
    );
    make!(
        copy_stream,
        "0,32,64,96,128,160,192,224",
        ["ldp q1, q2, [{p}, #\\o]", "stnp q1, q2, [{d}, #\\o]"]
    );

    /// NEON is all that is used.
    pub(super) fn loop_of(work: LoopKind, _width: Width, backward: bool) -> Loop {
        match (work, backward) {
            (LoopKind::Read, false) => read,
            (LoopKind::Read, true) => read_back,
            (LoopKind::Write, false) => write,
            (LoopKind::Write, true) => write_back,
            (LoopKind::Both, false) => both,
            (LoopKind::Both, true) => both_back,
            (LoopKind::Stream, _) => stream,
            (LoopKind::Copy, _) => copy,
            (LoopKind::CopyStream, _) => copy_stream,
        }
    }

    macro_rules! of_lines {
        ($name:ident, [$($body:literal),+]) => {
            pub(super) unsafe fn $name(base: *mut u8, lines: *const u64, value: *const u64, n: usize) {
                // SAFETY: the caller promises `n` numbers, at least one, a line of memory at each of them, and
                // two numbers at `value`.
                unsafe {
                    asm!(
                        "ldr q2, [{value}]",
                        "2:",
                        "ldr {t}, [{l}], #8", "add {t}, {base}, {t}, lsl #6",
                        $($body,)+
                        "subs {n}, {n}, #1", "b.ne 2b",
                        base = in(reg) base, l = inout(reg) lines => _, n = inout(reg) n => _,
                        value = in(reg) value, t = out(reg) _,
                        out("v0") _, out("v1") _, out("v2") _, options(nostack)
                    );
                }
            }
        };
    }

    of_lines!(lines_read, ["ldp q0, q1, [{t}]", "ldp q0, q1, [{t}, #32]"]);
    of_lines!(lines_write, ["stp q2, q2, [{t}]", "stp q2, q2, [{t}, #32]"]);
    of_lines!(
        lines_both,
        [
            "ldp q0, q1, [{t}]",
            "add v0.2d, v0.2d, v2.2d",
            "add v1.2d, v1.2d, v2.2d",
            "stp q0, q1, [{t}]",
            "ldp q0, q1, [{t}, #32]",
            "add v0.2d, v0.2d, v2.2d",
            "add v1.2d, v1.2d, v2.2d",
            "stp q0, q1, [{t}, #32]"
        ]
    );

    pub(super) unsafe fn chase(base: *mut u8, at: u64, batches: u64) -> u64 {
        let mut at = at;
        // SAFETY: the caller promises that each offset leads to another one within the memory; `batches` is not
        // 0.
        unsafe {
            asm!(
                "2:", ".rept 16", "ldr {at}, [{base}, {at}]", ".endr", "subs {n}, {n}, #1", "b.ne 2b",
                base = in(reg) base, at = inout(reg) at, n = inout(reg) batches => _,
                options(readonly, nostack)
            );
        }
        at
    }
}
