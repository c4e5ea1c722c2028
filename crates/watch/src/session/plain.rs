//! Watching without programs: where BPF is not allowed, hits are samples of the kernel, from an event for
//! each thread on each CPU. What a hit wrote is not known then, nor can hits be held to a limit.

use std::sync::{Mutex, PoisonError};

use pmuscope_abi::AttrFlags;
use pmuscope_events::{Event, Group, Origin};
use pmuscope_perfdata::info::RecordingInfo;
use pmuscope_perfdata::watch::{ArmedBlock, Means, WatchInfo};
use pmuscope_recorder::{Feed, RecorderError, Source};

use super::{AtBegin, WatchOptions, points_of_file};
use pmuscope_counters::EventRequest;

/// Says in a recording what its breakpoints watch.
pub struct Plain {
    options: WatchOptions,
    at_begin: Mutex<Option<AtBegin>>,
}

impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plain").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Plain {
    /// For points that are all armed at once.
    #[must_use]
    pub fn new(options: WatchOptions) -> Self {
        Self { options, at_begin: Mutex::new(None) }
    }

    /// As [`super::Watch::at_begin`].
    pub fn at_begin(&self, act: impl FnOnce() -> Result<(), RecorderError> + Send + 'static) {
        *self.at_begin.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
    }

    /// The points as events to be recorded, in user mode: who may not use BPF may not look into the
    /// kernel either.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        let event = |(number, point): (usize, &crate::points::Point)| {
            let mut attr = point.attr();
            attr.flags.remove(AttrFlags::DISABLED);
            attr.flags |= AttrFlags::EXCLUDE_KERNEL;
            let name = self.options.name_of(number);
            Event {
                name: name.clone(),
                typed: name,
                ..Event::new("breakpoint", attr, Origin::Breakpoint)
            }
        };
        let alone = |event| Group {
            name: None,
            events: vec![event],
            leader_sampling: false,
            weak: false,
            braces: false,
        };
        self.options.points.iter().enumerate().map(event).map(alone).collect()
    }
}

impl Source for Plain {
    fn events(&self) -> Vec<(EventRequest, u64)> {
        Vec::new()
    }

    fn observe_thread(&self, _tid: u32) -> Result<(), RecorderError> {
        Ok(())
    }

    fn observe_cpu(&self, _cpu: u32) -> Result<(), RecorderError> {
        Ok(())
    }

    fn forget_threads(&self) {}

    fn begin(&self) -> Result<(), RecorderError> {
        let act = self.at_begin.lock().unwrap_or_else(PoisonError::into_inner).take();
        act.map_or(Ok(()), |act| act())
    }

    fn end(&self) {}

    fn run(&self, feed: &Feed<'_>) {
        // Rounds of the file end only if all who add to it have looked.
        loop {
            let (over, position) = (feed.is_over(), feed.position());
            feed.append(position, &[]);
            if over {
                return;
            }
            feed.wait(std::time::Duration::from_millis(200));
        }
    }

    fn describe(&self, info: &mut RecordingInfo, first: usize, complete: bool) {
        let own = first.saturating_sub(self.options.points.len());
        let from_ns = info.started_clock_ns;
        let armed_ns = (info.duration_s * 1e9) as u64;
        let counted = info.events.iter().skip(own).map(|event| event.counted.unwrap_or(0));
        let block = ArmedBlock {
            from_ns,
            until_ns: from_ns + armed_ns,
            armed_ns,
            hits: counted.collect(),
            ..ArmedBlock::default()
        };
        info.scope = self.options.scope.clone().unwrap_or_else(|| info.scope.clone());
        info.watch = Some(WatchInfo {
            targets: self.options.targets.clone(),
            points: points_of_file(&self.options.points, own),
            means: Means::Samples,
            every: 1,
            lost: info.events.iter().skip(own).map(|event| event.lost.unwrap_or(0)).collect(),
            blocks: if complete { vec![block] } else { Vec::new() },
            cache_line: self.options.cache_line,
            ..WatchInfo::default()
        });
    }
}
