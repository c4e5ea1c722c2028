use super::*;
use proptest::prelude::*;

const TASK: (i32, i32) = (7, 8);

fn told(
    records: &[(u64, SchedEvent)],
    losses: &[(u64, u64)],
    end: u64,
) -> (Vec<TimeState>, Broken) {
    let mut threads = Threads::new(0, Losses::new(losses.to_vec()));
    let mut found = Vec::new();
    for &(at, record) in records {
        threads.tell(TASK, at, record, &mut |stretch| found.push(stretch));
    }
    let (broken, _) = threads.finish(end, &mut |_, stretch| found.push(stretch));
    (found, broken)
}

fn off(kind: OffCpuKind, from: u64, until: u64, ends: Ends, place: Option<u32>) -> TimeState {
    TimeState::Off(Off { task: TASK, kind, from, until, ends, place, woken: None })
}

const BLOCKS: SchedEvent = SchedEvent::Out { preempted: false };

#[test]
fn a_wait_is_from_its_sample_to_the_return_and_its_waking_divides_it() {
    let woken = Woken { at: 40, by: 3 };
    let records = [
        (10, SchedEvent::Leaving(5)),
        (11, BLOCKS),
        (40, SchedEvent::Woken(woken)),
        (41, SchedEvent::Woken(Woken { at: 41, by: 4 })),
        (50, SchedEvent::In),
        (60, SchedEvent::Leaving(6)),
        (61, SchedEvent::Out { preempted: true }),
        (70, SchedEvent::In),
    ];
    let (found, broken) = told(&records, &[], 100);
    let blocked = Off {
        task: TASK,
        kind: OffCpuKind::Blocked,
        from: 10,
        until: 50,
        ends: Ends::Both,
        place: Some(5),
        woken: Some(woken),
    };
    assert_eq!(
        found,
        [
            TimeState::Running(0, 10),
            TimeState::Off(blocked),
            TimeState::Running(50, 60),
            off(OffCpuKind::Preempted, 60, 70, Ends::Both, Some(6)),
            TimeState::Running(70, 100),
        ]
    );
    assert_eq!(broken, Broken::default());
}

#[test]
fn a_waking_that_met_the_thread_on_its_way_out_leaves_only_the_queue() {
    let woken = Woken { at: 9, by: 3 };
    let (found, _) = told(
        &[
            (5, SchedEvent::In),
            (9, SchedEvent::Woken(woken)),
            (10, SchedEvent::Leaving(1)),
            (11, BLOCKS),
            (15, SchedEvent::In),
        ],
        &[],
        15,
    );
    let Some(TimeState::Off(off)) = found.get(2) else { panic!("{found:?}") };
    assert_eq!((off.from, off.until, off.woken.map(|woken| woken.at)), (10, 15, Some(10)));
}

#[test]
fn a_waking_long_before_a_wait_is_not_its() {
    let records = [
        (5, SchedEvent::In),
        (9, SchedEvent::Woken(Woken { at: 9, by: 3 })),
        (10 + LEAVING_NS, SchedEvent::Leaving(1)),
        (11 + LEAVING_NS, BLOCKS),
        (15 + LEAVING_NS, SchedEvent::In),
    ];
    let (found, _) = told(&records, &[], 15 + LEAVING_NS);
    let Some(TimeState::Off(off)) = found.get(2) else { panic!("{found:?}") };
    assert_eq!((off.from, off.woken), (10 + LEAVING_NS, None));
}

#[test]
fn what_began_before_or_lasts_past_the_end_says_so() {
    let (found, broken) =
        told(&[(20, SchedEvent::In), (30, SchedEvent::Leaving(1)), (31, BLOCKS)], &[], 100);
    assert_eq!(
        found,
        [
            off(OffCpuKind::Unknown, 0, 20, Ends::OnlyLast, None),
            TimeState::Running(20, 30),
            off(OffCpuKind::Blocked, 30, 100, Ends::OnlyFirst, Some(1)),
        ]
    );
    assert_eq!(broken, Broken::default());
}

