//! What watchpoints counted on the words of a cache line, next to samples of the same line where there are some.

use pmuscope_profile::hits::{Hits, Transfer, TransferEnd};
use pmuscope_profile::sharing::{
    LineOffset, SharedLine, SharedLines, WatchDoubt, WatchedAccess, WatchedLine, WatchedWord,
};
use serde::Serialize;
use serde_json::json;

use super::sheets::thread_json;
use super::words::contended_word;
use crate::html::{Fact, PageFrame};
use crate::number::{count, counted, duration, percent, significant};
use crate::recording::{Note, NoteOut, paint_line, push_all_notes, push_wrapped};
use crate::report::Report;
use crate::section::{Section, sections_html};
use crate::sheet::{Field, FieldKind, NAME, Separator, Sheet, SheetObject, Value, delimited_by};
use crate::watch::{
    WatchLimits, WatchView, consequence, place, second_line, verdict, verdict_word,
};
use crate::{Style, escape, watch};

/// The schema of the JSON.
const WATCHED_SCHEMA: &str = "pmuscope/sharing-watch/1";

/// A line of a recording of samples.
#[derive(Debug, Clone, Copy)]
pub struct SampledLine<'a> {
    /// What it was found in.
    pub found: &'a SharedLines,
    /// The line.
    pub line: &'a SharedLine,
}

/// Watched cache lines.
#[derive(Debug, Clone, Copy)]
pub struct WatchedLinesView<'a> {
    hits: &'a Hits,
    lines: &'a [WatchedLine],
    sampled: Option<SampledLine<'a>>,
    limits: WatchLimits,
}

impl<'a> WatchedLinesView<'a> {
    /// The lines of `hits`; `sampled` is what samples said of the first one.
    #[must_use]
    pub fn new(
        (hits, lines): (&'a Hits, &'a [WatchedLine]),
        sampled: Option<SampledLine<'a>>,
        limits: WatchLimits,
    ) -> Self {
        Self { hits, lines, sampled, limits }
    }

    /// Why there is no verdict, and what to type; `None` where there is one.
    #[must_use]
    pub fn nothing(&self) -> Option<String> {
        self.lines.is_empty().then(|| {
            "no thread accessed the line while it was watched. Try: watch longer, or while the program is busy".into()
        })
    }

