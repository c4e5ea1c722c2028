//! Why a function's instructions cannot be shown, and what to do.

use pmuscope_profile::{Annotation, DisassembleError, NoCode, NoInstructions};

use crate::recording::causes::SymbolAdvice;

/// A sentence for each thing that is missing. Holds foreign text.
pub(super) fn missing(annotation: &Annotation<'_>) -> Vec<String> {
    let instructions =
        annotation.listings.as_ref().err().map(|why| no_instructions(annotation, why));
    let unreadable = annotation.sources.iter().filter_map(|source| {
        let why = source.text.as_ref().err()?;
        Some(format!("source {}: {why}", source.path))
    });
    let has_lines = annotation.events.iter().any(|(_, hits)| !hits.lines.is_empty());
    let no_lines = "no source lines: no debug information for this file. Build with -g, or install its debug package";
    let no_lines = (!has_lines).then(|| no_lines.to_owned());
    instructions.into_iter().chain(no_lines).chain(unreadable).collect()
}

/// Why there are no instructions, and what to do.
pub(super) fn no_instructions(annotation: &Annotation<'_>, why: &NoInstructions) -> String {
    let module = annotation.module;
    let what_to_do = match why {
        NoInstructions::Code(NoCode::File(state)) => {
            let SymbolAdvice { words, advice, .. } = SymbolAdvice::of(state, module, &[]);
            let advice = advice.map(|advice| format!(": {advice}"));
            return format!(
                "no instructions: {}: {words}{}",
                module.path,
                advice.unwrap_or_default()
            );
        }
        NoInstructions::Code(NoCode::Kernel(_)) => {
            "run report as root on a kernel with /proc/kcore, or install the kernel's debug package \
             (linux-image-…-dbg, kernel-debuginfo)"
        }
        NoInstructions::Code(NoCode::InMemory | NoCode::TooLarge(_)) | NoInstructions::NoFile => "",
        NoInstructions::Code(NoCode::NoRange) => {
            "install its debug package, or build it with symbols (no -s, no strip)"
        }
        NoInstructions::Disassembler(DisassembleError::NoProgram { .. }) => {
            "apt install binutils, dnf install binutils, or --objdump PATH"
        }
        NoInstructions::Disassembler(_) => {
            "give one that can: --objdump PATH (for another architecture: binutils-multiarch or llvm)"
        }
        _ => "",
    };
    let try_this =
        if what_to_do.is_empty() { String::new() } else { format!(". Try: {what_to_do}") };
    format!("no instructions: {why}{try_this}")
}
