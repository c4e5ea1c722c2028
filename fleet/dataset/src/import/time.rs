//! Time stamps of a recording as wall-clock time.

use pmuscope_profile::Profile;

use crate::column::Timestamp;

/// What the recording's clock showed at a moment of wall-clock time.
#[derive(Debug, Clone, Copy)]
pub(super) struct WallClock {
    clock_ns: u64,
    wall_us: i64,
}

impl WallClock {
    /// As the recorder noted it, or with the first sample at `started`.
    pub(super) fn of(profile: &Profile, started: Option<Timestamp>) -> Option<Self> {
        let info = profile.info().filter(|info| info.started_unix_ns > 0);
        let noted = info.map(|info| Self {
            clock_ns: info.started_clock_ns,
            wall_us: (info.started_unix_ns / 1000) as i64,
        });
        let first = profile.aggregate.timeline.start;
        noted.or_else(|| Some(Self { clock_ns: first, wall_us: started?.0 }))
    }

    /// Microseconds since 1970 of a time stamp.
    pub(super) fn wall_us(self, clock_ns: u64) -> i64 {
        let since = i128::from(clock_ns) - i128::from(self.clock_ns);
        let us = i128::from(self.wall_us) + since.div_euclid(1000);
        us.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// From when to when was recorded: as the recorder says, else from the first to the last block with samples.
    pub(super) fn recorded_us(self, profile: &Profile) -> (i64, i64) {
        let timeline = profile.aggregate.timeline;
        let blocks_ns = u64::from(timeline.blocks).saturating_mul(timeline.block_ns);
        let (start, length_us) = match (profile.info(), profile.duration_s) {
            (Some(info), Some(seconds)) if info.started_unix_ns > 0 => {
                (info.started_clock_ns, (seconds * 1e6) as i64)
            }
            _ => (timeline.start, (blocks_ns / 1000) as i64),
        };
        let start_us = self.wall_us(start);
        (start_us, start_us.saturating_add(length_us))
    }
}