    fn watch(&self) -> WatchView<'a> {
        WatchView::new(self.hits, None, self.limits)
    }

    /// Samples of a line, if they are of this one.
    fn sampled(&self, line: &WatchedLine) -> Option<SampledLine<'a>> {
        let is_it = |sampled: &SampledLine<'_>| {
            sampled.line.address.is_multiple_of(u64::from(line.bytes))
                && self.lines.first().is_some_and(|first| std::ptr::eq(first, line))
        };
        self.sampled.filter(is_it)
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = self.watch().notes_of_counts();
        let say = |text: &str| Note { warning: false, text: text.to_owned() };
        if self.hits.took_turns {
            notes.push(say(
                "there are more words than debug registers, so they were watched in turns: compare accesses of one word, \
                 or divide them by the time that each was enabled.",
            ));
        } else if self.hits.is_part() {
            notes.push(say(
                "watchpoints were enabled part of the time, to limit the slowdown; all words were watched together.",
            ));
        }
        notes
    }

    fn head(&self) -> String {
        let seconds = duration(self.hits.seconds);
        match self.lines {
            [] => format!("watched for {seconds}"),
            [line, ..] => format!("{}, in {seconds}", title(line)),
        }
    }

    fn parts(&self) -> Vec<Section<'a>> {
        self.lines.iter().enumerate().map(|(at, line)| self.part(at, line)).collect()
    }

    fn part(&self, at: usize, line: &'a WatchedLine) -> Section<'a> {
        let sampled = self.sampled(line);
        let id = if at == 0 { "lines" } else { "" };
        let title = match at {
            0 => "Words".to_owned(),
            _ => title(line),
        };
        let transfers = match &line.transfers {
            None => Section::new("", "").line(Some(
                "Which write was followed by which access is not known: not all words were watched at the same time"
                    .to_owned(),
            )),
            Some(all) => Section::new("", "Writes, and the first access of another thread after each")
                .about("While watchpoints were enabled; each of these moved the line to another CPU.")
                .sheet(self.transfers(line, all, self.limits.rows)),
        };
        let section = Section::new(id, title);
        // The head says what this is of.
        let section = if at == 0 { section.bare() } else { section };
        section
            .linked_as("Watched lines")
            .which_worries(line.is_contended())
            .line(Some(evidence(line)))
            .line(Some(follows(line)))
            .sheet(self.words(line, sampled, false))
            .line(unused(line))
            .part(
                Section::new("", "Reads and writes by thread and code")
                    .sheet(self.accesses(line, self.limits.rows)),
            )
            .part(transfers)
    }

    /// A row per word, of `all` or of those that were accessed.
    fn words(
        &self,
        line: &'a WatchedLine,
        sampled: Option<SampledLine<'a>>,
        all: bool,
    ) -> Sheet<'a> {
        let number = |row: &WatchedWord| {
            line.words.iter().position(|word| std::ptr::eq(word, row)).unwrap_or(usize::MAX)
        };
        let of = move |row: &WatchedWord| {
            let number = number(row);
            line.accesses.iter().filter(move |one| one.word as usize == number)
        };
        let threads = move |row: &WatchedWord, is: fn(&WatchedAccess) -> bool| {
            let mut threads: Vec<u32> =
                of(row).filter(|one| is(one)).map(|one| one.thread).collect();
            threads.sort_unstable();
            threads.dedup();
            threads.len() as u64
        };
        let bytes = |row: &WatchedWord| format!("+{}–{}", row.offset, row.offset + row.bytes - 1);
        let mut fields = vec![
            Field::new("range", FieldKind::Number, move |row| Value::Text(bytes(row).into()))
                .head("bytes")
                .for_people(),
            Field::count("offset", |row: &WatchedWord| u64::from(row.offset)).for_programs(),
            Field::count("bytes", |row: &WatchedWord| u64::from(row.bytes)).for_programs(),
            Field::count("reads", move |row| of(row).map(|one| one.reads).sum::<u64>()),
            Field::count("writes", move |row| of(row).map(|one| one.writes).sum::<u64>()),
            Field::count("readers", move |row| threads(row, |one| one.reads > 0)),
            Field::count("writers", move |row| threads(row, |one| one.writes > 0)),
            Field::seconds("enabled_s", |row: &WatchedWord| Some(row.enabled_s)).for_programs(),
            Field::flag("untyped", |row: &WatchedWord| row.is_untyped).for_programs(),
        ];
        let enabled = Field::part("enabled_share", |row: &WatchedWord| Some(row.enabled_share));
        fields.push(match line.is_part {
            true => enabled.head("enabled"),
            false => enabled.for_programs(),
        });
        if let Some(sampled) = sampled {
            fields.extend(sampled_fields(sampled));
        }
        fields.push(
            Field::text("word", |row: &WatchedWord| Some(&*row.name))
                .shown_as(|row: &WatchedWord| word_name(row).into())
                .wanted(NAME),
        );
        let rows: Vec<&WatchedWord> =
            line.words.iter().filter(|word| all || of(word).next().is_some()).collect();
        let number = rows.len();
        Sheet::new(fields, rows, number)
    }

    /// A row per word, place in code and thread.
    fn accesses(&self, line: &'a WatchedLine, most: usize) -> Sheet<'a> {
        let hits = self.hits;
        let thread = move |row: &WatchedAccess| hits.threads.get(row.thread as usize);
        let site = move |row: &WatchedAccess| hits.sites.get(row.site as usize);
        let word = move |row: &WatchedAccess| line.words.get(row.word as usize);
        let largest = line.accesses.iter().map(WatchedAccess::all).max().unwrap_or(1).max(1);
        let shade = move |number: u64| number as f64 / largest as f64;
        let fields = vec![
            Field::text("word", move |row: &WatchedAccess| Some(word_name(word(row)?)))
                .for_people(),
            Field::text("word", move |row: &'a WatchedAccess| Some(&*word(row)?.name))
                .for_programs(),
            Field::count("offset", move |row: &WatchedAccess| {
                word(row).map(|word| u64::from(word.offset))
            })
            .for_programs(),
            Field::count("reads", |row: &WatchedAccess| row.reads)
                .shaded(move |row| shade(row.reads)),
            Field::count("writes", |row: &WatchedAccess| row.writes)
                .shaded(move |row| shade(row.writes)),
            Field::text("thread", move |row: &WatchedAccess| Some(watch::thread(thread(row))))
                .for_people(),
            Field::id("pid", move |row: &WatchedAccess| Some(thread(row)?.pid)).for_programs(),
            Field::id("tid", move |row: &WatchedAccess| Some(thread(row)?.tid)).for_programs(),
            Field::text("command", move |row: &'a WatchedAccess| Some(&*thread(row)?.command))
                .for_programs(),
            Field::text("code", move |row: &WatchedAccess| Some(place(site(row))))
                .wanted(NAME)
                .for_people(),
            Field::text("function", move |row: &'a WatchedAccess| site(row)?.function.as_deref())
                .for_programs(),
            Field::text("file", move |row: &'a WatchedAccess| {
                Some(&*site(row)?.line.as_ref()?.file)
            })
            .for_programs(),
            Field::count("line", move |row: &WatchedAccess| {
                Some(u64::from(site(row)?.line.as_ref()?.number?))
            })
            .column("source_line")
            .for_programs(),
        ];
        let shown = &line.accesses[..line.accesses.len().min(most)];
        Sheet::new(fields, shown, line.accesses.len()).by_another_order()
    }

    /// A row per write and access of another thread after it.
    fn transfers(
        &self,
        line: &'a WatchedLine,
        all: &'a [(Transfer, u64)],
        most: usize,
    ) -> Sheet<'a> {
        type Row = (Transfer, u64);
        let hits = self.hits;
        let word = move |end: TransferEnd| {
            let offset = (end.address - line.address) as u32;
            let is_it =
                |word: &&WatchedWord| (word.offset..word.offset + word.bytes).contains(&offset);
            line.words.iter().find(is_it).map_or_else(|| format!("+{offset}"), word_name)
        };
        let code = move |end: TransferEnd| {
            format!(
                "{} ({})",
                place(hits.sites.get(end.site as usize)),
                watch::thread(hits.threads.get(end.thread as usize))
            )
        };
        let end = move |end: TransferEnd| {
            let site = hits.sites.get(end.site as usize);
            json!({
                "offset": end.address - line.address,
                "word": word(end),
                "function": site.and_then(|site| site.function.as_deref()),
                "line": site.and_then(|site| site.line.as_ref()?.number),
                "thread": hits.threads.get(end.thread as usize).map(thread_json),
            })
        };
        let largest = all.first().map_or(1, |one| one.1.max(1));
        let mut fields = vec![
            Field::count("transfers", |row: &Row| row.1)
                .shaded(move |row| row.1 as f64 / largest as f64),
        ];
        fields.extend(self.sampled(line).map(|sampled| {
            Field::number("sampled", move |row: &Row| {
                Some(sampled_pair(sampled, hits, line, &row.0)).filter(|number| *number > 0.0)
            })
            .head(format!("~{}", contended_word(sampled.found)))
            .shown_if_known(move |row: &Row| {
                let number = sampled_pair(sampled, hits, line, &row.0);
                (number > 0.0).then(|| significant(number, 3))
            })
        }));
        let kind = |row: &Row| if row.0.to_write { "write" } else { "read" };
        fields.extend([
            Field::text("access", move |row: &Row| Some(kind(row))).rigid(),
            Field::text("to", move |row: &Row| Some(word(row.0.to))).head("of").for_people(),
            Field::text("to_code", move |row: &Row| Some(code(row.0.to)))
                .head("by")
                .wanted(NAME)
                .for_people(),
            Field::text("from", move |row: &Row| Some(word(row.0.from)))
                .head("after write of")
                .for_people(),
            Field::text("from_code", move |row: &Row| Some(code(row.0.from)))
                .head("by")
                .wanted(NAME)
                .for_people(),
            Field::json("from", move |row: &Row| end(row.0.from)),
            Field::json("to", move |row: &Row| end(row.0.to)),
        ]);
        let shown = &all[..all.len().min(most)];
        Sheet::new(fields, shown, all.len()).into_owned()
    }
}

/// What samples say of a word.
fn sampled_fields<'a>(sampled: SampledLine<'a>) -> Vec<Field<'a, WatchedWord>> {
    let of = move |row: &WatchedWord, number: fn(&LineOffset) -> u64| -> u64 {
        let range = row.offset..row.offset + row.bytes;
        sampled.line.offsets.iter().filter(|one| range.contains(&one.offset)).map(number).sum()
    };
    let has_stores = sampled.found.memory.sums.stores() > 0;
    vec![
        Field::count("sampled_contended", move |row| of(row, |one| one.sums.contended()))
            .head(format!("sampled {}", contended_word(sampled.found))),
        Field::count("sampled_loads", move |row| of(row, |one| one.sums.loads())).for_programs(),
        Field::count("sampled_stores", move |row| {
            has_stores.then(|| of(row, |one| one.sums.stores()))
        })
        .head("sampled stores"),
    ]
}

