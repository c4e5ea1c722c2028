//! `pmuscope report --annotate`: one function from inside.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::Form;
use pmuscope_console::say;
use pmuscope_profile::views::{CodeHolder, Sampled, inlined_into, sampled};
use pmuscope_profile::{Annotation, Detail, GroupBy, ModuleSummary, Options, Profile, is_named};
use pmuscope_report::number::count;
use pmuscope_report::{AnnotateView, escape, head_text, kept_text};
use pmuscope_symbols::Symbolizer;

use super::empty;
use super::load::{LoadArgs, LoadRequest, is_whole};

/// Names that an error lists.
const MOST: usize = 8;
/// Names are near from this similarity on, 0 to 1.
const NEAR: f64 = 0.5;

/// Flags of the view.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Views")]
pub(crate) struct AnnotateArgs {
    /// Show a function's samples by source line and instruction
    ///
    /// Part of the name is enough where it is unique; =NAME is the whole name. An inlined function is marked in the
    /// function that it was inlined into. "[unknown]" is the code of a DSO that has no function names.
    #[arg(
        long,
        value_name = "FUNCTION",
        group = "code",
        conflicts_with_all = ["by", "group", "call_tree", "peek", "modules", "no_inline"]
    )]
    annotate: Option<String>,
    /// With -o FILE.html: code of the N hottest functions
    ///
    /// Rows of these functions lead to their source lines and instructions.
    #[arg(
        long,
        value_name = "N",
        group = "code",
        conflicts_with_all = ["by", "group", "call_tree", "peek", "modules", "no_inline"]
    )]
    annotate_top: Option<usize>,
    /// With --annotate: choose the function in this DSO
    ///
    /// DSO: the binary or shared library. The end of its path is enough, or the beginning of its build ID.
    #[arg(long, value_name = "DSO", requires = "annotate")]
    dso: Option<String>,
    /// With --annotate: mark the function where it was inlined into this one
    #[arg(long, value_name = "FUNCTION", requires = "annotate")]
    inlined_into: Option<String>,
    /// With --annotate: disassemble with this objdump
    #[arg(
        long,
        value_name = "FILE",
        requires = "code",
        default_value = "objdump",
        hide_default_value = true
    )]
    objdump: OsString,
}

impl AnnotateArgs {
    /// The function, if one was asked for.
    pub(super) fn function(&self) -> Option<&str> {
        self.annotate.as_deref()
    }

    /// How many functions with most samples, if that was asked for.
    pub(super) fn top(&self) -> Option<usize> {
        self.annotate_top
    }

    /// The program that disassembles.
    #[cfg(feature = "serve")]
    pub(super) fn objdump(&self) -> &std::ffi::OsStr {
        &self.objdump
    }

    /// Whether a page is to have code.
    pub(super) fn is_asked(&self) -> bool {
        self.annotate.is_some() || self.annotate_top.is_some()
    }

    /// The requested functions, of a profile with [`Detail::Address`].
    pub(super) fn of_page<'a>(
        &'a self,
        profile: &'a Profile,
        symbolizer: &mut Symbolizer,
    ) -> anyhow::Result<Vec<Annotation<'a>>> {
        if let Some(name) = &self.annotate {
            return Ok(vec![self.annotation(profile, name, symbolizer)?]);
        }
        let named = sampled(&profile.aggregate).into_iter().map(|one| one.holder);
        let named = named.filter(|holder| holder.function.is_some());
        let annotation = |holder| Annotation::new(profile, holder, symbolizer, &self.objdump);
        Ok(named.take(self.annotate_top.unwrap_or(0)).map(annotation).collect())
    }

    /// The function called `name`, or the one that it was inlined into.
    fn annotation<'a>(
        &'a self,
        profile: &'a Profile,
        name: &'a str,
        symbolizer: &mut Symbolizer,
    ) -> anyhow::Result<Annotation<'a>> {
        let dso = self.dso.as_deref();
        let chosen = match &self.inlined_into {
            Some(outer) => choose_outer(profile, name, outer, dso)?,
            None => choose(profile, name, dso)?,
        };
        let annotation = Annotation::new(profile, chosen.holder, symbolizer, &self.objdump);
        Ok(annotation.marking(chosen.is_inlined.then_some(name)))
    }

    /// Reads the recording and shows the function called `name`; `all`: what is far from samples too.
    pub(super) fn show(
        &self,
        name: &str,
        path: &Path,
        load: &LoadArgs,
        all: bool,
        form: &Form,
    ) -> anyhow::Result<Exit> {
        // Lines come with inlined functions.
        let recording = load.symbols.open(path)?;
        let mut symbolizer = load.symbols.symbolizer(true, &recording)?;
        let options = Options { detail: Detail::Address, ..Options::COUNTS };
        let wanted =
            LoadRequest { apart: GroupBy::default(), options, stacks: false, progress: true };
        let profile = load.load(&recording, &mut symbolizer, wanted)?;
        let file = path.to_string_lossy();
        if empty::explain(&profile, &recording)? {
            form.print(&head_text(&profile, &file, &form.style))?;
            return Ok(Exit::Incomplete);
        }
        let annotation = self.annotation(&profile, name, &mut symbolizer)?;
        let is_done = is_whole(&profile) && annotation.listings.is_ok();
        let exit = if is_done { Exit::Done } else { Exit::Incomplete };
        if let Some(kept) = kept_text(&profile).filter(|_| form.format.separator().is_some()) {
            say!("note: {kept}");
        }
        let view = AnnotateView { annotation: &annotation, profile: &profile, file: &file, all };
        form.show(&view, &exit)?;
        Ok(exit)
    }
}

