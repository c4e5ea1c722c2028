//! Decisions on machines drawn by hand, and on random ones.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn nodes(count: usize, cpus: u32) -> Vec<NodeView> {
    let node = |id: usize| NodeView {
        id: id as u32,
        cpus,
        free_bytes: 4 << 30,
        other_load: 0.0,
        distances: (0..count).map(|other| if other == id { 10 } else { 20 }).collect(),
        bandwidth: None,
    };
    (0..count).map(node).collect()
}

/// A process whose threads are all busy, each running for these shares on each node.
fn process(pid: u32, bytes: &[u64], threads: usize, running: &[f64], cpus: u32) -> ProcessView {
    let thread = |tid: usize| ThreadView { tid: tid as u32, busy: 1.0, nodes: running.to_vec() };
    ProcessView {
        pid,
        threads: (0..threads).map(thread).collect(),
        bytes: bytes.iter().map(|mib| mib * MIB).collect(),
        cpus: vec![cpus; bytes.len()],
        memory_allowed: vec![true; bytes.len()],
        sharing: Sharing::Unknown,
    }
}

fn decided(view: &View) -> Decision {
    decide(view, &Knowledge { budget: 256 * MIB, ..Knowledge::default() })
}

/// `pin 1 to 0`, `move 1 0>1 64`, `interleave 1 0,1 32`, `leave 1`.
fn steps(plan: &Decision) -> Vec<String> {
    let list = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let tell = |step: &Action| match step {
        Action::Pin { pid, nodes, hold: true, .. } => format!("hold {pid} on {}", list(nodes)),
        Action::Pin { pid, nodes, .. } => format!("pin {pid} to {}", list(nodes)),
        Action::Move { pid, from, to, bytes, .. } => {
            format!("move {pid} {from}>{to} {}", bytes / MIB)
        }
        Action::Interleave { pid, nodes, bytes, .. } => {
            format!("interleave {pid} {} {}", list(nodes), bytes / MIB)
        }
        Action::Leave { pid, .. } => format!("leave {pid}"),
    };
    plan.steps.iter().map(tell).collect()
}