/// The estimate of samples for the same words and functions.
fn sampled_pair(
    sampled: SampledLine<'_>,
    hits: &Hits,
    line: &WatchedLine,
    transfer: &Transfer,
) -> f64 {
    let function = |site: u32| hits.sites.get(site as usize)?.function.as_deref();
    let of_sample = |site: u32| sampled.found.sites.get(site as usize)?.function.as_deref();
    let is_there = |end: TransferEnd, word: u32, site: u32| {
        let offset = (end.address - line.address) as u32;
        let holds = |one: &&WatchedWord| {
            let range = one.offset..one.offset + one.bytes;
            range.contains(&offset) && range.contains(&word)
        };
        line.words.iter().any(|one| holds(&one)) && function(end.site) == of_sample(site)
    };
    let pairs = sampled.line.pairs.iter().filter(|pair| {
        is_there(transfer.to, pair.read_word, pair.reader)
            && is_there(transfer.from, pair.written_word, pair.writer)
    });
    pairs.map(|pair| pair.contended).sum()
}

/// `queue.head`, or `+16` of a word without a name.
fn word_name(word: &WatchedWord) -> String {
    match word.name.starts_with("0x") {
        true => format!("+{}", word.offset),
        false => escape(&word.name).into_owned(),
    }
}

fn title(line: &WatchedLine) -> String {
    let all = |number: fn(&WatchedAccess) -> u64| {
        line.accesses.iter().fold(0_u64, |sum, one| sum.saturating_add(number(one)))
    };
    format!(
        "{}: cache line {:#x} of process {}, {} and {} by {}",
        verdict(line.verdict),
        line.address,
        line.pid,
        counted(all(|one| one.reads), "read"),
        counted(all(|one| one.writes), "write"),
        counted(threads(line), "thread")
    )
}

