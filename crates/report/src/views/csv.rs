//! Views as tables of comma-separated values: fields as those of `report -o FILE.csv`, shares from 0 to 1,
//! numbers with all digits; what was not measured is empty.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::export::csv::field;
use pmuscope_profile::views::{DataAddresses, Dimension, Key, Row, SideRow};
use pmuscope_stats::Interval;

use super::details::{share_of, shown};
use super::dimension_word;
use crate::recording::RowLimits;

/// Puts fields together to lines.
#[derive(Debug)]
pub(super) struct Lines(String);

impl Lines {
    /// With a head, whose names are fields already.
    pub(super) fn new(head: &[String]) -> Self {
        Self(format!("{}\n", head.join(",")))
    }

    pub(super) fn push(&mut self, fields: &[String]) {
        self.0.push_str(&fields.join(","));
        self.0.push('\n');
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Foreign text.
pub(super) fn text(text: &str) -> String {
    field(text).into_owned()
}

/// Empty where there is none.
pub(super) fn number<N: ToString>(number: Option<N>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn bounds(interval: Option<Interval>) -> [String; 2] {
    [number(interval.map(|one| one.low)), number(interval.map(|one| one.high))]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn names(by: &[Dimension]) -> impl Iterator<Item = String> + '_ {
    by.iter().map(|one| dimension_word(*one).to_owned())
}

/// Rows of events, which come with their names. `children` adds what is in or under a row, where stacks
/// were recorded.
#[must_use]
pub fn rows_csv(
    events: &[(&str, Vec<Row>)],
    by: &[Dimension],
    modules: &[ModuleSummary],
    children: bool,
    limits: RowLimits,
) -> String {
    let mut head = words(&["event", "share", "share_low", "share_high", "samples", "weight"]);
    head.extend(words(&["total_share", "total_samples"]).into_iter().filter(|_| children));
    head.extend(names(by));
    let mut lines = Lines::new(&head);
    for (event, rows) in events {
        let size = |row: &&Row| if children { row.total_share } else { row.share };
        let large = rows.iter().filter(|row| size(row) >= limits.share);
        for row in large.take(limits.rows.unwrap_or(usize::MAX)) {
            let [low, high] = bounds(row.interval);
            let (samples, weight) = (row.own.samples.to_string(), row.own.weight.to_string());
            let mut line = vec![text(event), row.share.to_string(), low, high, samples, weight];
            let total = [row.total_share.to_string(), row.total.samples.to_string()];
            line.extend(total.into_iter().filter(|_| children));
            line.extend(row.keys.iter().map(|key| key_text(key, modules)));
            lines.push(&line);
        }
    }
    lines.finish()
}

/// Rows with four columns for each of `events`, their names.
#[must_use]
pub fn side_by_side_csv(
    rows: &[SideRow],
    events: &[&str],
    by: &[Dimension],
    modules: &[ModuleSummary],
    limits: RowLimits,
) -> String {
    let mut head: Vec<String> = names(by).collect();
    for event in events {
        let column = |of: &str| text(&format!("{event} {of}"));
        head.extend(["share", "share_low", "share_high", "samples"].map(column));
    }
    let mut lines = Lines::new(&head);
    let large = rows.iter().filter(|row| row.largest() >= limits.share);
    for row in large.take(limits.rows.unwrap_or(usize::MAX)) {
        let mut line: Vec<String> = row.keys.iter().map(|key| key_text(key, modules)).collect();
        for one in &row.shares {
            // An event without a sample there has counted 0, not nothing.
            let [low, high] = bounds(one.and_then(|one| one.interval));
            let share = one.map_or(0.0, |one| one.share).to_string();
            line.extend([share, low, high, one.map_or(0, |one| one.samples).to_string()]);
        }
        lines.push(&line);
    }
    lines.finish()
}

/// Accesses to data.
#[must_use]
pub fn data_csv(found: &DataAddresses, limits: RowLimits) -> String {
    let mut head = words(&["share", "share_low", "share_high", "samples"]);
    head.extend(words(&["weight_mean", "weight_max", "loads", "stores", "remote", "hitm"]));
    head.extend(words(&["module", "data"]));
    let mut lines = Lines::new(&head);
    let share = |row: usize| share_of(found.rows[row].sums.samples, found.with_address);
    for (row, at) in found.rows[..shown(limits, found.rows.len(), share)].iter().zip(0..) {
        let sums = &row.sums;
        let [low, high] = bounds(row.interval);
        let mut line = vec![share(at).to_string(), low, high, sums.samples.to_string()];
        line.extend([number(sums.weights.mean()), number(sums.weights.largest())]);
        let told = [sums.loads, sums.stores, sums.remote, sums.hitm];
        line.extend(told.map(|of| number(sums.told(of))));
        line.extend([text(&row.module), text(row.object.as_deref().unwrap_or_default())]);
        lines.push(&line);
    }
    lines.finish()
}

/// A key as a field; empty where it is not known.
fn key_text(key: &Key, modules: &[ModuleSummary]) -> String {
    match key {
        Key::Unknown => String::new(),
        Key::Name(name) => text(name),
        Key::Number(number) => number.to_string(),
        Key::Module(module) => text(modules.get(*module as usize).map_or("", |one| &*one.path)),
        Key::Line(line) => {
            let number = line.number.map_or("?".into(), |number| number.to_string());
            text(&format!("{}:{number}", line.file))
        }
        Key::Address(address) => format!("{address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use pmuscope_profile::Walked;
    use pmuscope_profile::views::{DataRow, DataSums, SideShare, Sums, Weights};

    use super::super::tests::modules;
    use super::*;

    const ALL: RowLimits = RowLimits { rows: None, share: 0.0 };
    const BY: [Dimension; 3] = [Dimension::Function, Dimension::Module, Dimension::Cpu];

    fn keys(name: &str, module: u32) -> Vec<Key> {
        vec![Key::Name(name.into()), Key::Module(module), Key::Number(3)]
    }

    fn interval() -> Interval {
        Interval { low: 0.5, high: 0.75, level: 0.95 }
    }

    #[test]
    fn rows_have_their_dimensions_behind_their_numbers() {
        let row = |name: &str, module, samples: u64| {
            let sums = Sums { samples, weight: 10 * samples };
            let share = samples as f64 / 8.0;
            let interval = (samples > 4).then(interval);
            Row {
                keys: keys(name, module),
                own: sums,
                total: sums,
                share,
                total_share: share,
                interval,
            }
        };
        let rows = vec![row("get<a, b>", 0, 5), row("=read", 1, 2), row("rare", 1, 1)];
        let events = [("cycles", rows)];
        let limits = RowLimits { rows: None, share: 0.2 };
        insta::assert_snapshot!(rows_csv(&events, &BY, &modules(), false, limits), @r#"
        event,share,share_low,share_high,samples,weight,function,module,cpu
        cycles,0.625,0.5,0.75,5,50,"get<a, b>",/usr/bin/db,3
        cycles,0.25,,,2,20,"'=read",[kernel.kallsyms],3
        "#);
        let limits = RowLimits { rows: Some(1), share: 0.0 };
        insta::assert_snapshot!(rows_csv(&events, &BY, &modules(), true, limits), @r#"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,function,module,cpu
        cycles,0.625,0.5,0.75,5,50,0.625,5,"get<a, b>",/usr/bin/db,3
        "#);
    }

    #[test]
    fn events_stand_side_by_side() {
        let share = |samples, interval| SideShare { samples, share: 0.625, interval };
        let rows = [
            SideRow { keys: keys("a", 0), shares: vec![Some(share(5, Some(interval()))), None] },
            SideRow { keys: vec![Key::Unknown; 3], shares: vec![None, Some(share(2, None))] },
        ];
        let events = ["cycles", "cache-misses,x"];
        insta::assert_snapshot!(side_by_side_csv(&rows, &events, &BY, &modules(), ALL), @r#"
        function,module,cpu,cycles share,cycles share_low,cycles share_high,cycles samples,"cache-misses,x share","cache-misses,x share_low","cache-misses,x share_high","cache-misses,x samples"
        a,/usr/bin/db,3,0.625,0.5,0.75,5,0,,,0
        ,,,0,,,0,0.625,,,2
        "#);
    }

    #[test]
    fn what_no_sample_tells_of_data_is_empty() {
        let sums = DataSums { samples: 3, weights: Weights::default(), ..DataSums::default() };
        let told = DataSums { samples: 1, with_source: 1, loads: 1, ..DataSums::default() };
        let found = DataAddresses {
            rows: vec![
                DataRow {
                    object: Some("table".into()),
                    module: "/usr/bin/db".into(),
                    sums,
                    interval: Some(interval()),
                },
                DataRow { object: None, module: "[heap]".into(), sums: told, interval: None },
            ],
            samples: Walked::default(),
            with_address: 4,
        };
        insta::assert_snapshot!(data_csv(&found, ALL), @r"
        share,share_low,share_high,samples,weight_mean,weight_max,loads,stores,remote,hitm,module,data
        0.75,0.5,0.75,3,,,,,,,/usr/bin/db,table
        0.25,,,1,,,1,0,0,0,[heap],
        ");
    }
}
