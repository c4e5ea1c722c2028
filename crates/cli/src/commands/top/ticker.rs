//! From what is followed to one profile after the other.

use std::path::Path;
use std::time::Duration;

use pmuscope_perfdata::reader::Metadata;
use pmuscope_profile::{GroupBy, Interval, Live, Names, Options, Profile, TasksBy};
use pmuscope_recorder::{Following, Piece};
use pmuscope_symbols::{KernelIdentity, Request, Resident, Resolved, Symbolizer};

/// How often it is looked whether to go on.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Counts what is followed, interval by interval.
pub(super) struct Ticker<'a> {
    following: &'a Following<'a>,
    live: Live,
    metadata: Metadata,
    names: KeptNames,
    running: KernelIdentity,
    /// When the last round began: what is older than the one before has come.
    round: u64,
    /// End of the last interval, nanoseconds of the records' clock.
    end: u64,
}

/// An interval that is over.
pub(super) struct Tick {
    pub(super) profile: Profile,
    /// There will be no other: the user asked for the end, or those who were looked at are gone.
    pub(super) last: bool,
}

impl<'a> Ticker<'a> {
    pub(super) fn new(following: &'a Following<'a>, symbolizer: Symbolizer) -> Self {
        let apart = GroupBy { chains: false, tasks: TasksBy::Process, cpus: true };
        Self {
            live: Live::new(following.events(), apart),
            metadata: following.metadata(),
            running: symbolizer.running_kernel(),
            names: KeptNames(Resident::new(symbolizer)),
            round: 0,
            end: following.began(),
            following,
        }
    }

    /// Waits for the end of the next interval, of this length; of a shorter one where `stops` says so or
    /// all who are looked at have ended.
    pub(super) fn next(
        &mut self,
        length: Duration,
        mut stops: impl FnMut() -> bool,
    ) -> anyhow::Result<Tick> {
        let mut end = self.end + length.as_nanos() as u64;
        let (mut last, mut complete) = (false, 0);
        while complete < end {
            if !last && (stops() || self.following.has_ended()) {
                end = end.min(self.following.now());
                last = true;
            }
            match self.following.next(LOOK_EVERY)? {
                Some(Piece::Records(records)) => self.live.push(&records),
                Some(Piece::Round(began)) => {
                    complete = std::mem::replace(&mut self.round, began);
                    self.live.complete_up_to(complete.saturating_sub(1), end);
                }
                None => {}
            }
        }
        self.end = end;
        let (info, metadata) = (self.following.account(end), self.metadata.clone());
        // Rows are made of the aggregate, as they are asked for.
        let options = Options::COUNTS;
        let interval = Interval { info, metadata };
        let profile = self.live.finish(interval, &self.running, options, &mut self.names)?;
        Ok(Tick { profile, last })
    }
}

/// Names that stay in memory.
struct KeptNames(Resident);

impl Names for KeptNames {
    fn jit_dump(&mut self, pid: i32, path: &Path) {
        self.0.add_jit_dump(pid, path.to_owned());
    }

    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        self.0.resolve_all(requests)
    }
}
