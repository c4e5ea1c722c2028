//! Cases with a known answer, and what holds for any.

use proptest::prelude::*;

use super::super::sharing::Sharing;
use super::*;

const GIB: f64 = 1073741824.0;

/// A node of 4 CPUs and 16 GiB where the process keeps some CPUs busy and has some GiB, beside others.
fn node(id: u32, own_cpus: f64, gib: f64, others: f64) -> NodeEvidence {
    NodeEvidence {
        id,
        cpus: 4,
        cpu_list: format!("{}-{}", 4 * id, 4 * id + 3),
        usable_cpus: 4,
        may_run: true,
        some_may_run: true,
        may_take: true,
        memory_bytes: Some(16 << 30),
        free_bytes: Some(((15.0 - gib) * GIB) as u64),
        busy_cpus: Some((own_cpus + others).min(4.0)),
        own_cpus,
        own_bytes: gib * GIB,
        bandwidth: None,
    }
}

fn evidence(nodes: Vec<NodeEvidence>) -> Evidence {
    let busy = nodes.iter().map(|node| node.own_cpus).sum::<f64>().ceil() as u64;
    Evidence {
        seconds: 5.0,
        nodes,
        threads: busy,
        busy_threads: busy,
        pages_asked: 4096,
        balancing: Some(true),
        ..Evidence::default()
    }
}

/// Of 1,000 pages that were used twice so many were shared, and of all uses this share was local.
fn sharing(shared: u64, local: f64) -> Option<Sharing> {
    let uses = 2000;
    let local_uses = (local * uses as f64) as u64;
    Some(Sharing {
        faults: uses,
        uses,
        placed_uses: uses,
        local_uses,
        judged: 1000,
        shared,
        granule_bytes: 4096,
        ..Sharing::default()
    })
}

fn verdict(evidence: &Evidence) -> Verdict {
    let advice = judge(evidence);
    assert!(!advice.reasons.is_empty(), "{advice:?}");
    advice.verdict
}

#[test]
fn one_process_on_one_node_is_left_alone() {
    let local = evidence(vec![node(0, 4.0, 2.0, 0.0), node(1, 0.0, 0.0, 0.0)]);
    assert_eq!(verdict(&local), Verdict::LeaveAlone);
    assert_eq!(verdict(&evidence(vec![node(0, 1.0, 2.0, 3.0)])), Verdict::LeaveAlone);
}

#[test]
fn threads_on_one_node_with_memory_on_another_are_brought_together() {
    let apart = |others| evidence(vec![node(0, 2.0, 0.0, 0.0), node(1, 0.0, 2.0, others)]);
    let compact = |node, threads, pages| Verdict::Compact { node, threads, pages };
    assert_eq!(verdict(&apart(0.0)), compact(1, true, false), "threads go to the memory");
    assert_eq!(verdict(&apart(3.5)), compact(0, false, true), "its CPUs are taken: memory comes");
    let mut full = apart(3.5);
    full.nodes[0].free_bytes = Some(1 << 30);
    assert_eq!(verdict(&full), Verdict::LeaveAlone, "no room on either");
    let mut confined = apart(0.0);
    (confined.nodes[1].may_run, confined.nodes[1].some_may_run) = (false, false);
    assert_eq!(verdict(&confined), compact(0, false, true), "its cpuset keeps it off node 1");
    let scattered =
        evidence(vec![node(0, 1.0, 1.0, 0.0), node(1, 1.0, 1.5, 0.0), node(2, 1.0, 0.5, 0.0)]);
    assert_eq!(verdict(&scattered), compact(1, true, true));
}

/// As `numa balance` has it: a thread never gets CPUs that it had not before.
#[test]
fn threads_stay_where_they_were_pinned() {
    let compact = |node, threads, pages| Verdict::Compact { node, threads, pages };
    let mut apart = evidence(vec![node(0, 2.0, 0.0, 0.0), node(1, 0.0, 2.0, 0.0)]);
    apart.is_bound = true;
    apart.nodes[0].usable_cpus = 2;
    (apart.nodes[1].usable_cpus, apart.nodes[1].may_run) = (0, false);
    apart.nodes[1].some_may_run = false;
    assert_eq!(verdict(&apart), compact(0, false, true), "memory comes to them");
    // One on each node: no node has a CPU for both.
    let mut both = evidence(vec![node(0, 1.0, 2.0, 0.0), node(1, 1.0, 0.0, 0.0)]);
    (both.is_bound, both.pinned_apart) = (true, true);
    for node in &mut both.nodes {
        (node.usable_cpus, node.may_run) = (0, false);
    }
    let advice = judge(&both);
    assert_eq!(advice.verdict, Verdict::LeaveAlone);
    assert!(advice.reasons[1].contains("pinned to CPUs of several nodes"), "{advice:?}");
    both.sharing = sharing(20, 0.5);
    assert_eq!(verdict(&both), Verdict::SpreadThreads { nodes: vec![0, 1] }, "its memory may move");
}

