//! The parts of the result: targets, each with its call sites, values and history; cache lines.

use pmuscope_perfdata::watch::WatchTarget;
use pmuscope_profile::hits::{CacheLine, HitRecord, SharingVerdict, TargetHits};

use super::often::Often;
use super::words::{about, consequence, evidence, of_hits, verdict};
use super::{WatchView, charts, sheets, stretches};
use crate::number::{count, counted, duration, exact, significant};
use crate::section::Section;

impl<'a> WatchView<'a> {
    /// All parts; of a target without hits the first one says all.
    pub(super) fn parts(&self) -> Vec<Section<'a>> {
        let targets = Section::new("targets", "Targets")
            .about(
                "Hits while watchpoints were enabled; ± is the 95% CI, ~ an estimate, ≥ a lower bound from records.",
            )
            .bare()
            .sheet(sheets::targets(self, None));
        let mut parts = vec![targets];
        let all = self.targets().enumerate();
        parts.extend(
            all.filter(|(_, (_, hits))| hits.hits > 0 || hits.records > 0)
                .map(|(at, (target, hits))| target_part(*self, at, target, hits)),
        );
        let lines = self.hits.lines.iter().take(self.limits.lines).enumerate();
        parts.extend(lines.map(|(at, line)| line_part(*self, at, line)));
        let more = self.hits.lines.len().saturating_sub(self.limits.lines);
        let more = (more > 0).then(|| counted(more as u64, "more cache line"));
        parts.extend(more.map(|more| Section::new("", more)));
        parts
    }
}

fn target_part<'a>(
    view: WatchView<'a>,
    at: usize,
    target: &WatchTarget,
    hits: &'a TargetHits,
) -> Section<'a> {
    let (of_values, of_changes) = (Often::values(hits), Often::changes(hits));
    let is_clear = steps_say_all(view, at, hits);
    let values = Section::new("", "Values").line(values(view, hits));
    let picture = charts::values(&view, hits);
    let values = match picture.is_some() {
        true => values
            .about("Band: minimum to maximum per time block; line: median; dots: single hits."),
        false => values,
    };
    Section::new(format!("target-{at}"), &target.name[..])
        .part(Section::new("", "").about(about(target)).sheet(sheets::call_sites(&view, hits)))
        .part(
            Section::new("", "Hits per second").line(over_time(hits)).picture(charts::rates(hits)),
        )
        .part(values.picture(picture))
        .part(of_values.section(view, hits, is_clear || of_changes.total > 0))
        .part(of_changes.section(view, hits, is_clear))
        .part(history(view, hits))
}

/// Nothing but steps of one: a counter that runs on has as many values as hits.
fn steps_say_all(view: WatchView<'_>, at: usize, hits: &TargetHits) -> bool {
    let all = hits.plus_one.is_some_and(|share| share.part == share.of);
    view.steps(at) && all && hits.values.distinct.is_none_or(|distinct| distinct > 100)
}

/// How rates spread.
fn over_time(hits: &TargetHits) -> Option<String> {
    let stretches = stretches(hits);
    let mut rates: Vec<f64> = stretches.iter().filter_map(|stretch| stretch.hits_per_s).collect();
    let first = stretches.first()?;
    if rates.len() < 10 || hits.hits == 0 {
        return None;
    }
    rates.sort_by(f64::total_cmp);
    let at = |p: f64| significant(pmuscope_stats::quantile_sorted(&rates, p).unwrap_or(0.0), 3);
    Some(format!(
        "over time: {} to {} hits/s, median {}, in {} blocks of {}",
        at(0.0),
        at(1.0),
        at(0.5),
        count(rates.len() as u64),
        duration(first.until_s - first.from_s)
    ))
}

/// How values spread.
fn values(view: WatchView<'_>, hits: &TargetHits) -> Option<String> {
    let of = &hits.values;
    if of.total == 0 {
        return None;
    }
    let distinct = match of.distinct {
        Some(1) => "1 value".to_owned(),
        Some(number) => format!("{} distinct values", count(number)),
        None => "too many distinct values to count".to_owned(),
    };
    let blocks = || hits.blocks.iter().filter_map(|block| block.values);
    let least = blocks().map(|block| block.min).reduce(f64::min);
    let most = blocks().map(|block| block.max).reduce(f64::max);
    let ends = least.zip(most).filter(|(least, most)| least < most && view.has_values(hits));
    let ends = ends.map_or_else(String::new, |(least, most)| {
        format!(", {} to {}", exact(least, 6), exact(most, 6))
    });
    Some(format!("values: {distinct}{ends}, in {}", of_hits(hits, of.total)))
}

/// The first and the last hits.
fn history<'a>(view: WatchView<'a>, hits: &'a TargetHits) -> Section<'a> {
    let all: Vec<&HitRecord> = hits.history.iter().collect();
    let first = view.limits.history.min(all.len());
    let last = first.max(all.len().saturating_sub(view.limits.history));
    let shown = all[..first].iter().chain(&all[last..]).copied();
    let left_out = hits.records.saturating_sub((first + all.len() - last) as u64);
    let sheet = sheets::history(view, view.has_values(hits), shown)
        .rising()
        .with_gap(first, (left_out > 0).then(|| format!("{} between", count(left_out))));
    Section::new("", "First and last hits").sheet(sheet)
}

/// A cache line: what goes on in it, and its words.
fn line_part<'a>(view: WatchView<'a>, at: usize, line: &'a CacheLine) -> Section<'a> {
    let of = line.pid.map_or_else(String::new, |pid| format!(" of process {pid}"));
    let estimate = if line.is_estimate { "estimate: " } else { "" };
    let title = format!("cache line {:#x}{of}: {estimate}{}", line.address, verdict(line.verdict));
    let is_bad = matches!(line.verdict, SharingVerdict::FalseSharing | SharingVerdict::Both);
    let section = Section::new(if at == 0 { "lines" } else { "" }, title)
        .linked_as("Cache lines")
        .which_worries(is_bad)
        .line(Some(evidence(line)))
        .line(Some(consequence(line.verdict).to_owned()));
    if line.hits == 0 { section } else { section.sheet(sheets::words(view, line)) }
}