/// Advice by the verdict, or what to type for a verdict.
fn follows(line: &WatchedLine) -> String {
    use WatchDoubt::{InTurns, NoType, TooBrief};
    let (NoType(number) | TooBrief(number) | InTurns(number, _)) = match line.doubt {
        Some(doubt) => doubt,
        None => return consequence(line.verdict).to_owned(),
    };
    let Some(word) = line.words.get(number as usize) else {
        return consequence(line.verdict).to_owned();
    };
    let name = word_name(word);
    match line.doubt {
        Some(InTurns(_, seen)) => format!(
            "{name} went from one thread to another in only {} of {} successive accesses, as when goroutines move between \
             threads, or threads share a CPU: whether several use it at the same time is not known. Try: each on a CPU and \
             thread of its own (taskset, runtime.LockOSThread)",
            count(seen.changes),
            count(seen.of)
        ),
        Some(NoType(_)) => {
            let address = line.address + u64::from(word.offset);
            format!(
                "several threads use {name} ({}), but no type says whether they use the same bytes of it. Try: a program \
                 with debug information (-g), -p PID, or --watch {address:#x}/{} if it is one variable",
                counted(word.bytes, "byte"),
                word.bytes
            )
        }
        _ => format!(
            "{name} was enabled for {} only, or not in all parts of the run, so accesses of other threads may have been missed. \
             Try: a longer --timeout",
            duration(word.enabled_s)
        ),
    }
}

/// How many words are no rows, and the shortest time that one of them was watched.
fn unused(line: &WatchedLine) -> Option<String> {
    let is_used = |number: usize| line.accesses.iter().any(|one| one.word as usize == number);
    let unused = line.words.iter().enumerate().filter(|(number, _)| !is_used(*number));
    let times: Vec<(f64, f64)> =
        unused.map(|(_, word)| (word.enabled_s, word.enabled_share)).collect();
    let (seconds, share) = times.iter().copied().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let mut text = format!("{} without accesses", counted(times.len() as u64, "more word"));
    if line.is_part {
        let each = if times.len() > 1 { "each " } else { "" };
        let (seconds, share) = (duration(seconds), percent(share, 1));
        text.push_str(&format!(", {each}enabled for {seconds} or more ({share} of the time)"));
    }
    Some(text)
}

