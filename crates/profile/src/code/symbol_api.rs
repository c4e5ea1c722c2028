//! The symbolication API that the Firefox Profiler asks a local server: JSON questions, JSON answers.
//!
//! | path | question | answer |
//! |---|---|---|
//! | `/symbolicate/v5` | addresses of modules | functions, lines, inlined functions |
//! | `/source/v1` | a source file named at an address | its text |
//! | `/asm/v1` | a range of code | instructions |
//!
//! Formats: Tecken's "Symbolication: /symbolicate/v5" and the API document of samply. An error is an object with
//! `error`, which the viewer shows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::{CodeExtent, CodeQueries, SymbolAt};

/// Paths that are answered.
pub const PATHS: [&str; 3] = ["/symbolicate/v5", "/source/v1", "/asm/v1"];

/// The answer to `question`, JSON, of one of [`PATHS`]; `None` of any other path.
pub fn answer(code: &mut CodeQueries, path: &str, question: &[u8]) -> Option<Vec<u8>> {
    Some(match path {
        "/symbolicate/v5" => answered(question, |question| symbolicate(code, question)),
        "/source/v1" => answered(question, |question| source(code, question)),
        "/asm/v1" => answered(question, |question| asm(code, &question)),
        _ => return None,
    })
}

/// JSON to JSON; what goes wrong is an answer too.
fn answered<'q, Q: Deserialize<'q>, A: Serialize>(
    question: &'q [u8],
    answer: impl FnOnce(Q) -> Result<A, String>,
) -> Vec<u8> {
    let parsed = serde_json::from_slice(question).map_err(|error| format!("bad request: {error}"));
    let text = match parsed.and_then(answer) {
        Ok(answer) => serde_json::to_vec(&answer),
        Err(error) => serde_json::to_vec(&Failed { error }),
    };
    // Texts and numbers always become JSON.
    text.unwrap_or_default()
}

#[derive(Serialize)]
struct Failed {
    error: String,
}

/// A number as `0x1f`.
#[derive(Debug, Clone, Copy)]
struct Hex(u64);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:#x}", self.0))
    }
}

fn from_hex(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|_| format!("{text} is not a hexadecimal number"))
}

/// Several jobs, or one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Symbolicate {
    Jobs { jobs: Vec<SymbolicateJob> },
    One(SymbolicateJob),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SymbolicateJob {
    /// Name and id of each module.
    memory_map: Vec<(String, String)>,
    /// Index of the module, and address; -1 where there is none.
    stacks: Vec<Vec<(i64, i64)>>,
}

#[derive(Serialize)]
struct Symbolicated {
    results: Vec<JobResult>,
}

#[derive(Serialize)]
struct JobResult {
    stacks: Vec<Vec<FrameResult>>,
    /// Whether there are symbols, by name and id; `null` of modules without addresses.
    found_modules: BTreeMap<String, Option<bool>>,
}

#[derive(Serialize)]
struct FrameResult {
    frame: usize,
    module_offset: String,
    module: String,
    #[serde(flatten)]
    function: Option<FunctionResult>,
}

#[derive(Serialize)]
struct FunctionResult {
    function: String,
    function_offset: Hex,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_size: Option<Hex>,
    #[serde(flatten)]
    line: LineResult,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlines: Vec<InlineResult>,
}

#[derive(Serialize)]
struct InlineResult {
    function: String,
    #[serde(flatten)]
    line: LineResult,
}

#[derive(Serialize, Default)]
struct LineResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

impl LineResult {
    fn new(line: Option<&crate::Line>) -> Self {
        line.map(|line| Self { file: Some(line.file.to_string()), line: line.number })
            .unwrap_or_default()
    }
}

fn symbolicate(code: &mut CodeQueries, question: Symbolicate) -> Result<Symbolicated, String> {
    let jobs = match question {
        Symbolicate::Jobs { jobs } => jobs,
        Symbolicate::One(job) => vec![job],
    };
    Ok(Symbolicated { results: jobs.iter().map(|job| of_job(code, job)).collect() })
}

