//! The loop itself, in assembler: what a compiler makes of one is not known before.

use std::arch::asm;

/// Instructions of one round.
pub const PER_ROUND: u64 = 2;

/// Goes round `rounds` times, at least once: [`PER_ROUND`] instructions each, and none between.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(super) fn rounds(rounds: u64) {
    // SAFETY: the loop changes one register, which is its own, and the flags; it touches no memory.
    unsafe {
        asm!("2:", "dec {n}", "jnz 2b", n = inout(reg) rounds.max(1) => _, options(nomem, nostack));
    }
}

/// Goes round `rounds` times, at least once: [`PER_ROUND`] instructions each, and none between.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
pub(super) fn rounds(rounds: u64) {
    // SAFETY: the loop changes one register, which is its own, and the flags; it touches no memory.
    unsafe {
        asm!(
            "2:", "subs {n}, {n}, #1", "b.ne 2b",
            n = inout(reg) rounds.max(1) => _, options(nomem, nostack)
        );
    }
}
