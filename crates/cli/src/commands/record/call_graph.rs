//! `-g` and `--call-graph`.

use std::ffi::OsStr;

use pmuscope_console::exit::bad_input;
use pmuscope_console::say;
use pmuscope_recorder::CallGraph;

use super::flags::Args;

/// perf's default for copied stacks, bytes.
const STACK_BYTES: u32 = 8192;

/// The call graph that `-g` (`chains`) and `--call-graph TEXT` ask for; the text wins.
pub(super) fn call_graph(chains: bool, text: Option<&str>) -> Result<CallGraph, String> {
    let Some(text) = text else {
        return Ok(if chains { CallGraph::FramePointer { depth: 0 } } else { CallGraph::None });
    };
    let (how, number) = match text.split_once(',') {
        Some((how, number)) => (how, Some(number)),
        None => (text, None),
    };
    let wrong = || {
        format!("--call-graph {text}: not known. Try: fp, fp,DEPTH, dwarf, dwarf,BYTES, lbr or no")
    };
    match (how, number) {
        ("fp", None) => Ok(CallGraph::FramePointer { depth: 0 }),
        ("fp", Some(depth)) => {
            let depth = depth.parse().map_err(|_| wrong())?;
            Ok(CallGraph::FramePointer { depth })
        }
        ("dwarf", None) => Ok(CallGraph::Dwarf { stack_bytes: STACK_BYTES }),
        ("dwarf", Some(bytes)) => {
            let bytes: u32 = bytes.parse().map_err(|_| wrong())?;
            Ok(CallGraph::Dwarf { stack_bytes: bytes.next_multiple_of(8) })
        }
        ("lbr", None) => Ok(CallGraph::Lbr),
        ("no", None) => Ok(CallGraph::None),
        _ => Err(wrong()),
    }
}

/// `-g dwarf -- CMD`: perf's older spelling of `--call-graph dwarf`. The word can only be meant for it where `--`
/// follows, since programs of these names are started by `-- dwarf`.
pub(super) fn of_g(args: &mut Args) {
    let [word, dashes, ..] = args.command.as_slice() else { return };
    let is_meant = args.call_chains && args.call_graph.is_none() && dashes == "--";
    let word = word.to_str().filter(|word| is_meant && call_graph(true, Some(word)).is_ok());
    let Some(word) = word.map(str::to_owned) else { return };
    say!("note: -g {word} is --call-graph {word}");
    args.call_graph = Some(word);
    args.command.drain(..2);
}

/// Why `word` is no command, where it stands after `-g` and is one of the words of `--call-graph`.
pub(super) fn mistaken(word: &OsStr) -> Option<anyhow::Error> {
    let word = word.to_str().filter(|word| call_graph(true, Some(word)).is_ok())?;
    let text = format!(
        "-g takes no value, so '{word}' was taken for the command, and there is no such program. \
         Try: pmuscope record --call-graph {word} -- COMMAND"
    );
    Some(bad_input(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_perf_is_known() {
        let parse = |text| call_graph(true, Some(text));
        assert_eq!(call_graph(true, None), Ok(CallGraph::FramePointer { depth: 0 }));
        assert_eq!(parse("fp,4"), Ok(CallGraph::FramePointer { depth: 4 }));
        assert_eq!(parse("dwarf"), Ok(CallGraph::Dwarf { stack_bytes: 8192 }));
        assert_eq!(parse("dwarf,1021"), Ok(CallGraph::Dwarf { stack_bytes: 1024 }));
        assert_eq!(parse("no"), Ok(CallGraph::None));
        assert!(parse("fq").unwrap_err().contains("Try: fp"));
        assert!(parse("lbr,3").is_err());
    }
}
