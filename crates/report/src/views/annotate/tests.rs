use pmuscope_profile::views::{FunctionHits, Hit, InlinedCode, Sums};
use pmuscope_profile::{
    Annotation, DisassembleError, EventProfile, HiddenRows, Line, Listed, Listing, ModuleKind,
    ModuleSummary, NoCode, NoInstructions, SourceFile, SymbolState,
};

use super::text::body;
use crate::{PageLimits, Style, Summary, html_page, sample};

fn line(number: u32) -> Line {
    Line { file: "/src/a.c".into(), number: Some(number) }
}

fn hit<K>(key: K, samples: u64) -> Hit<K> {
    let sums = Sums { samples, weight: samples };
    Hit { key, sums, share: samples as f64 / 100.0, interval: None }
}

fn event() -> EventProfile {
    EventProfile {
        index: 0,
        name: "cycles".into(),
        samples: 100,
        period: None,
        frequency: None,
        fixed_period: None,
        by_period: false,
        lost: None,
        lost_at_most: 0,
        by_cpu: Vec::new(),
        blocks: 0,
        long_phases: None,
        functions: Vec::new(),
        hidden: HiddenRows::default(),
        modules: Vec::new(),
    }
}

fn module() -> ModuleSummary {
    ModuleSummary {
        kind: ModuleKind::File,
        path: "/usr/bin/db".into(),
        build_id: None,
        mapped: None,
        symbols: SymbolState::Found,
    }
}

/// Sixty samples on line 12 and twenty on line 14; one address has no instruction.
fn hits() -> FunctionHits {
    FunctionHits {
        own: hit((), 81),
        addresses: vec![hit(0x1020, 60), hit(0x1024, 20), hit(0x1fff, 1)],
        lines: vec![hit(line(12), 60), hit(line(14), 20)],
    }
}

/// Instructions at every fourth byte, two a line from line 5 on, the last of them on line 15.
fn listing() -> Listing {
    let instruction = |at: u64| Listed {
        at: 0x1000 + 4 * at,
        address: 0x40_1000 + 4 * at,
        text: if at == 9 { "call 0x4010 <evil\u{7}>".into() } else { format!("op{at} %rax") },
        line: Some(line(5 + at as u32 / 2 + u32::from(at == 8) * 3)),
        inlined: (at == 8).then(|| "line_hash".into()),
    };
    Listing { path: "/usr/bin/db".into(), instructions: (0..21).map(instruction).collect() }
}

fn text(
    listings: Result<Vec<Listing>, NoInstructions>,
    source: Result<Vec<String>, String>,
    all: bool,
) -> String {
    styled(listings, source, all, &Style::PLAIN)
}

fn styled(
    listings: Result<Vec<Listing>, NoInstructions>,
    source: Result<Vec<String>, String>,
    all: bool,
    style: &Style,
) -> String {
    let (event, module) = (event(), module());
    let annotation = Annotation {
        function: "parse",
        module: &module,
        events: vec![(&event, hits())],
        listings,
        sources: vec![SourceFile { path: "/src/a.c".into(), text: source }],
        inlined: inlined(),
        marked: None,
    };
    body(&annotation, all, style)
}

/// A function that was inlined at the hottest address, on line 12.
fn inlined() -> InlinedCode {
    let name = || "line_hash".into();
    InlinedCode {
        addresses: [(0x1020, name())].into_iter().collect(),
        lines: [(line(12), name())].into_iter().collect(),
    }
}

fn source() -> Vec<String> {
    (1..=20).map(|number| format!("\tline{number}();  ")).collect()
}

#[test]
fn lines_and_instructions_stand_with_what_is_around_them() {
    insta::assert_snapshot!(text(Ok(vec![listing()]), Ok(source()), false));
    crate::widths::fits("annotate", |style| {
        styled(Ok(vec![listing()]), Ok(source()), false, style)
    });
}

#[test]
fn all_of_a_function_is_shown_if_asked_for() {
    let text = text(Ok(vec![listing()]), Ok(source()), true);
    assert!(!text.contains('…'), "{text}");
    assert!((5..=15).all(|number| text.contains(&format!("line{number}();"))), "{text}");
    assert!((0..21).all(|at| at == 9 || text.contains(&format!("op{at} "))), "{text}");
}

#[test]
fn what_is_missing_is_told_with_what_to_do() {
    let none =
        NoInstructions::Disassembler(DisassembleError::NoProgram { program: "objdump".into() });
    let text = text(Err(none), Err("No such file".into()), false);
    insta::assert_snapshot!(text);
    let state = NoInstructions::Code(NoCode::File(SymbolState::OtherKernel));
    let kernel = NoInstructions::Code(NoCode::Kernel("Permission denied".into()));
    for (why, words) in [
        (state, "report on the machine and kernel that recorded"),
        (kernel, "run report as root on a kernel with /proc/kcore"),
        (NoInstructions::Code(NoCode::InMemory), "a JIT runtime generated it in memory"),
        (NoInstructions::Code(NoCode::NoRange), "install its debug package"),
        (NoInstructions::NoFile, "no file contains its code"),
    ] {
        let text = self::text(Err(why), Ok(source()), false);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn rows_of_the_table_lead_to_the_code_of_their_functions() {
    let made = sample::made();
    let (event, module) = (event(), made.source().modules[1].clone());
    let hits = FunctionHits { own: hit((), 30), addresses: vec![hit(0x10, 30)], lines: Vec::new() };
    let annotation = Annotation {
        function: "recurse",
        module: &module,
        events: vec![(&event, hits)],
        listings: Err(NoInstructions::NoFile),
        sources: Vec::new(),
        inlined: InlinedCode::default(),
        marked: None,
    };
    let code = [annotation];
    let summary = Summary {
        title: "cycles".into(),
        facts: Vec::new(),
        notes: Vec::new(),
        command: String::new(),
    };
    let page = html_page(&made.source(), &summary, PageLimits::default(), &code, "abc");
    assert!(page.contains("<h2>Code</h2>") && page.contains("recurse in "), "{page}");
    let row = page.split("<tr>").find(|row| row.contains("href=\"#code-0-0\"")).unwrap();
    assert!(row.contains("recurse"), "{row}");
    assert_eq!(page.matches("href=\"#code-0-0\"").count(), 1);
    assert!(page.contains("no file contains its code"), "{page}");
}

#[test]
fn lines_of_an_inlined_function_are_marked() {
    let (event, module) = (event(), module());
    let annotation = Annotation {
        function: "parse",
        module: &module,
        events: vec![(&event, hits())],
        listings: Ok(vec![listing()]),
        sources: vec![SourceFile { path: "/src/a.c".into(), text: Ok(source()) }],
        inlined: inlined(),
        marked: None,
    };
    let marks = |text: &str| {
        let marked = text.lines().filter(|line| line.contains(" > "));
        marked.map(|line| line.split_whitespace().last().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(marks(&body(&annotation, false, &Style::PLAIN)), Vec::<String>::new());
    let text = body(&annotation.marking(Some("line_hash")), false, &Style::PLAIN);
    let (title, text) = text.trim_start().split_once('\n').unwrap();
    assert!(title.starts_with("parse (> marks line_hash) in /usr/bin/db: "), "{title}");
    assert_eq!(marks(text), ["line12();", "%rax"], "{text}");
}