#[test]
fn what_the_user_knows_of_sharing_decides() {
    let mut wide = evidence(vec![node(0, 4.0, 8.0, 0.0), node(1, 4.0, 0.0, 0.0)]);
    assert_eq!(verdict(&wide), Verdict::Unknown { lacks: vec![Lack::Sharing] });
    wide.shares = Some(true);
    let advice = judge(&wide);
    assert_eq!(advice.verdict, Verdict::Interleave { nodes: vec![0, 1] });
    assert!(advice.reasons[1].contains("as given by --sharing"), "{advice:?}");
    wide.shares = Some(false);
    assert_eq!(verdict(&wide), Verdict::SpreadThreads { nodes: vec![0, 1] });
}

#[test]
fn a_wide_process_that_shares_its_memory_is_interleaved() {
    let mut wide = evidence(vec![node(0, 4.0, 8.0, 0.0), node(1, 4.0, 0.0, 0.0)]);
    wide.sharing = sharing(900, 0.5);
    assert_eq!(verdict(&wide), Verdict::Interleave { nodes: vec![0, 1] });
    let mut even = evidence(vec![node(0, 4.0, 4.0, 0.0), node(1, 4.0, 4.0, 0.0)]);
    even.sharing = sharing(900, 0.5);
    assert_eq!(verdict(&even), Verdict::LeaveAlone);
    // All of its threads crowd on one node, beside their memory.
    let mut crowded = evidence(vec![node(0, 4.0, 8.0, 0.0), node(1, 0.0, 0.0, 0.0)]);
    crowded.busy_threads = 8;
    crowded.sharing = sharing(900, 1.0);
    assert_eq!(verdict(&crowded), Verdict::Interleave { nodes: vec![0, 1] });
    // More memory than a node has.
    let mut big = evidence(vec![node(0, 1.0, 15.0, 0.0), node(1, 1.0, 2.0, 0.0)]);
    big.sharing = sharing(600, 0.5);
    assert_eq!(verdict(&big), Verdict::Interleave { nodes: vec![0, 1] });
    big.nodes[1].may_take = false;
    assert_eq!(verdict(&big), Verdict::LeaveAlone, "its cpuset leaves it one node");
}

#[test]
fn private_memory_is_spread_with_its_threads() {
    let spread = Verdict::SpreadThreads { nodes: vec![0, 1] };
    // One thread set up all of it.
    let mut wide = evidence(vec![node(0, 4.0, 8.0, 0.0), node(1, 4.0, 0.0, 0.0)]);
    wide.sharing = sharing(20, 0.5);
    let advice = judge(&wide);
    assert_eq!(advice.verdict, spread);
    assert!(advice.reasons.iter().any(|reason| reason.contains("writes it first")), "{advice:?}");
    let mut narrow = evidence(vec![node(0, 1.0, 8.0, 0.0), node(1, 1.0, 0.0, 0.0)]);
    narrow.sharing = sharing(20, 0.5);
    assert_eq!(verdict(&narrow), spread);
    // Each thread has its own beside it: locality, blind to users, says one half.
    let mut done = evidence(vec![node(0, 4.0, 4.0, 0.0), node(1, 4.0, 4.0, 0.0)]);
    done.sharing = sharing(20, 0.97);
    assert_eq!((verdict(&done), done.locality()), (Verdict::LeaveAlone, Some(0.5)));
}

