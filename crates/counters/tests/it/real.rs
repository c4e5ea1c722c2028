use std::time::{Duration, Instant};

use pmuscope_abi::record::{Records, kind};
use pmuscope_abi::{Attr, AttrFlags, ReadFormat, SampleType, event_type, software};
use pmuscope_counters::{
    CountersError, EventRequest, Host, OpenOptions, RingSize, SamplingSet, Scope,
};
use pmuscope_machine::Machine;

fn clock_of_this_thread() -> EventRequest {
    let attr = Attr {
        event_type: event_type::SOFTWARE,
        config: software::TASK_CLOCK,
        sample: 1_000_000,
        sample_type: SampleType::IDENTIFIER | SampleType::IP | SampleType::TID | SampleType::TIME,
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING,
        flags: AttrFlags::DISABLED
            | AttrFlags::EXCLUDE_KERNEL
            | AttrFlags::EXCLUDE_HV
            | AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    EventRequest {
        name: "task-clock:u".into(),
        attr,
        leader: None,
        cpus: None,
        any_task: false,
        max_precise: false,
    }
}

#[test]
fn samples_of_a_spinning_thread_arrive_with_its_ids() {
    let machine = Machine::host();
    let topology = machine.topology().unwrap();
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let options = OpenOptions { ring_size: RingSize::AtMost(64 << 10) };
    let scope = Scope::Threads(vec![tid]);
    let opened = SamplingSet::open(
        &Host,
        &machine,
        &topology,
        &scope,
        vec![clock_of_this_thread()],
        options,
    );
    let mut set = match opened {
        Ok(set) => set,
        Err(error @ CountersError::Open { .. }) => {
            eprintln!("skipped: this machine lets us observe nothing: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let mut rings = set.take_rings();
    set.enable(&Host, |_| ()).unwrap();
    let end = Instant::now() + Duration::from_millis(100);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
    set.disable(&Host).unwrap();

    let pending = rings[0].pending();
    let id = set.ids(0)[0];
    let mut samples = 0;
    for (header, record) in Records::new(pending.first) {
        if header.kind == kind::SAMPLE {
            samples += 1;
            assert_eq!(record[8..16], id.to_ne_bytes());
            assert_eq!(record[28..32], tid.to_ne_bytes());
        }
    }
    let value = set.read(&Host, &set.events()[0]).unwrap().unwrap();
    let expected = value.value / 1_000_000;
    assert!(samples > 0 && samples <= expected + 1, "{samples} samples, {expected} periods");
    assert_eq!(value.enabled_ns, value.running_ns);
    let end = pending.end();
    rings[0].release(end);
    assert_eq!(rings[0].waiting(), 0);
}
