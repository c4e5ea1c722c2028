//! Counts of services and locality of memory over hosts whose sums are known.

use std::sync::Arc;

use pmuscope_dataset::{
    COUNTS_EVENT, CountRow, Dataset, HostRow, IntervalRow, LOCALITY_EVENT, LocalityRow, Rows,
    Timestamp,
};
use pmuscope_events::metrics::Metrics;
use pmuscope_query::{
    ColumnFilter, Engine, FleetMetrics, MetricSource, Selection, ShareBy, choose_event, locality,
    metrics,
};

/// 2025-11-25, midnight UTC.
const DAY: i64 = 1_764_028_800_000_000;
const BIN_US: i64 = 300_000_000;
/// Seconds that are measured, microseconds.
const MEASURED_US: i64 = 10_000_000;

fn interval(host: &str, event: &str) -> IntervalRow {
    IntervalRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        event: event.into(),
        cpus: Some(4),
        recorded_us: MEASURED_US,
        samples: 2,
        lost: Some(1),
        batch: 1,
        ..IntervalRow::default()
    }
}

/// An event of a service: counts while it was on a counter for `cpu_us` of `all_cpu_us`.
fn count(host: &str, service: &str, set: &str, event: &str, sums: (i64, i64, i64)) -> CountRow {
    let (count, cpu_us, all_cpu_us) = sums;
    CountRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: service.into(),
        version: (service == "shop").then(|| Arc::from("1.2")),
        event_set: set.into(),
        event: event.into(),
        cgroups: 1,
        count,
        cpu_us,
        all_cpu_us,
        batch: 1,
        ..CountRow::default()
    }
}

const HARDWARE: &str = "cycles,instructions";
const SOFTWARE: &str = "context-switches,page-faults";

/// Host `number` of a fleet. The shop runs at 3 GHz with a CPI that differs from host to host around 1.5, half of the time
/// on a counter; the db is on the first two hosts only.
fn host(number: i64) -> (String, Vec<CountRow>) {
    let name = format!("host-{number}");
    let cpu_us = 1_000_000 + 50_000 * number;
    let cycles = 3000 * cpu_us / 2;
    let instructions = cycles * 100 / (145 + 2 * number);
    let of = |event, sums| count(&name, "shop", HARDWARE, event, sums);
    let mut rows = vec![
        of("cycles", (cycles, cpu_us / 2, cpu_us)),
        of("instructions", (instructions, cpu_us / 2, cpu_us)),
        count(&name, "shop", SOFTWARE, "page-faults", (cpu_us / 1000, cpu_us, cpu_us)),
        count(&name, "shop", SOFTWARE, "context-switches", (0, cpu_us, cpu_us)),
    ];
    if number < 2 {
        rows.push(count(&name, "db", SOFTWARE, "page-faults", (500, 100_000, 100_000)));
    }
    (name, rows)
}

fn fleet(hosts: i64) -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    for number in 0..hosts {
        let (name, counts) = host(number);
        let intervals = vec![interval(&name, COUNTS_EVENT), interval(&name, "cpu-clock")];
        let rows = Rows { counts, intervals, ..Rows::default() };
        dataset.write_all(rows, Timestamp(DAY), &name).unwrap();
    }
    let engine = Engine::open(&folder.path().into()).unwrap();
    (folder, engine)
}

fn asked(engine: &Engine, by: &[ShareBy], names: &[&str]) -> FleetMetrics {
    let mut known = Metrics::builtin();
    known.add("[time]\nPF/s = 1000000 * page-faults / cpu-time\nGHz = cycles / 1000 / cpu-time\n%TIME = 100 * cpu-time / total(cpu-time)").unwrap();
    let chosen = known.chosen(names).unwrap();
    metrics(engine, MetricSource::Counts, (by, 10), &known, &chosen).unwrap()
}

fn select(engine: &Engine, event: &str) {
    let event = Some(event.to_owned());
    engine.select(&Selection { event, ..Selection::default() }, None).unwrap();
}

#[test]
fn metrics_of_services_are_ratios_of_sums_with_intervals_over_hosts() {
    let (_folder, engine) = fleet(6);
    select(&engine, COUNTS_EVENT);
    let found = asked(&engine, &[ShareBy::Service], &["CPI", "PF/s", "GHz", "%TIME"]);
    assert_eq!((found.coverage.hosts.len(), found.coverage.lost()), (6, Some(6)));
    let [shop, db] = &found.rows[..] else { panic!("two services: {:?}", found.rows) };
    assert_eq!((&shop.keys, &db.keys), (&vec!["shop".to_owned()], &vec!["db".to_owned()]));
    let sums = |of: fn(i64) -> f64| (0..6).map(of).sum::<f64>();
    let cycles = sums(|host| (3000 * (1_000_000 + 50_000 * host) / 2) as f64);
    let instructions =
        sums(|host| (3000 * (1_000_000 + 50_000 * host) / 2 * 100 / (145 + 2 * host)) as f64);
    let cpi = shop.metrics[0];
    assert!((cpi.value.unwrap() - cycles / instructions).abs() < 1e-12, "{cpi:?}");
    let interval = cpi.interval.unwrap();
    assert!(interval.low < cycles / instructions && cycles / instructions < interval.high);
    assert!(interval.low > 1.44 && interval.high < 1.56, "{interval:?}");
    // A fault each millisecond on all hosts: no spread.
    assert!((shop.metrics[1].value.unwrap() - 1000.0).abs() < 1.0, "{:?}", shop.metrics[1]);
    assert!((db.metrics[1].value.unwrap() - 5000.0).abs() < 1e-9, "{:?}", db.metrics[1]);
    assert_eq!((db.hosts, db.metrics[0].value), (2, None), "nobody counted its cycles");
    // Half of the time on a counter: a rate is of that half.
    assert!((shop.metrics[2].value.unwrap() - 3.0).abs() < 1e-5, "{:?}", shop.metrics[2]);
    assert!(shop.metrics[3].value.unwrap() < 100.0 && db.metrics[3].value.unwrap() < 5.0);
}