#[test]
fn a_thread_that_begins_waits_for_its_first_cpu_and_leaves_for_good_at_its_end() {
    let records = [
        (10, SchedEvent::Born),
        (15, SchedEvent::In),
        (40, SchedEvent::Ended),
        // Recordings of whole CPUs see it leave.
        (41, SchedEvent::Leaving(1)),
        (42, BLOCKS),
    ];
    let (found, broken) = told(&records, &[], 100);
    assert_eq!(found, [off(OffCpuKind::New, 10, 15, Ends::Both, None), TimeState::Running(15, 40)]);
    assert_eq!(broken, Broken::default());
}

#[test]
fn what_is_told_before_all_cpus_record_is_passed_over() {
    let mut threads = Threads::new(100, Losses::default());
    let mut found = Vec::new();
    // It came to a CPU that was not recorded yet.
    for (at, record) in
        [(90, SchedEvent::Leaving(1)), (91, BLOCKS), (120, SchedEvent::Leaving(2)), (121, BLOCKS)]
    {
        threads.tell(TASK, at, record, &mut |stretch| found.push(stretch));
    }
    let (broken, seen) = threads.finish(130, &mut |_, stretch| found.push(stretch));
    let last = off(OffCpuKind::Blocked, 120, 130, Ends::OnlyFirst, Some(2));
    assert_eq!(found, [TimeState::Running(100, 120), last]);
    assert_eq!((broken, seen), (Broken::default(), 1));
}

#[test]
fn threads_that_are_not_followed_count_nowhere() {
    let (found, broken) = told(&[(10, SchedEvent::Born), (40, SchedEvent::Ended)], &[], 100);
    assert_eq!((found, broken), (vec![], Broken::default()));
}

#[test]
fn what_cannot_follow_one_another_is_not_known() {
    let (found, broken) = told(&[(10, SchedEvent::In), (20, SchedEvent::In)], &[], 30);
    assert_eq!(found[1..], [TimeState::NotKnown(10, 20), TimeState::Running(20, 30)]);
    assert_eq!(broken, Broken { beginnings: 1, ..Broken::default() });
    let (found, broken) = told(&[(10, BLOCKS), (20, BLOCKS), (25, SchedEvent::In)], &[], 30);
    assert_eq!(
        found,
        [
            TimeState::Running(0, 10),
            TimeState::NotKnown(10, 20),
            off(OffCpuKind::Blocked, 20, 25, Ends::Both, None),
            TimeState::Running(25, 30),
        ]
    );
    assert_eq!(broken, Broken { ends: 1, ..Broken::default() });
}

#[test]
fn time_in_which_records_were_lost_is_not_known() {
    let records = [(10, BLOCKS), (20, SchedEvent::In), (30, BLOCKS), (40, SchedEvent::In)];
    let (found, broken) = told(&records, &[(32, 33)], 50);
    assert_eq!(found[3], TimeState::NotKnown(30, 40));
    assert_eq!(broken, Broken { uncertain: 1, ..Broken::default() });
}

/// What a thread really does: turns on the CPU and off it.
#[derive(Debug, Clone)]
struct Turn {
    on: u64,
    off: u64,
    preempted: bool,
    /// Of the time off, before the waking.
    asleep: u64,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = (1_u64..50, 1_u64..50, any::<bool>(), 0_u64..50).prop_map(
        |(on, off, preempted, asleep)| Turn { on, off, preempted, asleep: asleep.min(off) },
    );
    proptest::collection::vec(turn, 1..30)
}

