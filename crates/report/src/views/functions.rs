//! The table of functions: each form of it has the same fields.

use pmuscope_profile::export::{ExportedEvent, Source};
use pmuscope_profile::{
    EventProfile, FunctionNames, FunctionShare, FunctionTable, HiddenRows, Intervals, LongPhases,
    ModuleSummary, Options, Profile, RankBy, with_lost,
};

use crate::flame::{ModuleHues, nameless};
use crate::recording::{LONG_PHASES, NO_INTERVAL, RowLimits};
use crate::sheet::{Field, NAME, Separator, Sheet, Value, delimited_by};
use crate::views::CodePart;
use crate::{Style, TableLines};

/// Place of the total among the fields.
const TOTAL: usize = 2;

/// Rows of an event, and what their numbers are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Functions<'a> {
    pub(crate) rows: &'a [FunctionShare],
    /// What has no row of its own.
    pub(crate) hidden: HiddenRows,
    pub(crate) names: &'a FunctionNames,
    pub(crate) modules: &'a [ModuleSummary],
    /// Colors of modules, on pages.
    pub(crate) hues: Option<&'a ModuleHues>,
    /// Functions whose code is on the same page.
    pub(crate) code: Option<CodePart<'a>>,
    pub(crate) long_phases: Option<LongPhases>,
    /// What is counted: `samples`, or `waits`.
    pub(crate) counted: &'static str,
    /// Samples of the event and records of it that may have been lost.
    pub(crate) samples: u64,
    pub(crate) lost_at_most: u64,
    /// Whether weights are in units of the event; else they are samples.
    pub(crate) by_period: bool,
    /// Units of the event from sample to sample, if that was fixed.
    pub(crate) period: Option<u64>,
}

impl<'a> Functions<'a> {
    /// Rows of a profile's event.
    pub(crate) fn of(profile: &'a Profile, event: &'a EventProfile) -> Self {
        Self {
            rows: &event.functions,
            hidden: event.hidden,
            names: &profile.names,
            modules: &profile.modules,
            hues: None,
            code: None,
            long_phases: event.long_phases,
            counted: "samples",
            samples: event.samples,
            lost_at_most: event.lost_at_most,
            by_period: event.by_period,
            period: event.fixed_period,
        }
    }

    /// Rows that were made for a file or page.
    pub(crate) fn of_table(
        source: &Source<'a>,
        event: &ExportedEvent,
        table: &'a FunctionTable,
    ) -> Self {
        Self {
            rows: &table.rows,
            hidden: table.hidden,
            names: &table.names,
            modules: source.modules,
            hues: None,
            code: None,
            long_phases: table.long_phases,
            counted: event.counted(),
            samples: event.samples,
            lost_at_most: event.lost_at_most,
            by_period: event.by_period,
            period: event.period,
        }
    }

    /// The same, with these colors of modules.
    pub(crate) fn in_colors(self, hues: &'a ModuleHues) -> Self {
        Self { hues: Some(hues), ..self }
    }

    /// The same, with links to the code that is on the same page.
    pub(crate) fn with_code(self, code: CodePart<'a>) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Whether there are functions that called others: own samples and totals differ.
    pub(crate) fn has_callers(&self) -> bool {
        self.rows.iter().any(|row| row.total.is_some_and(|total| total.samples != row.samples))
    }

    /// How small and how large a share can be, whatever the lost samples were; `None` if none was lost.
    pub(crate) fn with_lost(self, share: f64) -> Option<(f64, f64)> {
        with_lost(self.samples, self.lost_at_most, share)
    }

    /// Units of the event.
    fn weight(self, row: &FunctionShare) -> Option<u64> {
        if self.by_period {
            return Some(row.weight);
        }
        self.period.map(|period| period.saturating_mul(row.samples))
    }

    fn module(self, row: &FunctionShare) -> Option<&'a ModuleSummary> {
        self.modules.get(row.module)
    }