fn reason(plan: &Decision) -> &str {
    match &plan.steps[0] {
        Action::Leave { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_go_to_their_memory_where_there_is_room() {
    let wandering = process(1, &[0, 64], 3, &[0.5, 0.5], 4);
    let view = View { nodes: nodes(2, 4), processes: vec![wandering] };
    let plan = decided(&view);
    assert_eq!(steps(&plan), ["pin 1 to 1"]);
    assert_eq!(plan.outlook, [Outlook { pid: 1, before: Some(0.5), after: Some(1.0) }]);
}

#[test]
fn memory_goes_where_threads_may_run() {
    let mut bound = process(1, &[0, 64], 3, &[1.0, 0.0], 4);
    bound.cpus = vec![4, 0];
    let view = View { nodes: nodes(2, 4), processes: vec![bound] };
    assert_eq!(steps(&decided(&view)), ["pin 1 to 0", "move 1 1>0 64"]);
}

#[test]
fn what_is_local_is_left_alone() {
    let view =
        View { nodes: nodes(2, 4), processes: vec![process(1, &[64, 1], 3, &[1.0, 0.0], 4)] };
    let plan = decided(&view);
    assert_eq!(steps(&plan), ["leave 1"]);
    assert!(reason(&plan).contains("already local"));
}

#[test]
fn two_local_processes_on_one_node_are_parted_while_another_idles() {
    for cpus in [2, 8, 64] {
        let local = |pid| process(pid, &[256, 0], 1, &[1.0, 0.0], cpus);
        let view = View { nodes: nodes(2, cpus), processes: vec![local(1), local(2)] };
        let steps = steps(&decided(&view));
        assert_eq!(steps.iter().filter(|step| step.starts_with("move")).count(), 1, "{steps:?}");
        assert_eq!(steps.iter().filter(|step| step.starts_with("hold")).count(), 1, "{steps:?}");
    }
}

#[test]
fn they_stay_where_the_nodes_memory_is_known_to_be_idle() {
    let local = |pid| process(pid, &[256, 0], 1, &[1.0, 0.0], 8);
    let mut view = View { nodes: nodes(2, 8), processes: vec![local(1), local(2)] };
    view.nodes[0].bandwidth = Some(0.1);
    view.nodes[1].bandwidth = Some(0.0);
    assert_eq!(steps(&decided(&view)), ["leave 1", "leave 2"]);
    view.nodes[0].bandwidth = Some(0.9);
    assert!(decided(&view).acts());
}

#[test]
fn a_node_that_others_keep_busy_is_no_home() {
    let mut view =
        View { nodes: nodes(2, 4), processes: vec![process(1, &[64, 0], 4, &[0.5, 0.5], 4)] };
    view.nodes[0].other_load = 4.0;
    assert_eq!(steps(&decided(&view)), ["pin 1 to 1", "move 1 0>1 64"]);
}

#[test]
fn four_times_four_get_a_node_each() {
    let all = |pid| process(pid, &[512, 0, 0, 0], 4, &[0.25; 4], 4);
    let view = View { nodes: nodes(4, 4), processes: (0..4).map(all).collect() };
    let plan = decided(&view);
    let mut homes: Vec<u32> = plan
        .steps
        .iter()
        .filter_map(|step| match step {
            Action::Pin { nodes, .. } => Some(nodes[0]),
            _ => None,
        })
        .collect();
    homes.sort_unstable();
    assert_eq!(homes, [0, 1, 2, 3]);
    assert_eq!(plan.bytes(), 3 * 512 * MIB, "one of them stays where its memory is");
}

#[test]
fn what_fits_no_node_is_interleaved_unless_that_is_less_local() {
    let wide = process(1, &[64, 0], 8, &[0.5, 0.5], 4);
    let view = View { nodes: nodes(2, 4), processes: vec![wide] };
    assert_eq!(steps(&decided(&view)), ["interleave 1 0,1 32"]);
    let lucky = process(1, &[64, 0], 6, &[0.67, 0.33], 4);
    let view = View { nodes: nodes(2, 4), processes: vec![lucky] };
    let plan = decided(&view);
    assert!(reason(&plan).contains("its locality would be 0.50, now 0.67"), "{plan:?}");
    let even = process(1, &[32, 32], 8, &[0.5, 0.5], 4);
    let view = View { nodes: nodes(2, 4), processes: vec![even] };
    assert!(reason(&decided(&view)).contains("already spread over nodes 0, 1"));
}

/// Of five huge pages two nodes have three and two at best.
#[test]
fn as_even_as_huge_pages_can_be_is_even() {
    let odd = process(1, &[6, 4], 8, &[0.5, 0.5], 4);
    let view = View { nodes: nodes(2, 4), processes: vec![odd] };
    assert_eq!(steps(&decided(&view)), ["interleave 1 0,1 5"]);
    let plan = decide(&view, &Knowledge { unit: 2 * MIB, ..Knowledge::default() });
    assert!(reason(&plan).contains("already spread over nodes 0, 1"), "{plan:?}");
}

#[test]
fn three_threads_on_nodes_of_two_cpus_take_two_nodes() {
    let view =
        View { nodes: nodes(4, 2), processes: vec![process(1, &[64, 0, 0, 0], 3, &[0.25; 4], 2)] };
    assert_eq!(steps(&decided(&view)), ["pin 1 to 0,1", "interleave 1 0,1 32"]);
}

#[test]
fn the_spread_takes_near_nodes() {
    let mut view =
        View { nodes: nodes(4, 2), processes: vec![process(1, &[64, 0, 0, 0], 4, &[0.25; 4], 2)] };
    view.nodes[0].distances = vec![10, 31, 31, 15];
    assert_eq!(steps(&decided(&view)), ["pin 1 to 0,3", "interleave 1 0,3 32"]);
}

#[test]
fn private_memory_over_several_nodes_is_the_kernels_to_place() {
    let mut wide = process(1, &[64, 0], 8, &[0.5, 0.5], 4);
    wide.sharing = Sharing::Private;
    let view = View { nodes: nodes(2, 4), processes: vec![wide] };
    assert!(reason(&decided(&view)).contains("kernel's NUMA balancing"));
}

#[test]
fn sleepers_small_ones_and_one_node_are_left_alone() {
    let left_alone = |change: &dyn Fn(&mut View)| {
        let mut view =
            View { nodes: nodes(2, 4), processes: vec![process(1, &[0, 64], 1, &[1.0, 0.0], 4)] };
        change(&mut view);
        reason(&decided(&view)).to_owned()
    };
    assert!(left_alone(&|view| view.processes[0].threads[0].busy = 0.01).contains("idle"));
    assert!(left_alone(&|view| view.processes[0].bytes = vec![0, 4096]).contains("4 KiB"));
    assert!(left_alone(&|view| view.processes[0].cpus = vec![0, 0]).contains("cpuset"));
    assert!(
        left_alone(&|view| view.processes[0].memory_allowed = vec![false; 2]).contains("cpuset")
    );
    assert!(left_alone(&|view| view.processes[0].bytes = vec![1]).contains("does not match"));
    let one = View { nodes: nodes(1, 4), processes: vec![process(1, &[64], 1, &[1.0], 4)] };
    assert!(reason(&decided(&one)).contains("one NUMA node"));
}

#[test]
fn memory_does_not_go_where_it_has_no_room() {
    let mut bound = process(1, &[0, 512], 2, &[1.0, 0.0], 4);
    bound.cpus = vec![4, 0];
    let mut view = View { nodes: nodes(2, 4), processes: vec![bound] };
    view.nodes[0].free_bytes = 500 * MIB;
    assert!(reason(&decided(&view)).contains("does not fit"));
    // One by one they fit, together they do not.
    let mut pair = View {
        nodes: nodes(3, 4),
        processes: (1..3).map(|pid| process(pid, &[0, 0, 300], 2, &[0.5, 0.5, 0.0], 4)).collect(),
    };
    for process in &mut pair.processes {
        process.cpus = vec![4, 4, 0];
    }
    pair.nodes[0].free_bytes = 500 * MIB;
    pair.nodes[1].free_bytes = 100 * MIB;
    let plan = decided(&pair);
    assert!(plan.bytes() <= 450 * MIB, "{plan:?}");
}

#[test]
fn held_processes_are_left_alone_for_their_reason() {
    let view =
        View { nodes: nodes(2, 4), processes: vec![process(7, &[0, 64], 1, &[1.0, 0.0], 4)] };
    let held = [(7, "tried before".to_owned())].into();
    let plan = decide(&view, &Knowledge { held, ..Knowledge::default() });
    assert_eq!(reason(&plan), "tried before");
}

fn any_view() -> impl Strategy<Value = View> {
    (1usize..9, 1u32..65).prop_flat_map(|(count, cpus)| {
        let shares = || prop::collection::vec(0.0..1.0f64, count);
        let thread = (0.0..1.2f64, shares());
        let one = (
            prop::collection::vec(thread, 0..12),
            prop::collection::vec(0u64..2000, count),
            prop::collection::vec(0..=cpus, count),
            prop::collection::vec(prop::bool::weighted(0.8), count),
            prop::sample::select(vec![Sharing::Unknown, Sharing::Shared, Sharing::Private]),
        );
        let node = (0u64..4000, 0.0..8.0f64);
        (prop::collection::vec(node, count), prop::collection::vec(one, 0..9)).prop_map(
            move |(given, all)| {
                let mut nodes = nodes(count, cpus);
                for (node, (free, load)) in nodes.iter_mut().zip(given) {
                    node.free_bytes = free * MIB;
                    node.other_load = load;
                }
                let processes = all.into_iter().enumerate().map(|(pid, one)| {
                    let (threads, bytes, cpus, memory_allowed, sharing) = one;
                    let threads = threads.into_iter().enumerate().map(|(tid, (busy, nodes))| {
                        let nodes = crate::placement::shares(&nodes).unwrap_or(nodes);
                        ThreadView { tid: tid as u32, busy, nodes }
                    });
                    ProcessView {
                        pid: pid as u32,
                        threads: threads.collect(),
                        bytes: bytes.into_iter().map(|mib| mib * MIB).collect(),
                        cpus,
                        memory_allowed,
                        sharing,
                    }
                });
                View { nodes, processes: processes.collect() }
            },
        )
    })
}

proptest! {
    /// Nothing less local, nothing outside of cpusets, no more than there is room for, a reason for each.
    #[test]
    fn a_plan_keeps_its_promises(view in any_view()) {
        let plan = decided(&view);
        prop_assert_eq!(plan.outlook.len(), view.processes.len());
        for outlook in &plan.outlook {
            if let (Some(before), Some(after)) = (outlook.before, outlook.after) {
                prop_assert!(after >= before - LOCALITY_STEP - 1e-9, "{:?}", outlook);
            }
        }
        let mut coming = vec![0u64; view.nodes.len()];
        for process in &view.processes {
            let steps: Vec<&Action> = plan.steps.iter().filter(|s| s.pid() == process.pid).collect();
            prop_assert!(!steps.is_empty());
            for step in steps {
                let targets: Vec<u32> = match step {
                    Action::Pin { nodes, .. } => nodes.clone(),
                    Action::Interleave { nodes, .. } => nodes.clone(),
                    Action::Move { from, to, bytes, .. } => {
                        prop_assert!(*bytes <= process.bytes[*from as usize]);
                        prop_assert!(from != to);
                        coming[*to as usize] += bytes;
                        vec![*to]
                    }
                    Action::Leave { .. } => vec![],
                };
                for target in targets {
                    prop_assert!(process.cpus[target as usize] > 0);
                    prop_assert!(process.memory_allowed[target as usize]);
                }
            }
        }
        for (node, coming) in view.nodes.iter().zip(coming) {
            prop_assert!(coming <= node.free_bytes, "{} into {:?}", coming, node);
        }
        prop_assert_eq!(&plan, &decided(&view), "equal input, equal output");
    }
}
