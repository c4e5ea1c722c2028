//! The table of waits: its fields, for all forms.

use pmuscope_profile::ModuleSummary;
use pmuscope_profile::waits::{OffCpuKind, WaitBy, WaitKey, WaitRow, WaitSums, Waker};
use serde_json::json;

use super::text::{longest, queued, wakers};
use super::{WaitsView, key_text, kind_word, word};
use crate::sheet::{Field, FieldKind, NAME, Sheet, Value};

/// Wakers of a row that are listed.
const MOST_WAKERS: usize = 20;

impl<'a> WaitsView<'a> {
    /// The rows that are shown, at most `most`.
    pub(crate) fn sheet(&self, most: usize) -> Sheet<'a> {
        let view = *self;
        let large = self.rows.partition_point(|row| row.share >= self.limits.share).min(most);
        let number = self.limits.rows.map_or(large, |most| most.min(large));
        let (shown, hidden) = self.rows.split_at(number);
        let ns = hidden.iter().fold(0_u64, |sum, row| sum.saturating_add(row.sums.ns));
        Sheet::new(fields(view), shown, self.rows.len())
            .with_rest(vec![
                ("off_cpu_s".into(), Value::Seconds(seconds(ns))),
                ("share".into(), Value::Share(hidden.iter().map(|row| row.share).sum(), None)),
                ("waits".into(), Value::Count(hidden.iter().map(|row| row.sums.waits).sum())),
            ])
            .limited_by(self.limits)
    }

    /// What was counted by the state that threads were in.
    pub(crate) fn states(&self) -> Sheet<'a> {
        let waits = self.waits;
        let kind = Field::text("state", |kind: &OffCpuKind| Some(kind_word(*kind)));
        let sums = move |kind: &OffCpuKind| &waits.by_kind[*kind as usize];
        let fields = [kind].into_iter().chain(sum_fields(waits.has_wakings, sums));
        Sheet::new(fields.collect(), OffCpuKind::ALL.iter(), OffCpuKind::ALL.len())
    }
}

fn fields(view: WaitsView<'_>) -> Vec<Field<'_, WaitRow>> {
    let has_wakings = view.waits.has_wakings;
    let modules = &*view.waits.profile.modules;
    let share = |row: &WaitRow| (row.share, row.interval);
    let mut sums: Vec<_> = sum_fields(has_wakings, |row: &WaitRow| &row.sums).collect();
    let rest = sums.split_off(1);
    let mut fields = sums;
    fields.push(Field::share("share", share));
    fields.extend(rest);
    fields.push(Field::text("state", |row: &WaitRow| row.kind.map(kind_word)).for_programs());
    for (at, &by) in view.by.iter().enumerate() {
        fields.extend(key_fields(at, by, modules));
    }
    if has_wakings {
        fields.push(Field::text("woken_by", wakers).head("woken by").optional(2));
    }
    fields.push(Field::json("wakers", |row: &WaitRow| {
        row.wakers.iter().take(MOST_WAKERS).map(waker).collect()
    }));
    fields.push(Field::json("wakers_left_out", |row: &WaitRow| {
        row.wakers.len().saturating_sub(MOST_WAKERS).into()
    }));
    fields
}

/// What was counted, first the time off the CPU.
fn sum_fields<'a, R: 'a>(
    has_wakings: bool,
    of: impl Fn(&'a R) -> &'a WaitSums + Copy + 'a,
) -> impl Iterator<Item = Field<'a, R>> {
    let known = move |row, ns: fn(&WaitSums) -> u64| {
        let sums: &WaitSums = of(row);
        (sums.woken > 0).then(|| seconds(ns(sums)))
    };
    let without = move |row| has_wakings.then_some(of(row).without_waking);
    let quantile = move |row, at| of(row).lengths.quantile_ns(at).map(seconds);
    [
        Field::seconds("off_cpu_s", move |row| Some(seconds(of(row).ns))).head("off CPU"),
        Field::count("waits", move |row| of(row).waits).optional(4),
        Field::seconds("median_s", move |row| quantile(row, 0.5)).head("median").optional(5),
        Field::seconds("p99_s", move |row| quantile(row, 0.99)).head("p99").optional(7),
        Field::seconds("longest_s", move |row| of(row).longest_ns().map(|(ns, _)| seconds(ns)))
            .head("longest")
            .optional(6)
            .shown_if_known(move |row| longest(of(row))),
        Field::flag("longest_is_cut", move |row| of(row).longest_ns().is_some_and(|(_, cut)| cut))
            .for_programs(),
        Field::seconds("run_queue_s", move |row| known(row, |sums| sums.queued_ns))
            .head("run-queue latency")
            .shown_if_known(move |row| queued(of(row)))
            .only_if_measured()
            .optional(3),
        Field::seconds("blocked_s", move |row| known(row, |sums| sums.blocked_ns)).for_programs(),
        Field::count("woken", move |row| of(row).woken).for_programs(),
        Field::count("without_waking", move |row| without(row).map(|(waits, _)| waits))
            .for_programs(),
        Field::seconds("without_waking_s", move |row| without(row).map(|(_, ns)| seconds(ns)))
            .for_programs(),
        Field::count("whole", move |row| of(row).lengths.n()).for_programs(),
        Field::count("begun_before", move |row| of(row).begun_before.0).for_programs(),
        Field::seconds("begun_before_s", move |row| Some(seconds(of(row).begun_before.1)))
            .for_programs(),
        Field::count("last_past", move |row| of(row).last_past.0).for_programs(),
        Field::seconds("last_past_s", move |row| Some(seconds(of(row).last_past.1))).for_programs(),
    ]
    .into_iter()
}

/// A dimension; of a function also its module.
fn key_fields<'a>(
    at: usize,
    by: WaitBy,
    modules: &'a [ModuleSummary],
) -> impl Iterator<Item = Field<'a, WaitRow>> {
    let is_number = matches!(by, WaitBy::Process | WaitBy::Thread);
    let kind = if is_number { FieldKind::Number } else { FieldKind::Text };
    let value = move |row: &'a WaitRow| match &row.keys[at] {
        WaitKey::None | WaitKey::Unnamed(_) => Value::Missing,
        WaitKey::Function(name, _) | WaitKey::Name(name) => Value::Text((&**name).into()),
        WaitKey::Number(number) => Value::Id(*number),
        key => key_text(key, modules).map_or(Value::Missing, |text| Value::Text(text.into())),
    };
    let shown = move |row: &'a WaitRow| key_text(&row.keys[at], modules);
    let module = move |row: &'a WaitRow| match row.keys[at] {
        WaitKey::Function(_, module) | WaitKey::Unnamed(module) => {
            modules.get(module as usize).map(|module| &*module.path)
        }
        _ => None,
    };
    let has_module = matches!(by, WaitBy::Wait | WaitBy::Function);
    let head = if word(by) == "command" { "comm" } else { word(by) };
    let field = Field::new(word(by), kind, value).head(head).shown_if_known(shown);
    let field = if has_module { field.wanted(NAME) } else { field };
    let module =
        has_module.then(|| Field::text(format!("{}_module", word(by)), module).for_programs());
    [field].into_iter().chain(module)
}

fn waker(waker: &Waker) -> serde_json::Value {
    json!({
        "interrupt": waker.command.is_none(),
        "command": waker.command.as_deref(),
        "pid": waker.task.map(|(pid, _)| pid),
        "tid": waker.task.map(|(_, tid)| tid),
        "function": waker.function.as_deref(),
        "waits": waker.waits,
        "off_cpu_s": seconds(waker.ns),
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
