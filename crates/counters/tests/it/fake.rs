use pmuscope_abi::{Attr, AttrFlags, ReadFormat, event_type, software};
use pmuscope_counters::fake::FakeKernel;
use pmuscope_counters::{CountersError, EventRequest, OpenOptions, RingSize, SamplingSet, Scope};
use pmuscope_machine::{CpuSet, Machine, Topology};

const PAGE: u64 = 4096;

fn request(config: u64, leader: Option<usize>) -> EventRequest {
    let flags = if leader.is_none() { AttrFlags::DISABLED } else { AttrFlags::empty() };
    let attr = Attr { event_type: event_type::SOFTWARE, config, flags, ..Attr::default() };
    EventRequest {
        name: format!("event-{config}"),
        attr,
        leader,
        cpus: None,
        any_task: false,
        max_precise: false,
    }
}

fn open(
    kernel: &FakeKernel,
    scope: &Scope,
    requests: Vec<EventRequest>,
    ring_size: RingSize,
) -> Result<SamplingSet, CountersError> {
    let machine = Machine::host();
    let topology: Topology = machine.topology().unwrap();
    let options = OpenOptions { ring_size };
    SamplingSet::open(kernel, &machine, &topology, scope, requests, options)
}

fn cpus(count: u32) -> CpuSet {
    (0..count).collect()
}

#[test]
fn all_events_of_a_cpu_write_into_one_ring() {
    let kernel = FakeKernel::default();
    let requests = vec![request(0, None), request(2, Some(0)), request(3, None)];
    let mut set =
        open(&kernel, &Scope::Cpus(cpus(3)), requests, RingSize::AtMost(4 * PAGE)).unwrap();
    let rings = set.take_rings();
    assert_eq!(
        rings.iter().map(|ring| ring.cpu()).collect::<Vec<_>>(),
        [Some(0), Some(1), Some(2)]
    );
    assert_eq!(kernel.redirected(), 3 * 2);
    assert_eq!(kernel.opened().iter().filter(|call| call.in_group).count(), 3);
    set.enable(&kernel, |_| ()).unwrap();
    assert_eq!(kernel.enabled(), 3 * 2, "members are enabled by their leaders");
}

/// Sideband that samples would overwrite has a smaller ring beside theirs, which somebody reads.
#[test]
fn events_that_are_written_backwards_have_rings_of_their_own() {
    let kernel = FakeKernel::default();
    let mut requests = vec![request(0, None), request(2, None), request(3, None)];
    for request in &mut requests[1..] {
        request.attr.flags |= AttrFlags::WRITE_BACKWARD;
    }
    let size = 1 << 20;
    let mut set = open(&kernel, &Scope::Cpus(cpus(2)), requests, RingSize::Exactly(size)).unwrap();
    let rings = set.take_rings();
    let found: Vec<_> = rings.iter().map(|r| (r.cpu(), r.is_backward(), r.size())).collect();
    let (sideband, samples) = (256 << 10, size as usize);
    let of = |cpu| [(Some(cpu), false, sideband), (Some(cpu), true, samples)];
    assert_eq!(found, [of(0), of(1)].concat());
    let places: Vec<_> = set.events().iter().map(|e| (e.event, e.ring)).collect();
    assert_eq!(places, [(0, 0), (1, 1), (2, 1), (0, 2), (1, 3), (2, 3)]);
}

#[test]
fn each_member_of_a_group_has_its_own_count() {
    let kernel = FakeKernel::default();
    let mut requests = vec![request(0, None), request(2, Some(0))];
    for request in &mut requests {
        request.attr.read_format = ReadFormat::GROUP | ReadFormat::ID;
    }
    let set = open(&kernel, &Scope::Cpus(cpus(1)), requests, RingSize::AtMost(PAGE)).unwrap();
    let [leader, member] = set.events() else { panic!("two events on one CPU") };
    kernel.answer_reads(&[2, 70, leader.id, 5, member.id]);
    let count = |event| set.read(&kernel, event).unwrap().unwrap().value;
    assert_eq!((count(leader), count(member)), (70, 5));
}

#[test]
fn a_cpu_that_was_away_is_opened_anew_into_its_old_ring() {
    let kernel = FakeKernel::default();
    let requests = vec![request(0, None), request(2, Some(0))];
    let scope = Scope::Cpus(cpus(2));
    let set = open(&kernel, &scope, requests, RingSize::AtMost(PAGE)).unwrap();
    let again = set.reopen(&kernel, &scope, 1).unwrap();
    let places: Vec<_> = again.events().iter().map(|e| (e.cpu, e.ring, e.event)).collect();
    assert_eq!(places, [(Some(1), 1, 0), (Some(1), 1, 1)]);
    assert_eq!(kernel.redirected(), 2 + 2, "all of the new ones, the first too");
    assert!(matches!(set.reopen(&kernel, &scope, 7), Err(CountersError::Vanished(_))));
}

#[test]
fn threads_that_ended_are_passed_over_and_none_left_is_an_error() {
    let kernel = FakeKernel::default().without_task(11);
    let tasks = |tids: &[u32]| Scope::Tasks { tids: tids.to_vec(), inherit: true, cpus: cpus(2) };
    let requests = || vec![request(0, None), request(1, None)];
    let set = open(&kernel, &tasks(&[10, 11]), requests(), RingSize::AtMost(PAGE)).unwrap();
    assert!(set.events().iter().all(|event| event.tid == Some(10)));
    assert_eq!(set.events().len(), 4);
    let error = open(&kernel, &tasks(&[11]), requests(), RingSize::AtMost(PAGE)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing left to observe: thread 11 ended before its events could be opened"
    );
}

