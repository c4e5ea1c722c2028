//! Processes that are left alone: why, and until which decision.

use std::collections::BTreeMap;

/// A process whose change gained nothing is tried again after so many decisions, then after twice as many.
const FIRST_PAUSE: u64 = 16;
/// Doubled at most so often: a thousand pauses are for good in all but name.
const MOST_DOUBLED: u32 = 10;

/// Why and until when a process is left alone.
#[derive(Debug)]
struct Held {
    reason: String,
    until: Until,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Number of a decision.
    Decision(u64),
    /// For good: its pages go back and forth.
    PingPong,
    /// For good: it cannot be changed.
    Refused,
}

/// All that are left alone.
#[derive(Debug, Default)]
pub(super) struct LeftAlone {
    held: BTreeMap<u32, Held>,
    /// By process: changes in a row that gained nothing.
    tries: BTreeMap<u32, u32>,
}

impl LeftAlone {
    /// Those whose pause ends with decision `round` may be changed again.
    pub(super) fn release(&mut self, round: u64) {
        self.held.retain(|_, held| !matches!(held.until, Until::Decision(at) if at <= round));
    }

    /// For good, as its pages go back and forth.
    pub(super) fn ping_pong(&mut self, pid: u32, why: &str) {
        self.held.insert(pid, Held { reason: why.to_owned(), until: Until::PingPong });
    }

    /// For good, as it cannot be changed.
    pub(super) fn refuse(&mut self, pid: u32, why: String) {
        self.held.insert(pid, Held { reason: why, until: Until::Refused });
    }

    /// Until some decisions after `round`, as a change gained nothing; longer each time.
    pub(super) fn pause(&mut self, pid: u32, round: u64, why: &str) {
        let tries = self.tries.entry(pid).or_default();
        let pause = FIRST_PAUSE << (*tries).min(MOST_DOUBLED);
        *tries += 1;
        if !self.is_for_good(pid) {
            let reason = format!("already tried: {why}; next try in {pause} decisions");
            self.held.insert(pid, Held { reason, until: Until::Decision(round + pause) });
        }
    }

    /// A change gained something: the next that does not is the first again.
    pub(super) fn gained(&mut self, pid: u32) {
        self.tries.remove(&pid);
    }

    /// Whether nothing will be done to it any more.
    pub(super) fn is_for_good(&self, pid: u32) -> bool {
        self.until(pid).is_some_and(|until| !matches!(until, Until::Decision(_)))
    }

    /// Whether its pages went back and forth.
    pub(super) fn goes_back_and_forth(&self, pid: u32) -> bool {
        self.until(pid) == Some(Until::PingPong)
    }

    /// Why, by process.
    pub(super) fn reasons(&self) -> BTreeMap<u32, String> {
        self.held.iter().map(|(pid, held)| (*pid, held.reason.clone())).collect()
    }

    fn until(&self, pid: u32) -> Option<Until> {
        self.held.get(&pid).map(|held| held.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions from `round` on until the process may be changed again.
    fn pause_from(alone: &mut LeftAlone, round: u64) -> u64 {
        alone.pause(7, round, "no gain");
        (1..)
            .find(|after| {
                alone.release(round + after);
                alone.reasons().is_empty()
            })
            .unwrap()
    }

    #[test]
    fn what_gains_nothing_again_waits_twice_as_long() {
        let mut alone = LeftAlone::default();
        let mut round = 3;
        for expected in [16, 32, 64, 128] {
            let pause = pause_from(&mut alone, round);
            assert_eq!(pause, expected);
            round += pause;
        }
        alone.gained(7);
        assert_eq!(pause_from(&mut alone, round), 16, "a gain between");
        let all: Vec<u64> = (0..14).map(|_| pause_from(&mut alone, 0)).collect();
        assert_eq!(all[12..], [FIRST_PAUSE << MOST_DOUBLED; 2]);
    }

    #[test]
    fn what_is_refused_or_goes_back_and_forth_is_left_alone_for_good() {
        let mut alone = LeftAlone::default();
        alone.refuse(1, "EPERM".into());
        alone.ping_pong(2, "3 times");
        alone.pause(1, 0, "no gain");
        alone.pause(3, 0, "no gain");
        alone.release(u64::MAX);
        assert_eq!([1, 2, 3].map(|pid| alone.is_for_good(pid)), [true, true, false]);
        assert_eq!([1, 2, 3].map(|pid| alone.goes_back_and_forth(pid)), [false, true, false]);
        let reasons = [(1, "EPERM".to_owned()), (2, "3 times".to_owned())];
        assert_eq!(alone.reasons(), reasons.into());
    }
}