    /// The table, with the largest rows that `limits` allow.
    pub(crate) fn sheet(self, limits: RowLimits) -> Sheet<'a> {
        let size = |row: &FunctionShare| row.total.map_or(row.share, |total| total.share);
        let large = self.rows.iter().filter(|row| size(row) >= limits.share);
        let shown: Vec<&FunctionShare> = large.take(limits.rows.unwrap_or(usize::MAX)).collect();
        let mut left = self.hidden;
        let samples = |rows: &[&FunctionShare]| rows.iter().map(|row| row.samples).sum::<u64>();
        let share = |rows: &[&FunctionShare]| rows.iter().map(|row| row.share).sum::<f64>();
        let all: Vec<&FunctionShare> = self.rows.iter().collect();
        left.rows += all.len() - shown.len();
        left.samples += samples(&all) - samples(&shown);
        left.share += (share(&all) - share(&shown)).max(0.0);
        let number = shown.len() + left.rows;
        Sheet::new(self.fields(limits.rank), shown, number)
            .with_rest(vec![
                ("share".into(), Value::Share(left.share, None)),
                ("samples".into(), Value::Count(left.samples)),
            ])
            .limited_by(limits)
    }

    fn fields(self, rank: RankBy) -> Vec<Field<'a, FunctionShare>> {
        type FunctionRow = FunctionShare;
        let has_callers = self.has_callers();
        let why = move |row: &FunctionRow| {
            let is_long = self.long_phases.is_some() || row.freedom.is_some();
            if is_long { LONG_PHASES } else { NO_INTERVAL }
        };
        let margin = move |row: &FunctionRow| {
            let (low, high) = self.with_lost(row.share)?;
            Some((row.share - low).max(high - row.share))
        };
        let total = |row: &FunctionRow| row.total.map(|total| total.share);
        let short = move |row: &FunctionRow| match self.module(row) {
            Some(module) => module.short_name().into(),
            None => "[unknown]".into(),
        };
        let shown = move |row: &'a FunctionRow| self.shown(row);
        let code = move |row: &FunctionRow| self.code?.link(row, self.names, self.modules);
        let mut fields = vec![
            Field::share("share", |row: &FunctionRow| (row.share, row.interval))
                .head(if self.counted == "samples" { "self" } else { "share" })
                .why(why),
            Field::margin("±lost", margin).only_if_measured().optional(3),
            Field::part("total", move |row: &FunctionRow| total(row).filter(|_| has_callers))
                .for_people()
                .only_if_measured(),
            Field::count("samples", |row: &FunctionRow| row.samples).head(self.counted).optional(4),
            Field::count("weight", move |row: &FunctionRow| self.weight(row)).for_programs(),
            Field::part("total_share", total).for_programs(),
            Field::count("total_samples", |row: &FunctionRow| row.total.map(|total| total.samples))
                .for_programs(),
            Field::text("code", move |row: &FunctionRow| code(row).map(|_| "show"))
                .missing_as("")
                .linked(move |row: &FunctionRow| code(row).unwrap_or_default())
                .for_pages()
                .only_if_measured(),
            Field::text("command", move |row: &FunctionRow| Some(self.names.command_of(row)))
                .head("comm")
                .wanted(10)
                .optional(5),
            Field::text("module", move |row: &FunctionRow| {
                self.module(row).map(|module| &*module.path)
            })
            .head("DSO")
            .shown_as(short)
            .wanted(12)
            .optional(2)
            .colored(move |row: &FunctionRow| {
                self.hues.map(|hues| hues.module(row.module as u32)).unwrap_or_default()
            }),
            Field::text("function", move |row: &FunctionRow| self.names.function_of(row))
                .shown_if_known(shown)
                .wanted(NAME)
                .missing_as("[unknown]")
                .searches(move |row: &FunctionRow| self.searched(row)),
            Field::part("with_lost_low", move |row: &FunctionRow| {
                Some(self.with_lost(row.share)?.0)
            })
            .for_programs(),
            Field::part("with_lost_high", move |row: &FunctionRow| {
                Some(self.with_lost(row.share)?.1)
            })
            .for_programs(),
            Field::text("inlined_into", move |row: &FunctionRow| self.names.inlined_into(row))
                .for_programs(),
        ];
        // What rows are ranked by comes first.
        if rank == RankBy::Total {
            fields[..=TOTAL].rotate_right(1);
        }
        fields
    }

    /// The function, and where its code is if it was inlined.
    fn shown(self, row: &FunctionShare) -> Option<String> {
        let name = self.names.function_of(row)?;
        Some(match self.names.inlined_into(row) {
            Some(outer) => format!("{name} (inlined into {outer})"),
            None => name.to_owned(),
        })
    }

    /// What boxes of the flame graph are called.
    fn searched(self, row: &FunctionShare) -> String {
        match self.names.function_of(row) {
            Some(name) => name.to_owned(),
            None => nameless(self.module(row).map_or("[unknown]", ModuleSummary::short_name)),
        }
    }
}

