//! What runs now: a machine that is followed, as one profile after the other, with names.
//!
//! ```text
//!  rings ─► recorder::follow ─► Ticker ─┬─ profile::Live: counts of the interval ─┬─► Profile
//!                                       └─ symbols::Resident: names that are kept ─┘
//! ```
//! Nothing is written to a file: an interval is counted while it runs, and its profile is made when all of its records
//! have come, some 200 ms after its end.

#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use pmuscope_perfdata::reader::{Metadata, ReadError};
use pmuscope_profile::{GroupBy, Interval, Live, Names, Options, Profile};
use pmuscope_recorder::{Following, Piece, RecorderError};
use pmuscope_symbols::{KernelIdentity, Request, Resident, Resolved, Symbolizer};

/// How often the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there is no next interval.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The recorder could not go on.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
    /// The profile could not be made.
    #[error(transparent)]
    Profile(#[from] ReadError),
}

/// Counts what is followed, interval by interval.
pub struct Ticker<'a> {
    following: &'a Following<'a>,
    live: Live,
    metadata: Metadata,
    names: KnownNames,
    running: KernelIdentity,
    options: Options,
    /// When the last round began: what is older than the one before has come.
    round: u64,
    /// End of the last interval, nanoseconds of the records' clock.
    end: u64,
}

/// An interval that is over.
#[derive(Debug)]
pub struct Tick {
    /// What was counted in it.
    pub profile: Profile,
    /// There will be no other: the user asked for the end, or all processes that were followed have ended.
    pub last: bool,
}

impl<'a> Ticker<'a> {
    /// Counts as `group` says, from now on; profiles are made with `options` and have these names.
    #[must_use]
    pub fn new(
        following: &'a Following<'a>,
        names: KnownNames,
        group: GroupBy,
        options: Options,
    ) -> Self {
        Self {
            live: Live::new(following.events(), group),
            metadata: following.metadata(),
            running: names.running.clone(),
            names,
            options,
            round: 0,
            end: following.began(),
            following,
        }
    }

    /// The names that were found, for another one that goes on.
    #[must_use]
    pub fn into_names(self) -> KnownNames {
        self.names
    }

    /// The end of the last interval, or where the first one begins: nanoseconds of [`Following::now`].
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Waits for the end of the next interval, of this length; of a shorter one where `stops` says so or all processes
    /// that are followed have ended.
    ///
    /// # Errors
    /// [`LiveError`], after which nothing more comes.
    pub fn next(
        &mut self,
        length: Duration,
        mut stops: impl FnMut() -> bool,
    ) -> Result<Tick, LiveError> {
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
        let interval = Interval { info, metadata };
        let options = self.options;
        let profile = self.live.finish(interval, &self.running, options, &mut self.names)?;
        Ok(Tick { profile, last })
    }
}

/// Names that stay in memory from one interval to the next.
pub struct KnownNames {
    resident: Resident,
    running: KernelIdentity,
}

impl std::fmt::Debug for KnownNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownNames").finish_non_exhaustive()
    }
}

impl KnownNames {
    /// None yet; they will be found by `symbolizer`.
    #[must_use]
    pub fn new(symbolizer: Symbolizer) -> Self {
        Self { running: symbolizer.running_kernel(), resident: Resident::new(symbolizer) }
    }
}

impl Names for KnownNames {
    fn jit_dump(&mut self, pid: i32, path: &Path) {
        self.resident.add_jit_dump(pid, path.to_owned());
    }

    fn resolve(&mut self, requests: &[Request<'_>]) -> Vec<Resolved> {
        self.resident.resolve_all(requests)
    }
}