/// What code without a function is called.
const UNKNOWN: &str = "[unknown]";

/// The code to be shown.
struct ChosenCode {
    holder: CodeHolder,
    /// What was asked for was inlined there.
    is_inlined: bool,
}

/// The one function that is meant.
fn choose(profile: &Profile, asked: &str, dso: Option<&str>) -> anyhow::Result<ChosenCode> {
    let counts = &profile.aggregate;
    let all = sampled(counts);
    let name = |one: &Sampled| one.holder.name(counts).unwrap_or(UNKNOWN);
    let module = |one: &Sampled| &profile.modules[one.holder.module as usize];
    let mut called: Vec<&Sampled> = all.iter().filter(|one| name(one) == asked).collect();
    if called.is_empty() {
        let outer = inlined_into(counts, asked);
        if !outer.is_empty() {
            return holder_of_inlined(profile, asked, &outer, dso);
        }
        let named = all.iter().filter(|one| one.holder.function.is_some());
        called = named.filter(|one| is_named(name(one), asked)).collect();
    }
    let names: BTreeSet<&str> = called.iter().map(|one| name(one)).collect();
    if names.is_empty() {
        return Err(bad_input(unknown(profile, asked.strip_prefix('=').unwrap_or(asked), &all)));
    }
    if names.len() > 1 {
        let listed = listed(called.iter().map(|one| (name(one), one.samples)));
        return Err(bad_input(format!(
            "{} sampled functions have {} in their names: {listed}. Try: the whole name of one, in \
                 quotes",
            names.len(),
            escape(asked)
        )));
    }
    let here = in_dso(called.clone(), |one| module(one), dso);
    match &here[..] {
        [one] => Ok(ChosenCode { holder: one.holder, is_inlined: false }),
        _ => {
            let of = if here.is_empty() { &called } else { &here };
            let listed = listed(of.iter().map(|one| (&*module(one).path, one.samples)));
            Err(bad_input(format!(
                "{} was sampled in {listed}. Try: --dso {}",
                escape(name(called[0])),
                escape(module(called[0]).short_name())
            )))
        }
    }
}

/// The function `outer` that the function `asked` was inlined into.
fn choose_outer(
    profile: &Profile,
    asked: &str,
    outer: &str,
    dso: Option<&str>,
) -> anyhow::Result<ChosenCode> {
    let counts = &profile.aggregate;
    let all = inlined_into(counts, asked);
    let called: Vec<CodeHolder> =
        all.iter().copied().filter(|holder| holder.name(counts) == Some(outer)).collect();
    if !called.is_empty() {
        return holder_of_inlined(profile, asked, &called, dso);
    }
    let (asked, outer) = (escape(asked), escape(outer));
    Err(bad_input(match all.is_empty() {
        true => {
            format!("{asked} has no samples as an inlined function. Try: without --inlined-into")
        }
        false => {
            let names = holder_names(profile, &all);
            format!("{asked} was not inlined into {outer}, but into {names}. Try: one of these")
        }
    }))
}

/// The one of `holders`, which an inlined function is in.
fn holder_of_inlined(
    profile: &Profile,
    asked: &str,
    holders: &[CodeHolder],
    dso: Option<&str>,
) -> anyhow::Result<ChosenCode> {
    let counts = &profile.aggregate;
    let module = |holder: &CodeHolder| &profile.modules[holder.module as usize];
    let here = in_dso(holders.to_vec(), module, dso);
    if let [holder] = here[..] {
        return Ok(ChosenCode { holder, is_inlined: true });
    }
    let of = if here.is_empty() { holders } else { &here };
    let names: BTreeSet<Option<&str>> = of.iter().map(|holder| holder.name(counts)).collect();
    let first = of[0];
    let what_to_do = match names.len() {
        1 => format!("--dso {}", escape(module(&first).short_name())),
        _ => format!("--inlined-into '{}'", escape(first.name(counts).unwrap_or(UNKNOWN))),
    };
    Err(bad_input(format!(
        "{} was inlined into {}. Try: {what_to_do}",
        escape(asked),
        holder_names(profile, of)
    )))
}

