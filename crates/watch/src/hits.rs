//! Records of the program in the kernel become samples of the file.
//!
//! ```text
//!  program   head │ addresses of the kernel │ addresses of the thread's own stack
//!  sample    header │ id │ ip │ pid, tid │ time │ address │ cpu │ period │ chain │ raw: Hit
//! ```

use pmuscope_abi::record::{RecordBuilder, kind, misc};
use pmuscope_perfdata::watch::{Hit, HitFlags};

use crate::program::RECORD_HEAD;

/// `PERF_CONTEXT_KERNEL`, `PERF_CONTEXT_USER`: what follows in a chain is of this mode.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// What the file needs to know of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The id of its samples.
    pub(crate) id: u64,
    pub(crate) address: u64,
}

/// Appends the sample of a record of the program; false if it is none.
pub(crate) fn append(record: &[u8], points: &[Identity], out: &mut Vec<u8>) -> bool {
    let Some(head) = HitHead::read(record) else { return false };
    let Some(point) = points.get(head.point as usize) else { return false };
    let in_kernel = (head.ip as i64) < 0;
    let (of_kernel, of_user) = head.stacks(record);
    let modes = [(CONTEXT_KERNEL, of_kernel), (CONTEXT_USER, of_user)];
    let chain: Vec<u64> = modes
        .iter()
        .filter(|(_, stack)| !stack.is_empty())
        .flat_map(|(context, stack)| [*context].into_iter().chain(addresses(stack)))
        .collect();
    // Without a stack the chain is the hit itself.
    let alone = [if in_kernel { CONTEXT_KERNEL } else { CONTEXT_USER }, head.ip];
    let chain = if chain.is_empty() { &alone[..] } else { &chain[..] };
    let mode = if in_kernel { misc::KERNEL } else { misc::USER };
    let mut sample = RecordBuilder::new(out, kind::SAMPLE, mode)
        .u64(point.id)
        .u64(head.ip)
        .u32(head.pid)
        .u32(head.tid)
        .u64(head.time)
        .u64(point.address)
        .u32(head.cpu)
        .u32(0)
        .u64(u64::from(head.stands_for))
        .u64(chain.len() as u64);
    for address in chain {
        sample = sample.u64(*address);
    }
    let hit = Hit {
        flags: HitFlags::from_bits_retain(head.flags),
        value: head.value,
        old: head.old,
        sequence: head.sequence,
    };
    sample.u32(Hit::BYTES as u32).bytes(&hit.to_bytes()).finish();
    true
}

/// The first [`RECORD_HEAD`] bytes, as the program lays them out.
struct HitHead {
    point: u32,
    flags: u32,
    time: u64,
    tid: u32,
    pid: u32,
    ip: u64,
    value: u64,
    old: u64,
    sequence: u64,
    cpu: u32,
    stands_for: u32,
    kernel_bytes: usize,
    user_bytes: usize,
}

impl HitHead {
    fn read(record: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_ne_bytes(*record.get(at..)?.first_chunk()?));
        Some(Self {
            point: half(0)?,
            flags: half(4)?,
            time: word(8)?,
            tid: half(16)?,
            pid: half(20)?,
            ip: word(24)?,
            value: word(32)?,
            old: word(40)?,
            sequence: word(48)?,
            cpu: half(56)?,
            stands_for: half(60)?,
            kernel_bytes: half(64)? as usize,
            user_bytes: half(68)? as usize,
        })
    }

    /// Addresses of the kernel and of the thread's own stack; what is not there is empty.
    fn stacks<'a>(&self, record: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        let stacks = record.get(RECORD_HEAD..).unwrap_or_default();
        let (of_kernel, rest) = stacks.split_at(self.kernel_bytes.min(stacks.len()));
        (of_kernel, &rest[..self.user_bytes.min(rest.len())])
    }
}

fn addresses(stack: &[u8]) -> impl Iterator<Item = u64> {
    stack.as_chunks().0.iter().map(|address| u64::from_ne_bytes(*address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ip: u64, kernel: &[u64], user: &[u64]) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(1_u32.to_ne_bytes());
        record.extend((HitFlags::VALUE | HitFlags::AFTER).bits().to_ne_bytes());
        record.extend(77_u64.to_ne_bytes());
        record.extend([12_u32, 10].map(u32::to_ne_bytes).concat());
        record.extend([ip, 5, 4, 3].map(u64::to_ne_bytes).concat());
        let sizes = [2, 1, kernel.len() as u32 * 8, user.len() as u32 * 8];
        record.extend(sizes.map(u32::to_ne_bytes).concat());
        record.extend(kernel.iter().chain(user).flat_map(|address| address.to_ne_bytes()));
        record
    }

    const POINTS: [Identity; 2] =
        [Identity { id: 100, address: 0x1000 }, Identity { id: 101, address: 0x2000 }];

    fn words(bytes: &[u8]) -> Vec<u64> {
        addresses(bytes).collect()
    }

    #[test]
    fn a_record_becomes_a_sample() {
        let mut out = Vec::new();
        assert!(append(&record(0x400, &[], &[0x400, 0x500]), &POINTS, &mut out));
        let found = words(&out);
        let head = u64::from(kind::SAMPLE) | u64::from(misc::USER) << 32 | (out.len() as u64) << 48;
        assert_eq!(found[0], head);
        assert_eq!(&found[1..3], [101, 0x400]);
        assert_eq!(found[3], 10 | 12 << 32);
        assert_eq!(&found[4..8], [77, 0x2000, 2, 1]);
        assert_eq!(&found[8..12], [3, CONTEXT_USER, 0x400, 0x500]);
        let raw = &out[12 * 8 + 4..];
        let hit = Hit::read(raw, false).unwrap();
        assert_eq!((hit.value, hit.old, hit.sequence), (5, 4, 3));
        assert_eq!(out.len() % 8, 0);
    }

    #[test]
    fn a_hit_in_the_kernel_has_both_stacks() {
        let ip = 0xffff_ffff_8100_0000;
        let mut out = Vec::new();
        assert!(append(&record(ip, &[ip], &[0x400]), &POINTS, &mut out));
        assert_eq!(&words(&out)[8..13], [4, CONTEXT_KERNEL, ip, CONTEXT_USER, 0x400]);
    }

    #[test]
    fn without_a_stack_the_chain_is_the_hit_and_what_is_no_record_is_left_out() {
        let mut out = Vec::new();
        assert!(append(&record(0x400, &[], &[]), &POINTS, &mut out));
        assert_eq!(&words(&out)[8..11], [2, CONTEXT_USER, 0x400]);
        let before = out.len();
        assert!(!append(&record(0x400, &[], &[])[..71], &POINTS, &mut out));
        assert!(!append(&record(0x400, &[], &[]), &POINTS[..1], &mut out));
        assert_eq!(out.len(), before);
    }
}
