//! Recording in guests with what the machine of most people lacks: nodes, kernels, CPUs that come and go.

use pmuscope_perfdata::info::RecordingInfo;

use crate::harness::{Scratch, need_full, skip_unless};
use crate::lab::{lab, need_guests, need_newer_kernel, write_script};
use crate::recording::Recording;

/// Four nodes, whose CPU numbers go round them.
const NODES: [&str; 5] = ["--nodes", "4", "--cpus", "8", "--interleave"];
/// Something for every CPU to do.
const LOAD: [&str; 6] = ["--", "pmuscope", "workload", "stencil", "--size", "64"];

/// Records a guest with four nodes that are all busy, in this way.
fn record(scratch: &Scratch, how: &[&str]) -> RecordingInfo {
    let record = ["--", "record", "-a", "-e", "cpu-clock", "-F", "1000"];
    let args = ["run"].iter().chain(&NODES).chain(&record).chain(how).chain(&LOAD);
    lab(scratch, args.chain(&["--seconds", "2"])).exits(0);
    let info = Recording::at(scratch.path("pmuscope.data")).info();
    assert_eq!((info.machine.nodes, info.machine.cpus), (4, 8));
    assert!(info.samples() > 100, "{} samples", info.samples());
    info
}

fn drains(info: &RecordingInfo) -> (u64, u64) {
    let readers = &info.cost.readers;
    (readers.iter().map(|r| r.drains_on_node).sum(), readers.iter().map(|r| r.drains).sum())
}

#[test]
fn full_rings_are_drained_on_their_node() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    for how in [
        ["--readers", "serial", "--affinity", "node"],
        ["--readers", "serial", "--affinity", "cpu"],
        ["--readers", "node", "--affinity", "node"],
    ] {
        let info = record(&Scratch::new(), &how);
        let (on_node, all) = drains(&info);
        assert!(all > 8, "{how:?}: {all} drains");
        assert_eq!(on_node, all, "{how:?}: drains on the ring's node");
    }
}

/// CPU numbers that go round the nodes make a reader that walks rings by number move at every ring.
#[test]
fn full_a_reader_moves_once_per_node_and_pass() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let how = ["--readers", "serial", "--affinity", "node"];
    let info = record(&Scratch::new(), &how);
    let [reader] = info.cost.readers.as_slice() else { panic!("{:?}", info.cost.readers) };
    // A wake-up is at most one pass; at the end there are a few more.
    let passes = reader.wakeups + 4;
    assert!(reader.moves <= 4 * passes, "{reader:?}");
    assert!(reader.moves > 0 && reader.moves * 3 <= reader.drains * 2, "{reader:?}");
}

/// The kernel's own table of a process's memory: `7f00… bind:2 anon=16 dirty=16 N2=16 …`. Lines with a
/// binding, as (node bound to, nodes that have pages).
fn bound(numa_maps: &str) -> Vec<(u32, Vec<u32>)> {
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let node = words.next()?.strip_prefix("bind:")?.parse().ok()?;
        let pages = |word: &str| word.strip_prefix('N')?.split_once('=')?.0.parse().ok();
        Some((node, words.filter_map(pages).collect()))
    };
    numa_maps.lines().filter_map(line).collect()
}

#[test]
fn full_asynchronous_buffers_lie_on_the_rings_node() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    // Buffers have pages once their node's rings were read: a slow guest takes its time.
    let script = "#!/bin/sh
pmuscope record -a -e cpu-clock -F 2000 --aio -- pmuscope workload stencil --size 64 --seconds 600 &
has_pages() {
    while read -r _ policy rest; do
        case \"$policy $rest\" in *bind:$1*N$1=*) return 0 ;; esac
    done <numa_maps
    return 1
}
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 3
    cat /proc/$!/numa_maps >numa_maps
    has_pages 0 && has_pages 1 && has_pages 2 && has_pages 3 && break
