//! The loops of the functions, in assembler: so the number of their instructions is known, and what
//! they wait for is what their name says. They are inlined into the function that is to be seen.
//!
//! Each goes round at least once. Both ways of a branch are equally long, so that no count depends on
//! chance. The constants are instructions of one round.

use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

pub(super) use loops::*;

/// Rounds of two instructions after each page that [`fresh_pages`] touches.
const SPIN: u64 = 250;

#[cfg(target_arch = "x86_64")]
mod loops {
    use std::arch::asm;

    use super::{Pages, SPIN};

    pub(crate) const FP_DIVISION: u64 = 10;
    pub(crate) const INT_DIVISION: u64 = 14;
    pub(crate) const SERIALISE: u64 = 10;
    pub(crate) const RANDOM_BRANCHES: u64 = 27;
    pub(crate) const CONVERSIONS: u64 = 14;
    pub(crate) const NOPS: u64 = 66;
    pub(crate) const POINTER_CHASE: u64 = 6;
    pub(crate) const FRESH_PAGES: u64 = 5 + 2 * SPIN;

    /// Each divides what the one before has left.
    #[inline(always)]
    pub(crate) fn fp_division(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 8", "divsd {x}, {by}", ".endr", "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(xmm_reg) 1e300f64 => _,
                by = in(xmm_reg) 1.000_001f64, options(nomem, nostack)
            );
        }
    }

    /// Each divides what the one before has left, with high bits set anew: divisions of small numbers
    /// would be shorter.
    #[inline(always)]
    pub(crate) fn int_division(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory. The divisor is not 0 and
        // the high half of what is divided is, so no division overflows.
        unsafe {
            asm!(
                "2:",
                ".rept 4", "xor edx, edx", "div {by}", "or rax, {high}", ".endr",
                "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, by = in(reg) 3u64, high = in(reg) 0x7fff_u64 << 48,
                inout("rax") u64::MAX => _, out("rdx") _, options(nomem, nostack)
            );
        }
    }

    /// LFENCE waits for all that comes before, and all that comes after waits for it. Not CPUID, which
    /// hypervisors take over: it would be their time.
    #[inline(always)]
    pub(crate) fn serialise(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 4", "imul {x}, {x}", "lfence", ".endr", "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(reg) 3u64 => _, options(nomem, nostack)
            );
        }
    }

    /// Marsaglia's xorshift64, and four branches on bits of it.
    #[inline(always)]
    pub(crate) fn random_branches(rounds: u64, state: u64) -> u64 {
        let mut random = state | 1;
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:",
                "mov {t}, {r}", "shl {t}, 13", "xor {r}, {t}",
                "mov {t}, {r}", "shr {t}, 7", "xor {r}, {t}",
                "mov {t}, {r}", "shl {t}, 17", "xor {r}, {t}",
                "bt {r}, 5", "jnc 3f", "inc {s}", "jmp 4f", "3:", "dec {s}", "nop", "4:",
                "bt {r}, 19", "jnc 3f", "inc {s}", "jmp 4f", "3:", "dec {s}", "nop", "4:",
                "bt {r}, 33", "jnc 3f", "inc {s}", "jmp 4f", "3:", "dec {s}", "nop", "4:",
                "bt {r}, 47", "jnc 3f", "inc {s}", "jmp 4f", "3:", "dec {s}", "nop", "4:",
                "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, r = inout(reg) random, t = out(reg) _,
                s = inout(reg) 0u64 => _, options(nomem, nostack)
            );
        }
        random
    }

    /// To integer, plus one, and back.
    #[inline(always)]
    pub(crate) fn conversions(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:",
                ".rept 4", "cvttsd2si {i}, {x}", "inc {i}", "cvtsi2sd {x}, {i}", ".endr",
                "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(xmm_reg) 1f64 => _, i = out(reg) _,
                options(nomem, nostack)
            );
        }
    }

    /// Nothing.
    #[inline(always)]
    pub(crate) fn nops(rounds: u64) {
        // SAFETY: changes a register of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 64", "nop", ".endr", "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, options(nomem, nostack)
            );
        }
    }

    /// Each load says where the next one is.
    #[inline(always)]
    pub(crate) fn pointer_chase(
        rounds: u64,
        chain: &super::super::chain::Chain,
        at: usize,
    ) -> usize {
        let mut address = chain.address(at);
        // SAFETY: changes registers of its own and the flags; reads where the chain points, which is
        // only into its own memory.
        unsafe {
            asm!(
                "2:", ".rept 4", "mov {p}, [{p}]", ".endr", "dec {n}", "jnz 2b",
                n = inout(reg) rounds.max(1) => _, p = inout(reg) address,
                options(readonly, nostack)
            );
        }
        chain.index(address)
    }

    /// Touches a page that is not there, for each round; afterwards none is there again.
    #[inline(always)]
    pub(crate) fn fresh_pages(rounds: u64, pages: &mut Pages) {
        let rounds = rounds.clamp(1, pages.count);
        // SAFETY: writes a byte to each of so many pages from the first one on, which are ours alone.
        unsafe {
            asm!(
                "2:", "mov byte ptr [{p}], 1", "add {p}, {size}", "mov {t}, {spin}",
                "3:", "dec {t}", "jnz 3b",
                "dec {n}", "jnz 2b",
                n = inout(reg) rounds => _, p = inout(reg) pages.start => _, t = out(reg) _,
                size = in(reg) pages.size, spin = in(reg) SPIN, options(nostack)
            );
        }
        pages.forget();
    }
}