/// Seeds of two processes with a thread each, both on one node, with their memory; the other node idle.
#[test]
fn two_local_processes_on_one_node_are_spread() {
    let mut one_of_two = evidence(vec![node(0, 1.0, 1.0, 1.0), node(1, 0.0, 0.0, 0.0)]);
    let spread = Verdict::SpreadProcess { from: 0, to: 1 };
    let advice = judge(&one_of_two);
    assert_eq!(advice.verdict, spread);
    assert!(advice.reasons.iter().any(|reason| reason.contains("not measured here")), "{advice:?}");
    // On a node without a CPU to spare it is not a matter of bandwidth.
    one_of_two.nodes[0] = node(0, 1.0, 1.0, 3.0);
    let advice = judge(&one_of_two);
    assert_eq!(advice.verdict, spread);
    assert!(advice.reasons.iter().any(|reason| reason.contains("wait for CPUs")), "{advice:?}");
    one_of_two.nodes[1] = node(1, 0.0, 0.0, 1.0);
    assert_eq!(verdict(&one_of_two), Verdict::LeaveAlone, "the other node has work too");
    one_of_two.nodes[1] = NodeEvidence { free_bytes: Some(0), ..node(1, 0.0, 0.0, 0.0) };
    assert_eq!(verdict(&one_of_two), Verdict::LeaveAlone, "the other node has no memory");
}

#[test]
fn what_is_missing_is_said() {
    let lacks = |evidence: &Evidence| match verdict(evidence) {
        Verdict::Unknown { lacks } => lacks,
        other => panic!("{other:?}"),
    };
    let idle = evidence(vec![node(0, 0.0, 1.0, 0.0), node(1, 0.0, 1.0, 0.0)]);
    assert_eq!(lacks(&idle), [Lack::Work]);
    let unseen = evidence(vec![node(0, 1.0, 0.0, 0.0), node(1, 0.0, 0.0, 0.0)]);
    assert_eq!(lacks(&unseen), [Lack::Pages]);
    let mut wide = evidence(vec![node(0, 4.0, 8.0, 0.0), node(1, 4.0, 0.0, 0.0)]);
    assert_eq!(lacks(&wide), [Lack::Sharing]);
    wide.sharing = Some(Sharing { uses: 3, judged: 1, ..Sharing::default() });
    assert!(judge(&wide).reasons[1].contains("too few"));
    wide.balancing = Some(false);
    assert!(judge(&wide).reasons[1].contains("NUMA balancing is off"));
    (wide.sharing, wide.sharing_why) = (None, Some("faults may not be sampled: EACCES".to_owned()));
    assert!(judge(&wide).reasons[1].contains("EACCES"));
}

/// The evidence once the advice has been followed.
fn followed(evidence: &Evidence, verdict: &Verdict) -> Evidence {
    let mut after = evidence.clone();
    let (cpus, bytes) = (evidence.own_cpus(), evidence.bytes());
    let is_over = matches!(verdict, Verdict::Interleave { .. } | Verdict::SpreadThreads { .. });
    // Threads that waited have a CPU now.
    let cpus = if is_over { cpus.max(evidence.busy_threads as f64) } else { cpus };
    let all_cpus = |nodes: &[u32]| {
        let of = evidence.nodes.iter().filter(|node| nodes.contains(&node.id));
        of.map(|node| node.cpus as f64).sum::<f64>()
    };
    // Of running time, and of pages.
    let share = |node: &NodeEvidence| match verdict {
        Verdict::Compact { node: to, .. } | Verdict::SpreadProcess { to, .. } => {
            let share = f64::from(u8::from(*to == node.id));
            (share, share)
        }
        Verdict::Interleave { nodes } | Verdict::SpreadThreads { nodes } => {
            if !nodes.contains(&node.id) {
                return (0.0, 0.0);
            }
            let running = node.cpus as f64 / all_cpus(nodes);
            let is_even = matches!(verdict, Verdict::Interleave { .. });
            (running, if is_even { 1.0 / nodes.len() as f64 } else { running })
        }
        _ => panic!("nothing to follow"),
    };
    for node in &mut after.nodes {
        let others = node.others_cpus().unwrap_or(0.0);
        let (running, pages) = share(node);
        let moved = pages * bytes - node.own_bytes;
        node.free_bytes = node.free_bytes.map(|free| (free as f64 - moved).max(0.0) as u64);
        node.own_bytes = pages * bytes;
        node.own_cpus = (running * cpus).min(node.cpus as f64);
        node.busy_cpus = node.busy_cpus.map(|_| (node.own_cpus + others).min(node.cpus as f64));
    }
    // Private memory lies with its threads now.
    if let (Verdict::SpreadThreads { .. }, Some(sharing)) = (verdict, &mut after.sharing) {
        sharing.local_uses = sharing.placed_uses;
    } else if matches!(verdict, Verdict::Compact { .. })
        && let Some(sharing) = &mut after.sharing
    {
        sharing.local_uses = sharing.placed_uses;
    }
    after
}