/// Each module's addresses are looked up at once.
fn of_job(code: &mut CodeQueries, job: &SymbolicateJob) -> JobResult {
    let mut addresses: Vec<Vec<u64>> = vec![Vec::new(); job.memory_map.len()];
    for &(module, address) in job.stacks.iter().flatten() {
        let of = usize::try_from(module).ok().and_then(|module| addresses.get_mut(module));
        if let (Some(of), Ok(address)) = (of, u64::try_from(address)) {
            of.push(address);
        }
    }
    let mut found_modules = BTreeMap::new();
    let mut found: Vec<std::vec::IntoIter<Option<SymbolAt>>> = Vec::new();
    for ((name, id), addresses) in job.memory_map.iter().zip(addresses) {
        let answers = code.symbols(name, id, &addresses).ok();
        let has_any = answers.as_ref().is_some_and(|answers| answers.iter().any(Option::is_some));
        let is_found = (!addresses.is_empty()).then_some(has_any);
        found_modules.insert(format!("{name}/{id}"), is_found);
        found.push(answers.unwrap_or_else(|| vec![None; addresses.len()]).into_iter());
    }
    // Answers are in the order of the addresses, so each is the next one of its module.
    let mut frame = |(frame, &(module, address)): (usize, &(i64, i64))| {
        let at = usize::try_from(module).ok().filter(|&at| at < found.len());
        let offset = u64::try_from(address);
        let symbol = match (at, offset) {
            (Some(at), Ok(_)) => found[at].next().flatten(),
            _ => None,
        };
        let module = at.map(|at| job.memory_map[at].0.clone()).unwrap_or_default();
        let module_offset = offset.map_or_else(|_| address.to_string(), |at| format!("{at:#x}"));
        let function = offset.ok().zip(symbol).map(|(at, symbol)| function(at, &symbol));
        FrameResult { frame, module_offset, module, function }
    };
    let stacks = job.stacks.iter().map(|stack| stack.iter().enumerate().map(&mut frame).collect());
    let stacks = stacks.collect();
    JobResult { stacks, found_modules }
}

fn function(address: u64, SymbolAt { symbol, range }: &SymbolAt) -> FunctionResult {
    // Where only the name is known, the function begins at the address: without an offset, viewers take no name.
    let start = range.as_ref().map_or(address, |range| range.start);
    let inline = |frame: &pmuscope_symbols::Frame| InlineResult {
        function: frame.name.to_string(),
        line: LineResult::new(frame.line.as_ref()),
    };
    FunctionResult {
        function: symbol.name.to_string(),
        function_offset: Hex(address - start),
        function_size: range.as_ref().map(|range| Hex(range.end - range.start)),
        line: LineResult::new(symbol.line.as_ref()),
        // The innermost first.
        inlines: symbol.inlined.iter().rev().map(inline).collect(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SourceQuestion {
    debug_name: String,
    debug_id: String,
    module_offset: String,
    file: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceAnswer {
    symbols_last_modified: Option<()>,
    source_last_modified: Option<()>,
    file: String,
    source: String,
}

fn source(code: &mut CodeQueries, question: SourceQuestion) -> Result<SourceAnswer, String> {
    let SourceQuestion { debug_name, debug_id, module_offset, file } = question;
    let address = from_hex(&module_offset)?;
    let source = code.source((&debug_name, &debug_id), address, &file);
    let source = source.map_err(|error| error.to_string())?;
    Ok(SourceAnswer { symbols_last_modified: None, source_last_modified: None, file, source })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AsmQuestion {
    debug_name: String,
    debug_id: String,
    start_address: String,
    size: String,
    #[serde(default)]
    continue_until_function_end: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AsmAnswer {
    start_address: Hex,
    size: Hex,
    arch: &'static str,
    syntax: [&'static str; 1],
    instructions: Vec<(u64, String)>,
}

fn asm(code: &mut CodeQueries, question: &AsmQuestion) -> Result<AsmAnswer, String> {
    let start = from_hex(&question.start_address)?;
    let bytes = from_hex(&question.size)?;
    let extent = CodeExtent { start, bytes, whole_function: question.continue_until_function_end };
    let found = code.instructions((&question.debug_name, &question.debug_id), extent);
    let found = found.map_err(|error| error.to_string())?;
    Ok(AsmAnswer {
        start_address: Hex(start),
        size: Hex(found.bytes),
        arch: found.arch,
        syntax: ["GNU"],
        instructions: found.instructions,
    })
}