#[test]
fn services_can_be_selected_and_two_hosts_have_no_interval() {
    let (_folder, engine) = fleet(2);
    let condition = ColumnFilter::new("service", vec!["db".into()]).unwrap();
    let event = Some(COUNTS_EVENT.to_owned());
    let selection = Selection { event, conditions: vec![condition], ..Selection::default() };
    engine.select(&selection, None).unwrap();
    let found = asked(&engine, &[ShareBy::Service, ShareBy::Version], &["PF/s"]);
    let [row] = &found.rows[..] else { panic!("one service: {:?}", found.rows) };
    assert_eq!(row.keys, ["db", ""]);
    assert!(row.metrics[0].value.is_some() && row.metrics[0].interval.is_none());
    assert!(found.rows.iter().all(|row| row.keys[0] == "db"));
}

/// Hosts that have nothing of a service do not make its intervals narrower, and a single host has none.
#[test]
fn intervals_are_over_the_hosts_that_have_a_service() {
    let all = |hosts: i64| -> Vec<(i64, FleetMetrics)> {
        let (_folder, engine) = fleet(hosts);
        select(&engine, COUNTS_EVENT);
        vec![
            (1, asked(&engine, &[ShareBy::Service], &["PF/s"])),
            (hosts, asked(&engine, &[ShareBy::Host, ShareBy::Service], &["PF/s"])),
        ]
    };
    for (hosts, found) in all(6) {
        let rows = found.rows.iter().filter(|row| row.keys.last().is_some_and(|key| key == "shop"));
        let with_interval = rows.clone().filter(|row| row.metrics[0].interval.is_some()).count();
        assert_eq!((rows.count() as i64, with_interval), (hosts, usize::from(hosts == 1)));
        let db = found.rows.iter().filter(|row| row.keys.last().is_some_and(|key| key == "db"));
        assert!(db.clone().all(|row| row.metrics[0].interval.is_none()), "on two hosts");
    }
}

/// What has no samples is no event that a question about samples could be about.
#[test]
fn counts_are_not_chosen_where_nobody_names_an_event() {
    let (_folder, engine) = fleet(1);
    let chosen = choose_event(&engine, &mut Selection::default()).unwrap();
    assert_eq!((chosen.event.as_deref(), chosen.others.len()), (Some("cpu-clock"), 0));
}

/// GiB of a host's node: memory, local memory; observed twice.
fn placed(host: &str, service: &str, node: i64, memory: i64, local: i64) -> LocalityRow {
    LocalityRow {
        start: Timestamp(DAY),
        bin_us: BIN_US,
        host: host.into(),
        service: service.into(),
        node,
        observations: 2,
        processes: 4,
        cpu_us: 1_000_000,
        memory_bytes: memory << 30,
        local_bytes: local << 30,
        idle_bytes: 1 << 30,
        batch: 1,
        ..LocalityRow::default()
    }
}

#[test]
fn locality_is_by_service_or_host_and_the_most_remote_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let dataset = Dataset::new(folder.path());
    for (number, local) in [(1, 5), (2, 6), (3, 7)] {
        let name = format!("host-{number}");
        let locality = vec![
            placed(&name, "db", 0, 20, local),
            placed(&name, "db", 1, 0, 0),
            placed(&name, "web", 0, 4, 4),
        ];
        let intervals = vec![interval(&name, LOCALITY_EVENT)];
        let emulator = (number < 3).then(|| Arc::from("QEMU TCG"));
        let hosts = vec![HostRow { host: (&*name).into(), emulator, ..HostRow::default() }];
        let rows = Rows { locality, intervals, hosts, ..Rows::default() };
        dataset.write_all(rows, Timestamp(DAY), &name).unwrap();
    }
    let engine = Engine::open(&folder.path().into()).unwrap();
    select(&engine, LOCALITY_EVENT);
    let found = locality(&engine, &[ShareBy::Service], 10).unwrap();
    let keys: Vec<&str> = found.rows.iter().map(|row| &*row.keys[0]).collect();
    assert_eq!(keys, ["db", "web"]);
    let emulated: Vec<_> = found.emulated.iter().map(|(name, hosts)| (&**name, *hosts)).collect();
    assert_eq!(emulated, [("QEMU TCG", 2)]);
    let gib = f64::from(1 << 30);
    let db = &found.rows[0];
    // Each host at a time has half of what two observations add up to.
    assert_eq!((db.memory_bytes / gib, db.remote_bytes / gib), (30.0, 21.0));
    let share = db.locality.unwrap();
    assert!((share.value - 18.0 / 60.0).abs() < 1e-12);
    let interval = share.interval.unwrap();
    assert!(interval.low > 0.15 && interval.high < 0.5, "{interval:?}");
    assert_eq!(db.nodes.len(), 2);
    assert!((found.rows[1].locality.unwrap().value - 1.0).abs() < 1e-12);
    let by_host = locality(&engine, &[ShareBy::Host, ShareBy::Service], 2).unwrap();
    let keys: Vec<String> = by_host.rows.iter().map(|row| row.keys.join(" ")).collect();
    assert_eq!(keys, ["host-1 db", "host-2 db"], "the two with most remote memory");
    assert!(by_host.rows[0].locality.unwrap().interval.is_none());
}