fn any_node(id: u32) -> impl Strategy<Value = NodeEvidence> {
    let others = prop_oneof![Just(0.0), 0.0..4.0f64];
    (0.0..4.0f64, 0.0..15.0f64, others, any::<u8>(), 0..20u64).prop_map(
        move |(own, gib, others, flags, free)| {
            let cpus = if flags & 1 == 0 { 4 } else { u64::from(flags % 7) };
            let own_cpus = if flags % 3 == 0 { 0.0 } else { own.min(cpus as f64) };
            let gib = if flags % 5 == 0 { 0.0 } else { gib };
            let busy = (own_cpus + others).min(cpus as f64);
            NodeEvidence {
                cpus,
                usable_cpus: if flags & 0b110 == 0 { 0 } else { cpus },
                may_run: flags & 0b110 != 0,
                some_may_run: flags & 0b110 != 0,
                may_take: flags & 0b11000 != 0,
                free_bytes: Some(free << 30),
                busy_cpus: (flags & 0b1110_0000 != 0).then_some(busy),
                ..node(id, own_cpus, gib, others)
            }
        },
    )
}

fn any_evidence() -> impl Strategy<Value = Evidence> {
    let nodes = (1..5u32).prop_flat_map(|count| (0..count).map(any_node).collect::<Vec<_>>());
    let sharing = prop_oneof![
        Just(None),
        (0..1000u64, 0.0..1.0f64).prop_map(|(shared, local)| sharing(shared, local))
    ];
    (nodes, sharing, 0..20u64, any::<Option<bool>>()).prop_map(
        |(nodes, sharing, extra, balancing)| {
            let mut evidence = Evidence { sharing, balancing, ..evidence(nodes) };
            evidence.busy_threads += extra;
            evidence
        },
    )
}

proptest! {
    /// Whatever is advised can be done, and says why.
    #[test]
    fn only_nodes_that_may_be_used_are_advised(evidence in any_evidence()) {
        let advice = judge(&evidence);
        prop_assert!(!advice.reasons.is_empty());
        let node = |id: u32| evidence.nodes.iter().find(|node| node.id == id).unwrap();
        let usable = |id: u32| node(id).may_run && node(id).cpus > 0;
        match &advice.verdict {
            Verdict::Compact { node: to, threads, pages } => {
                prop_assert!(usable(*to) && (*threads || *pages));
                prop_assert!(node(*to).room_bytes() >= evidence.bytes());
            }
            Verdict::SpreadProcess { from, to } => {
                prop_assert!(usable(*to) && node(*to).may_take && from != to);
            }
            Verdict::SpreadThreads { nodes } | Verdict::Interleave { nodes } => {
                prop_assert!(nodes.len() > 1 && nodes.iter().all(|id| usable(*id) && node(*id).may_take));
                prop_assert!(evidence.sharing.is_some(), "never guessed");
            }
            Verdict::Unknown { lacks } => prop_assert!(!lacks.is_empty()),
            Verdict::LeaveAlone => {}
        }
    }

    /// Who follows the advice is left alone then: it leads somewhere, and not back.
    #[test]
    fn advice_that_is_followed_is_the_last(evidence in any_evidence()) {
        let verdict = judge(&evidence).verdict;
        if matches!(verdict, Verdict::LeaveAlone | Verdict::Unknown { .. }) {
            return Ok(());
        }
        let after = followed(&evidence, &verdict);
        let again = judge(&after);
        prop_assert_eq!(&again.verdict, &Verdict::LeaveAlone, "{:?} {:?}", verdict, again.reasons);
    }

    /// A process that is local with nobody beside it is never touched, however the rest of the machine is.
    #[test]
    fn what_is_well_is_left_alone(gib in 0.1..10.0f64, cpus in 0.5..4.0f64, load in 0.0..4.0f64) {
        let well = evidence(vec![node(0, cpus, gib, 0.0), node(1, 0.0, 0.0, load), node(2, 0.0, 0.0, 0.0)]);
        prop_assert_eq!(judge(&well).verdict, Verdict::LeaveAlone);
    }
}