/// Some rows of `table` line by line, as the table of functions of a recording has them: `shown` are rows of it. `event` says
/// what its shares are of.
#[must_use]
pub fn functions_lines(
    table: &FunctionTable,
    shown: &[FunctionShare],
    event: &EventProfile,
    modules: &[ModuleSummary],
    style: &Style,
) -> TableLines {
    let functions = Functions {
        rows: &table.rows,
        hidden: table.hidden,
        names: &table.names,
        modules,
        hues: None,
        code: None,
        long_phases: table.long_phases,
        counted: "samples",
        samples: event.samples,
        lost_at_most: event.lost_at_most,
        by_period: event.by_period,
        period: event.fixed_period,
    };
    Sheet::new(functions.fields(RankBy::Own), shown, shown.len()).table().0.lines(style)
}

/// Functions by event and command, the largest share of each event first, as many as `limits` allow of each
/// event. `intervals` rows of each event get one, where the recording allows it.
#[must_use]
pub fn functions_delimited(
    source: &Source<'_>,
    limits: RowLimits,
    intervals: usize,
    separator: Separator,
) -> String {
    let options = Options {
        totals: true,
        intervals: Intervals::Largest(intervals),
        rank: limits.rank,
        ..Options::default()
    };
    let tables: Vec<FunctionTable> =
        source.events.iter().map(|event| source.functions(event, options)).collect();
    let sheets: Vec<(&str, Sheet<'_>)> = source
        .events
        .iter()
        .zip(&tables)
        .map(|(event, table)| {
            (&*event.name, Functions::of_table(source, event, table).sheet(limits))
        })
        .collect();
    delimited_by("event", &sheets, separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: RowLimits = RowLimits::ALL;

    #[test]
    fn lost_samples_bound_each_share() {
        let made = crate::sample::made();
        let mut source = made.source();
        (source.events[0].samples, source.events[0].lost_at_most) = (120, 30);
        let text = functions_delimited(&source, ALL, 0, Separator::Comma);
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let (head, first) = (lines.next().unwrap(), lines.next().unwrap());
        let field = |name: &str| {
            let at = head.iter().position(|field| *field == name).unwrap();
            first[at].parse::<f64>().unwrap()
        };
        // 35 of 120 samples: 35 to 65 of 150.
        assert!((field("with_lost_low") - 35.0 / 150.0).abs() < 1e-12, "{text}");
        assert!((field("with_lost_high") - 65.0 / 150.0).abs() < 1e-12, "{text}");
    }

    #[test]
    fn functions_have_all_columns() {
        let text = functions_delimited(&crate::sample::made().source(), ALL, 0, Separator::Comma);
        insta::assert_snapshot!(text, @r"
        event,share,share_low,share_high,samples,weight,total_share,total_samples,command,module,function,with_lost_low,with_lost_high,inlined_into
        cpu-clock,0.2916666666666667,,,35,35000000,0.5,60,my app,/usr/bin/my app,memcpy<T>,,,main
        cpu-clock,0.25,,,30,30000000,0.25,30,my app,/usr/bin/my app,recurse,,,
        cpu-clock,0.20833333333333334,,,25,25000000,0.20833333333333334,25,my app,[kernel.kallsyms],copy_page,,,
        cpu-clock,0.16666666666666666,,,20,20000000,0.16666666666666666,20,<b>evil</b>,/opt/=1.so,,,,
        cpu-clock,0.08333333333333333,,,10,10000000,0.8333333333333334,100,my app,/usr/bin/my app,main,,,
        ");
    }
}