#[cfg(target_arch = "aarch64")]
mod loops {
    use std::arch::asm;

    use super::{Pages, SPIN};

    pub(crate) const FP_DIVISION: u64 = 10;
    pub(crate) const INT_DIVISION: u64 = 10;
    pub(crate) const SERIALISE: u64 = 10;
    pub(crate) const RANDOM_BRANCHES: u64 = 17;
    pub(crate) const CONVERSIONS: u64 = 14;
    pub(crate) const NOPS: u64 = 66;
    pub(crate) const POINTER_CHASE: u64 = 6;
    pub(crate) const FRESH_PAGES: u64 = 5 + 2 * SPIN;

    /// Each divides what the one before has left.
    #[inline(always)]
    pub(crate) fn fp_division(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 8", "fdiv {x:d}, {x:d}, {by:d}", ".endr", "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(vreg) 1e300f64 => _,
                by = in(vreg) 1.000_001f64, options(nomem, nostack)
            );
        }
    }

    /// Each divides what the one before has left, with high bits set anew: divisions of small numbers
    /// would be shorter.
    #[inline(always)]
    pub(crate) fn int_division(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 4", "udiv {x}, {x}, {by}", "orr {x}, {x}, {high}", ".endr",
                "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(reg) u64::MAX => _, by = in(reg) 3u64,
                high = in(reg) 0x7fff_u64 << 48, options(nomem, nostack)
            );
        }
    }

    /// ISB: all that comes after is fetched anew.
    #[inline(always)]
    pub(crate) fn serialise(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 4", "mul {x}, {x}, {x}", "isb", ".endr", "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(reg) 3u64 => _, options(nomem, nostack)
            );
        }
    }

    /// Marsaglia's xorshift64, and four branches on bits of it.
    #[inline(always)]
    pub(crate) fn random_branches(rounds: u64, state: u64) -> u64 {
        let mut random = state | 1;
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:",
                "eor {r}, {r}, {r}, lsl #13", "eor {r}, {r}, {r}, lsr #7", "eor {r}, {r}, {r}, lsl #17",
                "tbz {r}, #5, 3f", "add {s}, {s}, #1", "b 4f", "3:", "sub {s}, {s}, #1", "nop", "4:",
                "tbz {r}, #19, 3f", "add {s}, {s}, #1", "b 4f", "3:", "sub {s}, {s}, #1", "nop", "4:",
                "tbz {r}, #33, 3f", "add {s}, {s}, #1", "b 4f", "3:", "sub {s}, {s}, #1", "nop", "4:",
                "tbz {r}, #47, 3f", "add {s}, {s}, #1", "b 4f", "3:", "sub {s}, {s}, #1", "nop", "4:",
                "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, r = inout(reg) random,
                s = inout(reg) 0u64 => _, options(nomem, nostack)
            );
        }
        random
    }

    /// To integer, plus one, and back.
    #[inline(always)]
    pub(crate) fn conversions(rounds: u64) {
        // SAFETY: changes registers of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:",
                ".rept 4", "fcvtzs {i}, {x:d}", "add {i}, {i}, #1", "scvtf {x:d}, {i}", ".endr",
                "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, x = inout(vreg) 1f64 => _, i = out(reg) _,
                options(nomem, nostack)
            );
        }
    }

    /// Nothing.
    #[inline(always)]
    pub(crate) fn nops(rounds: u64) {
        // SAFETY: changes a register of its own and the flags; touches no memory.
        unsafe {
            asm!(
                "2:", ".rept 64", "nop", ".endr", "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, options(nomem, nostack)
            );
        }
    }

    /// Each load says where the next one is.
    #[inline(always)]
    pub(crate) fn pointer_chase(
        rounds: u64,
        chain: &super::super::chain::Chain,
        at: usize,
    ) -> usize {
        let mut address = chain.address(at);
        // SAFETY: changes registers of its own and the flags; reads where the chain points, which is
        // only into its own memory.
        unsafe {
            asm!(
                "2:", ".rept 4", "ldr {p}, [{p}]", ".endr", "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds.max(1) => _, p = inout(reg) address,
                options(readonly, nostack)
            );
        }
        chain.index(address)
    }

    /// Touches a page that is not there, for each round; afterwards none is there again.
    #[inline(always)]
    pub(crate) fn fresh_pages(rounds: u64, pages: &mut Pages) {
        let rounds = rounds.clamp(1, pages.count);
        // SAFETY: writes a byte to each of so many pages from the first one on, which are ours alone.
        unsafe {
            asm!(
                "2:", "strb wzr, [{p}]", "add {p}, {p}, {size}", "mov {t}, {spin}",
                "3:", "subs {t}, {t}, #1", "b.ne 3b",
                "subs {n}, {n}, #1", "b.ne 2b",
                n = inout(reg) rounds => _, p = inout(reg) pages.start => _, t = out(reg) _,
                size = in(reg) pages.size, spin = in(reg) SPIN, options(nostack)
            );
        }
        pages.forget();
    }
}

/// Pages of our own, of which none is there until it is touched.
#[derive(Debug)]
pub(super) struct Pages {
    start: usize,
    count: u64,
    size: usize,
}

impl Pages {
    /// Addresses for so many pages, without huge ones: each is to be a fault of its own.
    ///
    /// # Errors
    /// If there is no room.
    pub(super) fn new(count: u64) -> io::Result<Self> {
        let size = rustix::param::page_size();
        let length = size * count as usize;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start =
            unsafe { mmap_anonymous(std::ptr::null_mut(), length, access, MapFlags::PRIVATE)? };
        let pages = Self { start: start.expose_provenance(), count, size };
        // SAFETY: the mapping just made. Where the kernel knows no huge pages, it refuses.
        let _ = unsafe { madvise(start, length, Advice::LinuxNoHugepage) };
        Ok(pages)
    }

    /// Gives all pages back to the kernel; the addresses stay ours.
    fn forget(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: a mapping of our own, to which nothing refers. It fails only for other addresses.
        let _ = unsafe { madvise(start, self.size * self.count as usize, Advice::LinuxDontNeed) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let start = std::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: a mapping of our own, to which nothing refers. It fails only for other addresses.
        let _ = unsafe { munmap(start, self.size * self.count as usize) };
    }
}
