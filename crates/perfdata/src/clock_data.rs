//! The clock of the time stamps against wall-clock time, as in the feature CLOCK_DATA of `perf record -k` and of pmuscope.
//!
//! ```text
//!  u32 version (1) │ u32 CLOCK_* │ u64 wall-clock time │ u64 time of that clock
//! ```

use crate::reader::bytes::Fields;

/// The version that is known.
const VERSION: u32 = 1;

/// Correspondence of two clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockData {
    /// `CLOCK_*` of the time stamps.
    pub clockid: u32,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
    /// Nanoseconds on `clockid`.
    pub clock_ns: u64,
}

impl ClockData {
    /// From the feature; `None` in a version that is not known.
    pub(crate) fn read(mut fields: Fields<'_>) -> Option<Self> {
        let (version, clockid) = (fields.u32()?, fields.u32()?);
        let (wall_ns, clock_ns) = (fields.u64()?, fields.u64()?);
        (version == VERSION).then_some(Self { clockid, wall_ns, clock_ns })
    }

    /// The feature, in the byte order of this machine.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let Self { clockid, wall_ns, clock_ns } = self;
        let front = [VERSION, clockid].into_iter().flat_map(u32::to_ne_bytes);
        front.chain([wall_ns, clock_ns].into_iter().flat_map(u64::to_ne_bytes)).collect()
    }

    /// Wall-clock time of a time stamp, nanoseconds since 1970; `None` if that is before 1970 or after 2554.
    #[must_use]
    pub fn wall_ns_at(&self, time: u64) -> Option<u64> {
        let wall = i128::from(self.wall_ns) + i128::from(time) - i128::from(self.clock_ns);
        u64::try_from(wall).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Endian;

    #[test]
    fn written_clock_data_gives_wall_clock_times() {
        let clock = ClockData { clockid: 1, wall_ns: 1_700_000_000_000_000_000, clock_ns: 5_000 };
        let mut bytes = clock.to_bytes();
        let read = |bytes: &[u8]| ClockData::read(Fields::new(bytes, Endian::NATIVE));
        assert_eq!((read(&bytes), read(&bytes[..20])), (Some(clock), None));
        bytes[..4].copy_from_slice(&2_u32.to_ne_bytes());
        assert_eq!(read(&bytes), None);
        assert_eq!(clock.wall_ns_at(5_007), Some(1_700_000_000_000_000_007));
        assert_eq!(clock.wall_ns_at(4_000), Some(1_699_999_999_999_999_000));
        assert_eq!(clock.wall_ns_at(u64::MAX), None);
    }
}
