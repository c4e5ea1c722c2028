//! Whether a sample ends a window, and whether that window is as it should be.

use serde::Serialize;

use super::plan::{Group, Scheme, WindowPlan};
use super::shot::{NO_CPU, Shot};

/// Why a window does not count, in the order in which it is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The kernel suspended sampling in it.
    Throttled,
    /// The first one after that: counters that do not sample had gone on.
    AfterThrottle,
    /// The sample that should open it is not there.
    NoStart,
    /// The events that bound it were not as far apart as when they were set.
    WrongOffset,
    /// It is not as long as it should be.
    WrongLength,
    /// Another task ran in it.
    ContextSwitch,
    /// The function it ends in has no name.
    NoSymbol,
    /// It starts in another function than it ends in.
    OtherSymbol,
    /// A function returned in it.
    Return,
}

impl Cause {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Throttled,
        Self::AfterThrottle,
        Self::NoStart,
        Self::WrongOffset,
        Self::WrongLength,
        Self::ContextSwitch,
        Self::NoSymbol,
        Self::OtherSymbol,
        Self::Return,
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::AfterThrottle => "after a throttle",
            Self::NoStart => "no start",
            Self::WrongOffset => "wrong offset",
            Self::WrongLength => "wrong length",
            Self::ContextSwitch => "context switch",
            Self::NoSymbol => "no symbol",
            Self::OtherSymbol => "other symbol",
            Self::Return => "return",
        }
    }
}

/// What a sample is to windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowVerdict {
    /// It ends none.
    Nothing,
    /// It was taken while the phase was not set.
    Outside,
    /// It ends one that does not count.
    Rejected(Cause),
    /// It ends one, as far as can be told without symbols.
    Window,
}

/// When the kernel suspended sampling.
#[derive(Debug, Default)]
pub(crate) struct Throttles {
    /// CPU, where known, start and end; in order, those of a CPU do not overlap.
    spans: Vec<(u32, u64, u64)>,
}

impl Throttles {
    /// From records in the order of time: CPU, time, whether sampling went on.
    pub(crate) fn new(records: &[(u32, u64, bool)]) -> Self {
        let mut spans: Vec<(u32, u64, u64)> = Vec::new();
        let mut records = records.to_vec();
        records.sort_by_key(|&(cpu, time, _)| (cpu, time));
        for (cpu, time, goes_on) in records {
            match spans.last_mut().filter(|span| span.0 == cpu) {
                Some(span) if goes_on => span.2 = span.2.max(time),
                // Several events of a group are suspended at once.
                Some(span) if span.2 > time || span.1 == time => {}
                _ if goes_on => {}
                _ => spans.push((cpu, time, time)),
            }
        }
        Self { spans }
    }

    /// The suspensions of a CPU that end after `from` and start up to `to`.
    fn between(&self, cpu: u32, from: u64, to: u64) -> Option<(u64, u64)> {
        if self.spans.is_empty() {
            return None;
        }
        let of = |cpu| {
            let behind = self.spans.partition_point(|&(on, start, _)| (on, start) <= (cpu, to));
            let span = self.spans[..behind].last().filter(|span| span.0 == cpu)?;
            (span.2 > from || span.1 > from).then_some((span.1, span.2))
        };
        // Records that do not tell their CPU can be of any.
        of(cpu).or_else(|| of(NO_CPU))
    }
}

/// How far lengths may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tolerance {
    /// Units of the event; by default half of the window.
    pub(crate) length: Option<u64>,
}

impl Tolerance {
    fn holds(self, length: u64, wanted: u64, least: u64) -> bool {
        length.abs_diff(wanted) <= self.length.unwrap_or(wanted / 2).max(least)
    }
}

/// Everything that judging needs.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    pub(crate) plan: &'a WindowPlan,
    pub(crate) throttles: &'a Throttles,
    pub(crate) tolerance: Tolerance,
}

