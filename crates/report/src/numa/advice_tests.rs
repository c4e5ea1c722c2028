//! The page of an advice.

use pmuscope_numa::advise::faults::Missed;
use pmuscope_numa::advise::sharing::Sharing;
use pmuscope_numa::advise::{Cost, Evidence, Gathered, NodeEvidence, commands, judge};

use super::AdviceReport;
use super::advice::advice_text;
use crate::Style;
use crate::report::Report as _;
use crate::sheet::Separator;

fn node(id: u32, own_cpus: f64, mib: f64) -> NodeEvidence {
    NodeEvidence {
        id,
        cpus: 4,
        cpu_list: format!("{}-{}", 4 * id, 4 * id + 3),
        usable_cpus: 4,
        may_run: true,
        some_may_run: true,
        may_take: true,
        memory_bytes: Some(16 << 30),
        free_bytes: Some(12 << 30),
        busy_cpus: Some(own_cpus + 0.25),
        own_cpus,
        own_bytes: mib * 1048576.0,
        bandwidth: None,
    }
}

/// Two threads on node 0, memory on node 1.
fn apart() -> Gathered {
    let evidence = Evidence {
        seconds: 5.0,
        nodes: vec![node(0, 1.98, 12.0), node(1, 0.0, 512.0)],
        threads: 3,
        busy_threads: 2,
        locality_half: Some(0.004),
        pages_asked: 86_016,
        sharing: Some(Sharing {
            faults: 5210,
            first_touches: 10,
            uses: 5000,
            unknown: 200,
            placed_uses: 4000,
            local_uses: 100,
            judged: 900,
            shared: 870,
            granule_bytes: 4096,
        }),
        balancing: Some(true),
        bandwidth_why: Some("this machine shows no counters of its memory controllers".to_owned()),
        is_bound: true,
        ..Evidence::default()
    };
    let missed = Missed { lost: 3, throttled: 0 };
    let cost =
        Cost { cpu_ns: 45_000_000, observations: 21, pages_asked: 86_016, period: Some(7), missed };
    Gathered { evidence, name: b"job\x1b[31m".to_vec(), cost, ended: false }
}

fn page(gathered: &Gathered, emulator: Option<&str>, style: &Style) -> String {
    let advice = judge(&gathered.evidence);
    let commands = commands(&advice.verdict, &gathered.evidence, 4711, &|_| true);
    advice_text(&AdviceReport::new(4711, gathered, &advice, &commands, emulator), style)
}

#[test]
fn nodes_are_rows_for_scripts() {
    let gathered = apart();
    let advice = judge(&gathered.evidence);
    let report = AdviceReport::new(4711, &gathered, &advice, &[], None);
    insta::assert_snapshot!(report.delimited(Separator::Comma).unwrap(), @"
    node,cpus,busy_cpus,own_cpus,others_cpus,own_bytes,own_bytes_share,free_bytes,bandwidth,allowed_cpus,memory_allowed
    0,4,2.23,1.98,0.25,12582912,0.022900763358778626,12884901888,,0-3,true
    1,4,0.25,0,0.25,536870912,0.9770992366412213,12884901888,,4-7,true
    ");
}

#[test]
fn memory_on_another_node() {
    crate::widths::fits("numa-advice", |style| page(&apart(), None, style));
    insta::assert_snapshot!(page(&apart(), None, &Style::PLAIN), @r"
    job\x1b[31m (4711): 3 threads, 1.98 CPUs busy, 524 MiB on 2 NUMA nodes, 5.00 s
    overhead: 0.90% of one CPU · 21 snapshots, 86,016 pages queried · 5,210 minor faults sampled, 1 in 7 · lost 3 · throttled 0

    compact: threads to node 1, where the memory is
      - locality 0.02, and 2% of the sampled accesses were local
      - 98% of its memory and 0% of its running time are on node 1, which has room for all of it

    NUMA nodes: busy CPUs and memory, means over 5.00 s
      node  CPUs  busy   own  others  own memory  share    free  bandwidth  allowed CPUs
         0     4  2.23  1.98    0.25      12 MiB   2.3%  12 GiB          -  0-3
         1     4  0.25  0.00    0.25     512 MiB  97.7%  12 GiB          -  4-7

    Evidence
      locality          0.023 ± 0.004 if every thread uses all memory alike
      faults            5,210 sampled: 10 first touches · 5,000 uses of resident pages, 2.5% local · 200 of pages not queried
      sharing           96.7% of 900 pages used twice were used by several threads
      balancing         on: the kernel moves pages and tasks as well
      affinity          set: it may not run on all CPUs of its cpuset
      bandwidth         - (this machine shows no counters of its memory controllers)

    To try
      taskset -apc 4-7 4711                      moves all its threads to that node
      pmuscope numa balance -p 4711 --dry-run    shows what pmuscope would move, without moving it
      numactl --cpunodebind=1 --preferred=1 CMD  does the same at the next start
    ");
}

#[test]
fn too_little_to_say_anything_on_a_terminal_without_unicode() {
    let mut idle = apart();
    idle.ended = true;
    idle.evidence.nodes[0].own_cpus = 0.0;
    idle.evidence.sharing = None;
    idle.cost.period = None;
    idle.evidence.sharing_why = Some("perf_event_open: EACCES (Permission denied)".to_owned());
    let style = Style { color: false, unicode: false, width: Some(80) };
    let page = page(&idle, Some("QEMU TCG"), &style);
    assert!(page.is_ascii(), "{page}");
    insta::assert_snapshot!(page, @r"
    job\x1b[31m (4711): 3 threads, 0.00 CPUs busy, 524 MiB on 2 NUMA nodes, 5.00
      s, until it ended
    overhead: 0.90% of one CPU | 21 snapshots, 86,016 pages queried | no faults
      sampled | lost 3 | throttled 0 | emulated (QEMU TCG): remote memory is as fast
      as local

    not enough evidence
      - its threads used 0% of a CPU: too little to matter for memory

    NUMA nodes: busy CPUs and memory, means over 5.00 s
                                            own                            allowed
      node  CPUs  busy   own  others     memory  share    free  bandwidth  CPUs
         0     4  2.23  0.00    2.23     12 MiB   2.3%  12 GiB          -  0-3
         1     4  0.25  0.00    0.25    512 MiB  97.7%  12 GiB          -  4-7

    Evidence
      locality          -
      faults            - (perf_event_open: EACCES (Permission denied))
      balancing         on: the kernel moves pages and tasks as well
      affinity          set: it may not run on all CPUs of its cpuset
      bandwidth         - (this machine shows no counters of its memory controllers)

    To try
      pmuscope numa advise -p 4711 --seconds 30
          observes longer; best while it is busy
    ");
}