fn threads(line: &WatchedLine) -> u64 {
    let mut threads: Vec<u32> = line.accesses.iter().map(|one| one.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    threads.len() as u64
}

/// What the verdict rests on.
fn evidence(line: &WatchedLine) -> String {
    let mut parts = Vec::new();
    if let Some(share) = line.false_share {
        let share = percent(share, 1);
        parts.push(format!(
            "{share} of the accesses that contend need no bytes that another thread writes"
        ));
    }
    let moved = line.transfers.as_ref().map(|all| all.iter().map(|one| one.1).sum::<u64>());
    parts.extend(
        moved.map(|number| format!("the line moved {} times between threads", count(number))),
    );
    if line.is_part {
        parts.push("counted for part of the time only".to_owned());
    }
    match parts.is_empty() {
        true => "no thread writes what others access".to_owned(),
        false => parts.join(", "),
    }
}

#[derive(Debug, Serialize)]
struct WatchedReport<'a> {
    watch: serde_json::Value,
    lines: Vec<WatchedOut<'a>>,
    nothing: Option<String>,
    notes: Vec<NoteOut>,
}

#[derive(Debug, Serialize)]
struct WatchedOut<'a> {
    #[serde(flatten)]
    line: SheetObject<'a>,
    words: Sheet<'a>,
    accesses: Sheet<'a>,
    transfers: Option<Sheet<'a>>,
}

fn facts(line: &WatchedLine) -> Sheet<'_> {
    let fields = vec![
        Field::address("address", |row: &WatchedLine| Some(row.address)),
        Field::count("bytes", |row: &WatchedLine| u64::from(row.bytes)),
        Field::id("pid", |row: &WatchedLine| Some(row.pid)),
        Field::text("verdict", |row: &WatchedLine| Some(verdict_word(row.verdict))),
        Field::part("false_share", |row: &WatchedLine| row.false_share),
        Field::flag("part", |row: &WatchedLine| row.is_part),
        Field::count("threads", |row: &WatchedLine| threads(row)),
    ];
    Sheet::new(fields, [line], 1)
}

impl Report for WatchedLinesView<'_> {
    fn schema(&self) -> &'static str {
        WATCHED_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        let mut out = paint_line(style, &self.head());
        push_wrapped(&mut out, &second_line(&self.watch()).join(" · "), style);
        if let Some(why) = self.nothing() {
            out.push('\n');
            push_wrapped(&mut out, &why, style);
        }
        self.parts().iter().for_each(|part| part.push_text(&mut out, style));
        push_all_notes(&mut out, self.notes(), style);
        out
    }

    fn json(&self) -> impl Serialize {
        let line = |line| WatchedOut {
            line: SheetObject(facts(line)),
            words: self.words(line, self.sampled(line), true),
            accesses: self.accesses(line, usize::MAX),
            transfers: line.transfers.as_ref().map(|all| self.transfers(line, all, usize::MAX)),
        };
        WatchedReport {
            watch: watch::watch_json(&self.watch()),
            lines: self.lines.iter().map(line).collect(),
            nothing: self.nothing(),
            notes: NoteOut::of(self.notes()),
        }
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let names: Vec<String> =
            self.lines.iter().map(|line| format!("{:#x}", line.address)).collect();
        let each = names.iter().zip(self.lines);
        let sheets = each.map(|(name, line)| (&name[..], self.accesses(line, usize::MAX)));
        Some(delimited_by("line", &sheets.collect::<Vec<_>>(), separator))
    }

    fn page(&self, commit: &str) -> Option<String> {
        let mut summary = watch::summary(&self.watch());
        summary.title = self.head();
        summary.notes = self.notes();
        let number = |of: fn(&WatchedAccess) -> u64| {
            self.lines.iter().flat_map(|line| &line.accesses).map(of).sum::<u64>()
        };
        let (reads, writes) = (number(|one| one.reads), number(|one| one.writes));
        let about = "reads and writes, while watchpoints were enabled";
        if let Some(fact) = summary.facts.get_mut(1) {
            *fact = Fact::new("Accesses", format!("{} + {}", count(reads), count(writes)), about);
        }
        let nothing =
            self.nothing().map(|why| Section::new("", "Shared cache line").line(Some(why)));
        let parts: Vec<Section<'_>> = nothing.into_iter().chain(self.parts()).collect();
        Some(PageFrame { schema: WATCHED_SCHEMA, commit }.page(&summary, &sections_html(&parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_a_name_go_by_their_offset() {
        let word = |name: &str| WatchedWord {
            name: name.into(),
            offset: 16,
            bytes: 8,
            enabled_s: 1.0,
            enabled_share: 1.0,
            per_access: 1.0,
            is_untyped: false,
        };
        assert_eq!(word_name(&word("0x7f0010")), "+16");
        assert_eq!(word_name(&word("queue.\u{1b}[0m")), escape("queue.\u{1b}[0m"));
    }
}