#[test]
fn cpus_that_went_offline_are_passed_over() {
    let offline = |kernel: FakeKernel, cpu| {
        let refused = [0, 1, software::DUMMY];
        refused.iter().fold(kernel, |kernel, &of| kernel.refusing(of, cpu, libc::ENODEV))
    };
    let requests = || vec![request(0, None), request(1, None)];
    let scope = Scope::Cpus(cpus(3));
    let kernel = offline(FakeKernel::default(), 1);
    let set = open(&kernel, &scope, requests(), RingSize::AtMost(PAGE)).unwrap();
    let places: Vec<_> = set.events().iter().map(|e| (e.cpu, e.ring)).collect();
    assert_eq!(places, [(Some(0), 0), (Some(0), 0), (Some(2), 1), (Some(2), 1)]);
    assert_eq!(set.offline(), &CpuSet::from_iter([1]));
    let all = (0..3).fold(FakeKernel::default(), offline);
    let error = open(&all, &scope, requests(), RingSize::AtMost(PAGE)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing left to observe: each of CPUs 0-2 went offline before its events could be opened"
    );
}

/// Some drivers answer `ENODEV` for an event that their PMU lacks.
#[test]
fn an_event_that_an_online_cpu_lacks_is_an_error() {
    let kernel = FakeKernel::default().refusing(0, 1, libc::ENODEV);
    let error =
        open(&kernel, &Scope::Cpus(cpus(2)), vec![request(0, None)], RingSize::AtMost(PAGE))
            .unwrap_err();
    assert!(error.to_string().contains("event-0 on CPU 1: perf_event_open: ENODEV"), "{error}");
}

#[test]
fn sideband_for_any_task_is_opened_once_per_cpu() {
    let kernel = FakeKernel::default();
    let sideband = EventRequest { any_task: true, ..request(software::DUMMY, None) };
    let scope = Scope::Tasks { tids: vec![10, 11, 12], inherit: true, cpus: cpus(2) };
    let set =
        open(&kernel, &scope, vec![sideband, request(0, None)], RingSize::AtMost(PAGE)).unwrap();
    let any: Vec<_> = set.events().iter().filter(|event| event.tid.is_none()).collect();
    assert_eq!((any.len(), set.events().len()), (2, 2 + 6));
}

#[test]
fn an_event_that_only_some_cpus_have_is_opened_there() {
    let kernel = FakeKernel::default();
    let big = EventRequest { cpus: Some(cpus(1)), ..request(0, None) };
    let small = EventRequest { cpus: Some(CpuSet::from_iter([1])), ..request(1, None) };
    let set =
        open(&kernel, &Scope::Cpus(cpus(2)), vec![big, small], RingSize::AtMost(PAGE)).unwrap();
    let seen: Vec<_> = set.events().iter().map(|event| (event.event, event.cpu)).collect();
    assert_eq!(seen, [(0, Some(0)), (1, Some(1))]);
}

#[test]
fn rings_shrink_when_others_hold_the_budget_unless_the_size_was_asked_for() {
    let limited = || FakeKernel::default().with_locked_limit(4 * 4096);
    let scope = Scope::Cpus(cpus(2));
    let kernel = limited();
    let mut set =
        open(&kernel, &scope, vec![request(0, None)], RingSize::AtMost(16 * PAGE)).unwrap();
    assert_eq!(set.take_rings()[0].size(), 2 * 4096);

    let error =
        open(&limited(), &scope, vec![request(0, None)], RingSize::Exactly(16 * PAGE)).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot map 2 ring buffers of 64 KiB: mmap: EPERM"), "{text}");
    assert!(text.contains("Try: -m "), "{text}");
    let odd = open(&limited(), &scope, vec![request(0, None)], RingSize::Exactly(5000));
    assert!(matches!(odd, Err(CountersError::RingSize(5000))));
}

#[test]
fn a_refusal_names_event_cpu_errno_and_cause() {
    let kernel = FakeKernel::default().refusing(0, 1, libc::EACCES);
    let error =
        open(&kernel, &Scope::Cpus(cpus(2)), vec![request(0, None)], RingSize::AtMost(PAGE))
            .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "cannot open event-0 on CPU 1: perf_event_open: EACCES (Permission denied)."
        ),
        "{text}"
    );
    assert!(text.contains("perf_event_paranoid"), "{text}");
}

#[test]
fn a_refused_sideband_is_named_with_the_events_that_were_asked_for() {
    let kernel = FakeKernel::default().refusing(software::DUMMY, 0, libc::EACCES);
    let events = vec![request(software::DUMMY, None), request(0, None), request(1, None)];
    let error = open(&kernel, &Scope::Cpus(cpus(1)), events, RingSize::AtMost(PAGE)).unwrap_err();
    let text = error.to_string();
    let named = "(sideband events: mmap, comm, fork, exit; for event-0, event-1) on CPU 0";
    assert!(text.contains(named), "{text}");
}
