//! The readers' threads: started before anything is named, ended after the events are off.

use std::io;

use pmuscope_counters::Ring;

use super::Session;
use crate::control::ControlState;
use crate::error::RecorderError;
use crate::plan::ReaderPlan;
use crate::reader::{self, ReaderOptions, ReaderReport, RingSlot};
use crate::sink::SinkOptions;
use crate::source::Feed;
use crate::wake::Wake;

/// Runs `body` while readers drain `rings`, and gives what it returned with the readers' reports.
pub(super) fn with_readers<T>(
    session: &Session<'_>,
    shared: &ControlState<'_>,
    rings: Vec<Ring>,
    plans: &[ReaderPlan],
    body: impl FnOnce() -> T,
) -> Result<(T, Vec<ReaderReport>), RecorderError> {
    let sink = SinkOptions {
        compression: session.options.compression,
        aio: session.options.aio,
        bind: session.topology.nodes.len() > 1,
        ring_size: rings.first().map_or(0, |ring| ring.size()),
    };
    let options = ReaderOptions { affinity: session.options.affinity, sink };
    let (count, clockid) = (rings.len(), session.options.clockid);
    let mut slots: Vec<Option<RingSlot>> = rings
        .into_iter()
        .enumerate()
        .map(|(index, ring)| {
            let node = ring.cpu().and_then(|cpu| session.topology.node_of(cpu));
            Some(RingSlot::new(index, ring, node))
        })
        .collect();
    // All that can fail comes before the first thread: a reader that nobody tells to end never does.
    let wakes = plans.iter().map(|_| Wake::new()).collect::<io::Result<Vec<_>>>();
    let wakes = wakes.map_err(RecorderError::system("eventfd"))?;
    let over = Wake::new().map_err(RecorderError::system("eventfd"))?;
    let over = &over;
    std::thread::scope(|threads| {
        let mut readers = Vec::new();
        let mut failure = None;
        for (number, (plan, wake)) in plans.iter().zip(&wakes).enumerate() {
            let own = plan.rings.iter().filter_map(|&ring| slots[ring].take()).collect();
            let (set, options) = (&session.set, &options);
            let reader = std::thread::Builder::new()
                .name(format!("reader-{number}"))
                .spawn_scoped(threads, move || reader::run(shared, set, plan, own, options, wake));
            match reader {
                Ok(reader) => readers.push(reader),
                Err(error) => failure = Some(RecorderError::system("starting a reader")(error)),
            }
        }
        let source = match (&session.source, &failure) {
            (Some(sourced), None) => {
                let feed = Feed { shared, ring: count, wake: over, clockid };
                let run = move || sourced.source.run(&feed);
                let started =
                    std::thread::Builder::new().name("source".into()).spawn_scoped(threads, run);
                match started {
                    Ok(source) => Some(source),
                    Err(error) => {
                        failure = Some(RecorderError::system("starting a source")(error));
                        None
                    }
                }
            }
            _ => None,
        };
        let result = match failure {
            None => Ok(body()),
            Some(error) => Err(error),
        };
        shared.start_draining();
        wakes.iter().for_each(Wake::ring);
        over.ring();
        if let Some(source) = source {
            source.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        }
        let reports = readers
            .into_iter()
            // A panic in a reader is a defect; it is passed on, not hidden.
            .map(|reader| reader.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
            .collect();
        result.map(|result| (result, reports))
    })
}