/// `parse in libdb.so, main in db, 4 more`.
fn holder_names(profile: &Profile, holders: &[CodeHolder]) -> String {
    let word = |holder: &CodeHolder| {
        let name = holder.name(&profile.aggregate).unwrap_or(UNKNOWN);
        let module = profile.modules[holder.module as usize].short_name();
        format!("{} in {}", escape(name), escape(module))
    };
    let mut words: Vec<String> = holders.iter().take(MOST).map(word).collect();
    let more = holders.len().saturating_sub(MOST);
    words.extend((more > 0).then(|| format!("{more} more")));
    words.join(", ")
}

/// Those of `all` whose module is meant: by its whole path, else by the end of that or its build ID. Of files of one path
/// the first, if nothing says which.
fn in_dso<'a, T>(
    all: Vec<T>,
    module: impl Fn(&T) -> &'a ModuleSummary,
    asked: Option<&str>,
) -> Vec<T> {
    let Some(asked) = asked else { return all };
    if all.iter().any(|one| module(one).path == asked) {
        return all.into_iter().filter(|one| module(one).path == asked).take(1).collect();
    }
    all.into_iter().filter(|one| is_called(module(one), asked)).collect()
}

/// Whether a module's path ends with this, or its build ID begins so.
fn is_called(module: &ModuleSummary, asked: &str) -> bool {
    let before = module.path.strip_suffix(asked);
    let is_path = before
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || asked.starts_with('/'));
    let id = module.build_id.as_ref().map(ToString::to_string);
    is_path || asked.len() >= SHORTEST_ID && id.is_some_and(|id| id.starts_with(asked))
}

/// Digits of a build ID that are enough to name a file.
const SHORTEST_ID: usize = 8;

/// `a (12 samples), b (3), 4 more`.
fn listed<'a>(found: impl ExactSizeIterator<Item = (&'a str, u64)>) -> String {
    let more = found.len().saturating_sub(MOST);
    let mut is_first = true;
    let word = |(name, samples): (&str, u64)| {
        let unit = match (std::mem::take(&mut is_first), samples) {
            (true, 1) => " sample",
            (true, _) => " samples",
            (false, _) => "",
        };
        format!("{} ({}{unit})", escape(name), count(samples))
    };
    let mut words: Vec<String> = found.take(MOST).map(word).collect();
    words.extend((more > 0).then(|| format!("{more} more")));
    words.join(", ")
}

/// Why no function is called so, and which are nearly.
fn unknown(profile: &Profile, asked: &str, all: &[Sampled]) -> String {
    let counts = &profile.aggregate;
    let name = |one: &&Sampled| one.holder.name(counts).unwrap_or(UNKNOWN);
    let all: Vec<&Sampled> = all.iter().filter(|one| one.holder.function.is_some()).collect();
    if all.is_empty() {
        return format!(
            "no sampled function is named {}: no sample of this recording has a function's name. Try: pmuscope \
             report --modules, which shows why",
            escape(asked)
        );
    }
    let mut near: Vec<(f64, &Sampled)> = all
        .iter()
        .map(|one| (similarity(asked, name(one)), *one))
        .filter(|(similar, _)| *similar >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (what, found): (_, Vec<&Sampled>) = if near.is_empty() {
        ("Most samples are in", all)
    } else {
        ("Similar:", near.into_iter().map(|(_, one)| one).collect())
    };
    format!(
        "no sampled function is named {}. {what} {}. Try: pmuscope report --by function --limit all",
        escape(asked),
        listed(found.iter().map(|one| (name(one), one.samples)))
    )
}

/// How alike a word is to a function's name: as a whole, or to the last part of its path without
/// parameters.
fn similarity(asked: &str, name: &str) -> f64 {
    let bare = name.split(['(', '<']).next().unwrap_or(name);
    let last = bare.rsplit("::").next().unwrap_or(bare);
    let alike = |other: &str| strsim::normalized_damerau_levenshtein(asked, other);
    alike(name).max(alike(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_near_by_their_last_part_too() {
        assert!(similarity("mix_divison", "pmuscope::mix::mix_division(u64)") > 0.8);
        assert!(similarity("main", "__memcpy_avx_unaligned") < NEAR);
    }

    #[test]
    fn the_first_of_a_list_says_what_numbers_are() {
        let all = [("f(int)", 1200), ("g", 3)];
        assert_eq!(listed(all.into_iter()), "f(int) (1,200 samples), g (3)");
        let many: Vec<(&str, u64)> = vec![("f", 1); 10];
        let many = listed(many.into_iter());
        assert!(many.starts_with("f (1 sample), ") && many.ends_with("f (1), 2 more"), "{many}");
    }
}