proptest! {
    /// Against a thread whose turns are known.
    #[test]
    fn all_records_give_back_what_the_thread_did(turns in turns(), cut in 0_u64..60) {
        let (mut now, mut records) = (0, Vec::new());
        let (mut on, mut off, mut queued, mut waits) = (0, 0, 0, 0);
        for (turn, number) in turns.iter().zip(0..) {
            now += turn.on;
            on += turn.on;
            records.push((now, SchedEvent::Leaving(number)));
            records.push((now, SchedEvent::Out { preempted: turn.preempted }));
            if !turn.preempted {
                let at = now + turn.asleep;
                records.push((at, SchedEvent::Woken(Woken { at, by: 0 })));
                queued += turn.off - turn.asleep;
            }
            now += turn.off;
            off += turn.off;
            waits += 1;
            records.push((now, SchedEvent::In));
        }
        let (found, broken) = told(&records, &[], now + cut);
        let (mut sum_on, mut sum_off, mut sum_queued, mut number) = (0, 0, 0, 0);
        for stretch in &found {
            match stretch {
                TimeState::Running(from, until) => sum_on += until - from,
                TimeState::NotKnown(..) => prop_assert!(false),
                TimeState::Off(off) => {
                    let turn = &turns[number];
                    prop_assert_eq!(off.place, Some(number as u32));
                    prop_assert_eq!(off.kind == OffCpuKind::Preempted, turn.preempted);
                    sum_off += off.until - off.from;
                    sum_queued += off.woken.map_or(0, |woken| off.until - woken.at);
                    number += 1;
                }
            }
        }
        prop_assert_eq!((sum_on, sum_off, sum_queued, number), (on + cut, off, queued, waits));
        prop_assert_eq!(broken, Broken::default());
    }

    /// Whatever is lost: a thread's time is whole, and no part of it is counted twice.
    #[test]
    fn stretches_follow_one_another_whatever_is_lost(
        turns in turns(), lost in proptest::collection::vec(any::<bool>(), 120),
    ) {
        let (mut now, mut records) = (0, Vec::new());
        for turn in &turns {
            now += turn.on;
            records.push((now, SchedEvent::Leaving(0)));
            records.push((now, SchedEvent::Out { preempted: turn.preempted }));
            now += turn.off;
            records.push((now, SchedEvent::In));
        }
        let kept: Vec<_> =
            records.into_iter().zip(lost).filter(|(_, lost)| !lost).map(|(one, _)| one).collect();
        let (found, _) = told(&kept, &[], now);
        let mut at = 0;
        for stretch in found {
            let (from, until) = match stretch {
                TimeState::Running(from, until) | TimeState::NotKnown(from, until) => (from, until),
                TimeState::Off(off) => (off.from, off.until),
            };
            prop_assert_eq!(from, at);
            prop_assert!(until >= from);
            at = until;
        }
        prop_assert!(at == now || kept.is_empty());
    }
}

#[test]
fn a_thread_that_left_unseen_does_not_run_on() {
    let unseen = |came| SchedEvent::LeftUnseen { came };
    let records = [(10, BLOCKS), (20, SchedEvent::In), (35, unseen(20)), (60, SchedEvent::In)];
    let (found, broken) = told(&records, &[], 100);
    assert_eq!(
        found,
        [
            TimeState::Running(0, 10),
            off(OffCpuKind::Blocked, 10, 20, Ends::Both, None),
            TimeState::NotKnown(20, 35),
            off(OffCpuKind::Unknown, 35, 60, Ends::Both, None),
            TimeState::Running(60, 100),
        ]
    );
    assert_eq!(broken, Broken { beginnings: 1, ..Broken::default() });
    // It came to another CPU since, or is off already.
    let (running, _) =
        told(&[(20, SchedEvent::In), (30, SchedEvent::In), (35, unseen(20))], &[], 50);
    assert_eq!(running.last(), Some(&TimeState::Running(30, 50)));
    let (left, broken) = told(&[(20, SchedEvent::In), (30, BLOCKS), (35, unseen(20))], &[], 50);
    assert_eq!(left.last(), Some(&off(OffCpuKind::Blocked, 30, 50, Ends::OnlyFirst, None)));
    assert_eq!(broken, Broken::default());
}
