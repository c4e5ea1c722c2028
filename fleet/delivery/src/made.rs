//! Rows that tests send.

use std::sync::Arc;

use pmuscope_dataset::{FrameRow, IntervalRow, Rows, SampleRow, Timestamp};
use proptest::prelude::*;

pub(crate) const STACK: i64 = 11;
pub(crate) const OTHER_STACK: i64 = -12;
pub(crate) const BIN_US: i64 = 10_000_000;
pub(crate) const RECORDED_US: i64 = 9_000_000;
pub(crate) const START: Timestamp = Timestamp(1_764_028_800_000_000);

/// Frames of [`STACK`] (memcpy, inlined in copy, from main) and of [`OTHER_STACK`] (an unknown function, from main).
pub(crate) fn frames() -> Vec<FrameRow> {
    vec![
        frame(STACK, 0, 0, 0x1234, Some("copy")),
        frame(STACK, 0, 1, 0x1234, Some("memcpy")),
        frame(STACK, 1, 0, 0x1040, Some("main")),
        frame(OTHER_STACK, 0, 0, 0x1500, None),
        frame(OTHER_STACK, 1, 0, 0x1040, Some("main")),
    ]
}

fn frame(
    stack_id: i64,
    depth: i64,
    inline_depth: i64,
    address: i64,
    function: Option<&str>,
) -> FrameRow {
    FrameRow {
        stack_id,
        depth,
        inline_depth,
        build_id: Some("c0ffee".into()),
        address: Some(address),
        function: function.map(Arc::from),
        module: "/bin/checkout".into(),
        file: function.map(|name| format!("{name}.c").into()),
        line: function.map(|_| 7),
    }
}

/// Samples of `checkout` 1.3 in a container, by two events, and of `redis` of a unit.
pub(crate) fn rows() -> Rows {
    let checkout = |event, stack_id, samples, weight, weight_unit| SampleRow {
        version: Some("1.3".into()),
        container: Some("8f3a".into()),
        pod: Some("0d9f-11".into()),
        ..sample("checkout", event, stack_id, (samples, weight, weight_unit))
    };
    let redis = SampleRow {
        unit: Some("redis.service".into()),
        ..sample("redis", "cpu-clock", STACK, (3, 3000, "us"))
    };
    let samples = vec![
        checkout("cpu-clock", STACK, 5, 5000, "us"),
        checkout("cpu-clock", OTHER_STACK, 1, 1001, "us"),
        checkout("cycles", STACK, 7, 70, "thousand"),
        checkout("faults", STACK, 2, 2, "sample"),
        redis,
    ];
    let interval = IntervalRow {
        start: START,
        bin_us: BIN_US,
        host: "web-1".into(),
        boot: None,
        event: "cpu-clock".into(),
        cpus: Some(2),
        recorded_us: RECORDED_US,
        samples: 9,
        lost: Some(0),
        throttled: 0,
        own_cpu_us: None,
        recorder: None,
        batch: 1,
    };
    Rows { samples, frames: frames(), intervals: vec![interval], ..Rows::default() }
}

/// A sample with its number, weight and unit.
pub(crate) fn sample(
    service: &str,
    event: &str,
    stack_id: i64,
    (samples, weight, weight_unit): (i64, i64, &str),
) -> SampleRow {
    SampleRow {
        start: START,
        bin_us: BIN_US,
        host: "web-1".into(),
        boot: None,
        service: service.into(),
        version: None,
        unit: None,
        container: None,
        pod: None,
        event: event.into(),
        stack_id,
        samples,
        weight,
        weight_unit: weight_unit.into(),
        batch: 1,
    }
}

prop_compose! {
    fn any_sample()(
        service in prop::sample::select(vec!["a", "b", "c"]),
        event in prop::sample::select(vec![("cpu-clock", "us"), ("cycles", "thousand"), ("x", "sample")]),
        stack in prop::sample::select(vec![STACK, OTHER_STACK, 5]),
        bin in 0..3_i64,
        samples in 1..1000_i64,
    ) -> SampleRow {
        let sample = sample(service, event.0, stack, (samples, samples * 3, event.1));
        SampleRow { start: Timestamp(bin * BIN_US), ..sample }
    }
}

prop_compose! {
    /// Samples of services, events, bins and stacks, of one of which there are no frames.
    pub(crate) fn any_rows()(samples in prop::collection::vec(any_sample(), 0..60)) -> Rows {
        Rows { samples, frames: frames(), ..Rows::default() }
    }
}
