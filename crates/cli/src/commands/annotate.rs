//! `pmuscope report --annotate`: one function from inside.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::output::Form;
use pmuscope_console::say;
use pmuscope_profile::aggregate::FunctionId;
use pmuscope_profile::views::{Sampled, inlined_into, sampled};
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
    /// Part of the name is enough where it is unique; =NAME is the whole name.
    #[arg(
        long,
        value_name = "FUNCTION",
        group = "code",
        conflicts_with_all = ["by", "group", "call_tree", "peek", "modules", "symbol_filter", "no_inline"]
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
    /// DSO: the binary or shared library. The end of its path is enough.
    #[arg(long, value_name = "DSO", requires = "annotate")]
    dso: Option<String>,
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
        &self,
        profile: &'a Profile,
        symbolizer: &mut Symbolizer,
    ) -> anyhow::Result<Vec<Annotation<'a>>> {
        let functions = match (&self.annotate, self.annotate_top) {
            (Some(name), _) => vec![choose(profile, name, self.dso.as_deref())?],
            (None, most) => {
                let all = sampled(&profile.aggregate).into_iter();
                all.take(most.unwrap_or(0)).map(|one| one.function).collect()
            }
        };
        let annotation = |function| Annotation::new(profile, function, symbolizer, &self.objdump);
        Ok(functions.into_iter().map(annotation).collect())
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
        let function = choose(&profile, name, self.dso.as_deref())?;
        let annotation = Annotation::new(&profile, function, &mut symbolizer, &self.objdump);
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

/// The one function that is meant.
fn choose(profile: &Profile, asked: &str, dso: Option<&str>) -> anyhow::Result<FunctionId> {
    let all = sampled(&profile.aggregate);
    let name = |one: &Sampled| &*profile.aggregate.functions[one.function as usize].name;
    let module = |one: &Sampled| {
        let module = profile.aggregate.functions[one.function as usize].module;
        &profile.modules[module as usize]
    };
    let exact: Vec<&Sampled> = all.iter().filter(|one| name(one) == asked).collect();
    let called = if exact.is_empty() {
        all.iter().filter(|one| is_named(name(one), asked)).collect()
    } else {
        exact
    };
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
    let here: Vec<&&Sampled> =
        called.iter().filter(|one| dso.is_none_or(|dso| is_called(module(one), dso))).collect();
    match here[..] {
        [one] => Ok(one.function),
        _ => {
            let of = if here.is_empty() { called.iter().collect() } else { here };
            let listed = listed(of.iter().map(|one| (&*module(one).path, one.samples)));
            let name = name(called[0]);
            Err(bad_input(format!(
                "{} was sampled in {listed}. Try: --dso {}",
                escape(name),
                escape(module(called[0]).short_name())
            )))
        }
    }
}

/// Whether a module's path is this, or ends with it.
fn is_called(module: &ModuleSummary, asked: &str) -> bool {
    let before = module.path.strip_suffix(asked);
    before
        .is_some_and(|before| before.is_empty() || before.ends_with('/') || asked.starts_with('/'))
}

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
    let inlined = inlined_into(counts, asked);
    if let Some(first) = inlined.first() {
        let holders: Vec<String> =
            inlined.iter().take(MOST).map(|name| escape(name).into_owned()).collect();
        return format!(
            "{} has no samples in its own code: it was inlined into {}. Try: --annotate '{}'",
            escape(asked),
            holders.join(", "),
            escape(first)
        );
    }
    let name = |one: &Sampled| &*counts.functions[one.function as usize].name;
    if all.is_empty() {
        return format!(
            "no sampled function is named {}: no sample of this recording has a function's name. Try: pmuscope \
             report --modules, which shows why",
            escape(asked)
        );
    }
    let mut near: Vec<(f64, &Sampled)> = all
        .iter()
        .map(|one| (similarity(asked, name(one)), one))
        .filter(|(similar, _)| *similar >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (what, found): (_, Vec<&Sampled>) = if near.is_empty() {
        ("Most samples are in", all.iter().collect())
    } else {
        ("Similar:", near.into_iter().map(|(_, one)| one).collect())
    };
    format!(
        "no sampled function is named {}. {what} {}. Try: pmuscope report --by function --limit all",
        escape(asked),
        listed(found.into_iter().map(|one| (name(one), one.samples)))
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