impl Judge<'_> {
    /// What `shot` is, after the two samples before it in its stream.
    #[inline]
    pub(crate) fn verdict(
        &self,
        group: &Group,
        before: Option<&Shot>,
        previous: Option<&Shot>,
        shot: &Shot,
    ) -> WindowVerdict {
        match group.scheme {
            Scheme::Strobe(at) => self.strobed(group, at, before, previous, shot),
            Scheme::BackToBack(period) => self.back_to_back(group, period, previous, shot),
            Scheme::Alternating { short, limit } => {
                let length = previous.map(|from| shot.values[0].wrapping_sub(from.values[0]));
                // The long half is no window.
                if length.is_some_and(|length| length > limit && length < u64::MAX / 2) {
                    return WindowVerdict::Nothing;
                }
                match self.back_to_back(group, Some(short), previous, shot) {
                    WindowVerdict::Window => self.after(before, previous, shot),
                    other => other,
                }
            }
        }
    }

    fn back_to_back(
        &self,
        group: &Group,
        period: Option<u64>,
        previous: Option<&Shot>,
        shot: &Shot,
    ) -> WindowVerdict {
        // The first of all: nobody knows since when it counted.
        let Some(previous) = previous else { return WindowVerdict::Nothing };
        if let Some(cause) = self.throttled(previous, shot) {
            return WindowVerdict::Rejected(cause);
        }
        let length = shot.values[0].wrapping_sub(previous.values[0]);
        let as_asked = period.is_none_or(|period| self.tolerance.holds(length, period, 0));
        if !as_asked || length == 0 || length > u64::MAX / 2 || shot.time < previous.time {
            return WindowVerdict::Rejected(Cause::WrongLength);
        }
        switched(group, previous, shot)
    }

    /// A short window whose long one held a suspension.
    fn after(&self, before: Option<&Shot>, previous: Option<&Shot>, shot: &Shot) -> WindowVerdict {
        let suspended = before.zip(previous).is_some_and(|(before, previous)| {
            self.throttles
                .between(shot.cpu, before.time, previous.time)
                .is_some_and(|(_, end)| end > before.time && end <= previous.time)
        });
        if suspended {
            WindowVerdict::Rejected(Cause::AfterThrottle)
        } else {
            WindowVerdict::Window
        }
    }

    fn throttled(&self, previous: &Shot, shot: &Shot) -> Option<Cause> {
        let (start, _) = self.throttles.between(shot.cpu, previous.time, shot.time)?;
        Some(if start > previous.time { Cause::Throttled } else { Cause::AfterThrottle })
    }

    fn strobed(
        &self,
        group: &Group,
        number: usize,
        before: Option<&Shot>,
        previous: Option<&Shot>,
        shot: &Shot,
    ) -> WindowVerdict {
        let epoch = self
            .plan
            .strobe
            .as_ref()
            .and_then(|strobe| Some((strobe, strobe.epoch_at(shot.cpu, shot.time)?)));
        let Some((strobe, epoch)) = epoch.filter(|(_, epoch)| epoch.group as usize == number)
        else {
            return WindowVerdict::Outside;
        };
        let is = |shot: &Shot, edge: usize| group.events[group.edges[edge]] == shot.event;
        let Some(edge) = (0..group.edges.len()).find(|&edge| is(shot, edge)) else {
            return WindowVerdict::Nothing;
        };
        let Some(opens) = edge.checked_sub(1) else { return WindowVerdict::Nothing };
        let previous = previous.filter(|previous| previous.time >= epoch.from_ns);
        if let Some(previous) = previous
            && let Some(cause) = self.throttled(previous, shot)
        {
            return WindowVerdict::Rejected(cause);
        }
        if let (Some(before), Some(previous)) = (before, previous)
            && self.after(Some(before), Some(previous), shot) != WindowVerdict::Window
        {
            return WindowVerdict::Rejected(Cause::AfterThrottle);
        }
        let counted = |from: &Shot| shot.values[0].wrapping_sub(from.values[0]);
        let start = previous.filter(|previous| is(previous, opens));
        let Some(start) = start.filter(|start| counted(start) < epoch.period / 2) else {
            return WindowVerdict::Rejected(Cause::NoStart);
        };
        let keeps = |shot: &Shot| {
            let apart = shot.values[0].wrapping_sub(shot.values[group.edges[edge]]);
            let off = apart.wrapping_sub(epoch.apart(edge).unwrap_or(apart)).cast_signed();
            off.unsigned_abs() <= strobe.tolerance
        };
        let offset = |edge: usize| match edge {
            0 => 0,
            edge => epoch.offsets.get(edge - 1).copied().unwrap_or(epoch.window * edge as u64),
        };
        if !keeps(start) || !keeps(shot) {
            return WindowVerdict::Rejected(Cause::WrongOffset);
        }
        let wanted = offset(edge).saturating_sub(offset(opens));
        let length = counted(start);
        if length == 0 || !self.tolerance.holds(length, wanted, strobe.tolerance) {
            return WindowVerdict::Rejected(Cause::WrongLength);
        }
        switched(group, start, shot)
    }
}

fn switched(group: &Group, start: &Shot, shot: &Shot) -> WindowVerdict {
    let counted = group.switches.is_some_and(|at| shot.values[at] != start.values[at]);
    if counted || shot.tid != start.tid || shot.pid != start.pid {
        return WindowVerdict::Rejected(Cause::ContextSwitch);
    }
    WindowVerdict::Window
}