done
kill $!
wait $!
# As the signal ends programs.
[ $? = 143 ]
";
    write_script(&scratch, "watch", script);
    let files = ["--file", "watch", "--file", "/bin/sleep", "--file", "/bin/cat"];
    let args = ["run"].iter().chain(&NODES).chain(&files);
    lab(&scratch, args.chain(&["--", "workload", "command", "--", "./watch"])).exits(0);
    let text = std::fs::read_to_string(scratch.path("numa_maps")).unwrap();
    let bound = bound(&text);
    let with_pages: Vec<_> = bound.iter().filter(|(_, pages)| !pages.is_empty()).collect();
    for node in 0..4 {
        let is_there = with_pages.iter().any(|(bound, _)| *bound == node);
        assert!(is_there, "no buffer with pages on node {node}\n{text}");
    }
    assert!(with_pages.iter().all(|(node, pages)| pages == &[*node]), "{text}");
}

#[test]
fn full_a_newer_kernel_records_as_well() {
    skip_unless!(need_full());
    skip_unless!(need_newer_kernel());
    let scratch = Scratch::new();
    let guest = ["run", "--kernel", "6.12", "--cpus", "2", "--", "record", "-a", "-g", "-z"];
    let args = guest.iter().chain(&["-e", "cpu-clock"]).chain(&LOAD);
    lab(&scratch, args.chain(&["--seconds", "1"])).exits(0);
    let info = Recording::at(scratch.path("pmuscope.data")).info();
    assert!(info.machine.kernel.starts_with("6.12") && info.samples() > 100, "{info:?}");
    assert_eq!(info.lost(), Some(0));
    scratch.pmuscope(["report", "--call-tree"]).exits(0).prints("stencil");
}

#[test]
fn full_a_recording_outlives_a_cpu_that_goes_and_comes() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    // The recording's own command, so that it has begun however slow the guest is.
    let script = "#!/bin/sh
pmuscope workload stencil --size 64 --seconds 4 &
sleep 1
echo 0 >/sys/devices/system/cpu/cpu2/online
sleep 1
echo 1 >/sys/devices/system/cpu/cpu2/online
wait $!
";
    write_script(&scratch, "unplug", script);
    let guest = ["run", "--cpus", "4", "--file", "unplug", "--file", "/bin/sleep"];
    let record = ["--", "record", "-a", "-e", "cpu-clock", "-F", "1000", "--", "./unplug"];
    lab(&scratch, guest.iter().chain(&record)).exits(0);
    let info = Recording::at(scratch.path("pmuscope.data")).info();
    assert!(info.samples() > 100 && info.complete, "{info:?}");
    let others = info.rings.iter().filter(|ring| ring.cpu != Some(2));
    assert!(others.clone().count() == 3 && others.clone().all(|ring| ring.samples > 0), "{info:?}");
    scratch.pmuscope(["report", "--by", "cpu"]).exits(0);
}

/// More CPUs than the readers, the machine's lists and the rings of most tests meet.
#[test]
fn full_64_cpus_are_told_and_recorded() {
    skip_unless!(need_full());
    skip_unless!(need_guests("x86_64", "6.1"));
    let scratch = Scratch::new();
    let script = "#!/bin/sh -e
pmuscope doctor --json >doctor.json
pmuscope record -a -e cpu-clock -F 100 -- pmuscope workload stencil --size 64 --threads 4 --seconds 2
";
    write_script(&scratch, "both", script);
    let guest = ["run", "--cpus", "64", "--nodes", "4", "--append", "nokaslr", "--file", "both"];
    lab(&scratch, guest.iter().chain(&["--", "workload", "command", "--", "./both"])).exits(0);
    let text = std::fs::read_to_string(scratch.path("doctor.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let nodes = json["machine"]["topology"]["nodes"].as_array().unwrap();
    let cpus: Vec<_> = nodes.iter().map(|node| node["cpus"].as_str().unwrap()).collect();
    assert_eq!(cpus, ["0-15", "16-31", "32-47", "48-63"]);
    let info = Recording::at(scratch.path("pmuscope.data")).info();
    assert_eq!((info.machine.cpus, info.machine.nodes, info.rings.len()), (64, 4, 64));
    assert!(info.samples() > 100 && info.lost() == Some(0), "{info:?}");
    scratch.pmuscope(["report"]).exits(0).prints("64 CPUs (4 NUMA nodes)");
}
