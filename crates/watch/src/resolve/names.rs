//! Targets with names: which module has them, and where they are in the process.

use pmuscope_counters::errno_name;
use pmuscope_counters::spawn::thread_pointer;
use pmuscope_symbols::definitions::{
    CodePlaces, DataPlace, DefinitionError, Definitions, Expression, NameKind, Step, ValueType,
};

use super::memory::Process;
use super::modules::{MappedFile, Modules};
use super::{Followed, ResolveError, Watchpoint, pieces};
use crate::target::{self, Access, Target, TargetLocation};

/// What a file says of a target.
enum Answer {
    Data(DataPlace),
    Code(CodePlaces),
}

/// The watchpoint of a target that has a name.
pub(super) fn one(
    process: &Process<'_>,
    modules: &Modules<'_>,
    target: &Target,
) -> Result<Watchpoint, ResolveError> {
    let asked = match &target.place {
        TargetLocation::Named { module, .. } | TargetLocation::Line { module, .. } => module,
        TargetLocation::Address(_) => &target::Module::Any,
    };
    let mut candidates = candidates(process, modules, target, asked)?;
    if matches!(&target.place, TargetLocation::Named { thread: Some(_), .. }) {
        // Where those of libraries are, only the loader knows.
        candidates.truncate(1);
    }
    let mut first_error = None;
    let mut found: Vec<(&MappedFile, u64, Answer)> = Vec::new();
    for (index, module) in candidates.iter().enumerate() {
        let opened = match modules.open(module) {
            Ok(opened) => opened,
            Err(why) if index == 0 => {
                first_error.get_or_insert_with(|| ResolveError::File {
                    target: target.text.clone(),
                    path: module.path().to_path_buf(),
                    why: why.to_owned(),
                });
                continue;
            }
            Err(_) => continue,
        };
        match ask(&opened.definitions, target) {
            Ok(answer) => {
                found.push((module, opened.bias, answer));
                // What the program has it means; libraries are equals.
                if index == 0 {
                    break;
                }
            }
            Err(NameRefused::Elsewhere(error)) => {
                let says_nothing = first_error.as_ref().is_none_or(|first| {
                    matches!(first, ResolveError::Definition { source, .. } if source.says_nothing())
                });
                if first_error.is_none() || (says_nothing && !error.says_nothing()) {
                    first_error = Some(definition(target, error, &candidates, modules));
                }
            }
            Err(NameRefused::Final(error)) if index == 0 => return Err(error),
            Err(NameRefused::Final(error)) => {
                first_error.get_or_insert(error);
            }
        }
    }
    match (&found[..], first_error) {
        ([], Some(error)) => Err(error),
        ([], None) => Err(ResolveError::NoMemory { pid: process.pid() }),
        ([(module, bias, answer)], _) => {
            let mut watchpoint = placed(process, target, *bias, answer)?;
            watchpoint.module = Some(module.path().to_string_lossy().into_owned());
            Ok(watchpoint)
        }
        (several, _) => Err(ResolveError::Ambiguous {
            target: target.text.clone(),
            choices: (several.iter())
                .map(|(module, ..)| format!("{}!{}", module.name(), target.text))
                .collect(),
        }),
    }
}

/// Modules that may have it, the likeliest first.
fn candidates<'a>(
    process: &Process<'_>,
    modules: &'a Modules<'_>,
    target: &Target,
    asked: &target::Module,
) -> Result<Vec<&'a MappedFile>, ResolveError> {
    let target::Module::Named(name) = asked else { return Ok(modules.iter().collect()) };
    let found: Vec<&MappedFile> = modules.iter().filter(|module| module.is_called(name)).collect();
    if found.is_empty() {
        let mut names: Vec<String> = modules.iter().map(MappedFile::name).collect();
        names.retain(|other| other.contains(name.trim_start_matches("lib")));
        names.truncate(5);
        let near = match &names[..] {
            [] => String::new(),
            names => format!(". Similar: {}", names.join(", ")),
        };
        let (target, module) = (target.text.clone(), name.clone());
        return Err(ResolveError::NoModule { target, pid: process.pid(), module, near });
    }
    Ok(found)
}

fn definition(
    target: &Target,
    source: DefinitionError,
    candidates: &[&MappedFile],
    modules: &Modules<'_>,
) -> ResolveError {
    let path = |module: &MappedFile| {
        let stripped = modules.open(module).is_ok_and(|opened| opened.definitions.is_stripped());
        let remark = if stripped { ", which has only exported names," } else { "" };
        format!("in {}{remark}", module.path().display())
    };
    let looked_in = match candidates {
        [] => "nothing is mapped".to_owned(),
        [one] => path(one).trim_end_matches(',').to_owned(),
        [first, rest @ ..] => {
            let libraries = if let [_] = rest { "library" } else { "libraries" };
            format!("{} and {} {libraries}", path(first), rest.len())
        }
    };
    ResolveError::Definition { target: target.text.clone(), source: Box::new(source), looked_in }
}

/// Why a file does not say where a target is.
enum NameRefused {
    /// Another module may have it.
    Elsewhere(DefinitionError),
    Final(ResolveError),
}

fn ask(definitions: &Definitions, target: &Target) -> Result<Answer, NameRefused> {
    let refuse = |error: DefinitionError| {
        if error.is_elsewhere() {
            NameRefused::Elsewhere(error)
        } else {
            let (text, looked_in) = (target.text.clone(), definitions.path().display().to_string());
            NameRefused::Final(ResolveError::Definition {
                target: text,
                source: Box::new(error),
                looked_in: format!("in {looked_in}"),
            })
        }
    };
    match &target.place {
        TargetLocation::Line { file, line, .. } => {
            definitions.line(file, *line).map(Answer::Code).map_err(refuse)
        }
        TargetLocation::Named { file, expression, .. } => {
            named(definitions, target, file.as_deref(), expression, refuse)
        }
        TargetLocation::Address(_) => Err(NameRefused::Elsewhere(DefinitionError::NoVariable {
            name: target.name.clone(),
            near: Vec::new(),
        })),
    }
}

fn named(
    definitions: &Definitions,
    target: &Target,
    file: Option<&str>,
    expression: &Expression,
    refuse: impl Fn(DefinitionError) -> NameRefused,
) -> Result<Answer, NameRefused> {
    let code = || match expression.is_name() {
        true => definitions.functions(&expression.name()),
        false => Err(DefinitionError::NoFunction { name: target.name.clone(), near: Vec::new() }),
    };
    let names = || (target.text.clone(), target.name.clone());
    // Symbol tables know functions at once; to see that there is no variable takes all debug information.
    if expression.is_name()
        && file.is_none()
        && definitions.kind(&expression.name()) == Some(NameKind::Code)
    {
        return match target.access {
            None | Some(Access::Execute) => code().map(Answer::Code).map_err(refuse),
            Some(_) => {
                let (target, name) = names();
                Err(NameRefused::Final(ResolveError::Function { target, name }))
            }
        };
    }
    if target.access == Some(Access::Execute) {
        return match code() {
            Ok(found) => Ok(Answer::Code(found)),
            Err(error) => Err(match definitions.data(file, expression) {
                Ok(_) => {
                    let (target, name) = names();
                    NameRefused::Final(ResolveError::Variable { target, name })
                }
                Err(_) => refuse(error),
            }),
        };
    }
    if let TargetLocation::Named { thread: Some(_), .. } = &target.place {
        return definitions.thread_data(file, expression).map(Answer::Data).map_err(refuse);
    }
    match definitions.data(file, expression) {
        Ok(found) => Ok(Answer::Data(found)),
        Err(error) if error.is_elsewhere() => match (code(), target.access) {
            (Ok(found), None) => Ok(Answer::Code(found)),
            (Ok(_), Some(_)) => {
                let (target, name) = names();
                Err(NameRefused::Final(ResolveError::Function { target, name }))
            }
            (Err(function), None) if expression.is_name() => {
                Err(refuse(error.or_function(function)))
            }
            (Err(_), _) => Err(refuse(error)),
        },
        Err(error) => Err(refuse(error)),
    }
}

/// What a file says, in the process.
fn placed(
    process: &Process<'_>,
    target: &Target,
    bias: u64,
    answer: &Answer,
) -> Result<Watchpoint, ResolveError> {
    let offset = match &target.place {
        TargetLocation::Named { offset, .. } => *offset,
        _ => 0,
    };
    match answer {
        Answer::Code(found) => code(target, found, bias.wrapping_add(offset)),
        Answer::Data(found) => {
            let base = thread_base(process, target, found)?.unwrap_or(bias);
            data(process, target, found, base, offset)
        }
    }
}

fn code(target: &Target, found: &CodePlaces, bias: u64) -> Result<Watchpoint, ResolveError> {
    let addresses: Vec<u64> = found.addresses.iter().map(|at| at.wrapping_add(bias)).collect();
    let mut watchpoint = pieces::code(target, &addresses)?;
    if let (TargetLocation::Line { line, .. }, Some(there)) = (&target.place, found.line)
        && there != *line
    {
        watchpoint.notes.push(format!(
            "line {line} has no code; watching line {there}, the next line with code"
        ));
    }
    if let [_, _, ..] = addresses[..] {
        let what = match found.line {
            Some(_) => "addresses have code of this line",
            None => "functions have this name",
        };
        let count = addresses.len();
        watchpoint.notes.push(format!("{count} {what}: each takes a debug register"));
    }
    Ok(watchpoint)
}

fn data(
    process: &Process<'_>,
    target: &Target,
    found: &DataPlace,
    bias: u64,
    offset: u64,
) -> Result<Watchpoint, ResolveError> {
    let (address, followed) = follow(process, target, found, bias)?;
    let address = address.wrapping_add(offset);
    let whole = offset == 0 && target.len.is_none_or(|len| len == found.bytes);
    let len = match target.len {
        Some(len) => len,
        None if found.bytes > 0 && offset == 0 => found.bytes,
        None => {
            let (target, name) = (target.text.clone(), target.name.clone());
            return Err(ResolveError::NoSize { target, name });
        }
    };
    if process.mapping_of(address).is_none() {
        let target = target.text.clone();
        return Err(ResolveError::NotMapped { target, pid: process.pid(), address });
    }
    let object = pieces::Object { target, address, len, of_type: whole };
    let access = target.access.unwrap_or(Access::Write);
    let mut watchpoint = pieces::data(&object, access)?;
    if !followed.is_empty() {
        watchpoint.notes.push(format!(
            "{} was followed through {} once: {address:#x} stays watched, wherever {} later",
            target.name,
            if followed.len() == 1 { "a pointer" } else { "pointers" },
            if followed.len() == 1 { "it points" } else { "they point" },
        ));
    }
    if whole {
        watchpoint.value = found.value.clone();
        watchpoint.type_name = found.type_name.clone();
    } else if found.bytes > 0 && offset.saturating_add(len) > found.bytes {
        watchpoint.notes.push(format!(
            "{} extends past its {} bytes: the bytes after it are watched too",
            target.name, found.bytes
        ));
    }
    if found.type_name.is_none() && found.value == ValueType::Unsigned && whole {
        watchpoint.notes.push(format!(
            "{} is shown as an unsigned number: its symbol has {} bytes and no type",
            target.name, found.bytes
        ));
    }
    watchpoint.declared = found.declared.clone();
    watchpoint.followed = followed;
    Ok(watchpoint)
}

/// What to add to the address of a thread-local variable: the thread pointer of the thread. `None` of other variables.
fn thread_base(
    process: &Process<'_>,
    target: &Target,
    found: &DataPlace,
) -> Result<Option<u64>, ResolveError> {
    let TargetLocation::Named { thread: Some(tid), .. } = &target.place else { return Ok(None) };
    let refused = |why: String| ResolveError::Thread { target: target.text.clone(), why };
    if !found.is_thread_local {
        return Err(refused(format!("{} is not thread-local", found.variable)));
    }
    if !process.has_thread(*tid) {
        return Err(refused(format!("process {} has no thread {tid}", process.pid())));
    }
    match thread_pointer(*tid) {
        Ok(0) => Err(refused(format!("thread {tid} has not set up its variables yet"))),
        Ok(pointer) => Ok(Some(pointer)),
        Err(error) => Err(refused(format!(
            "cannot read the registers of thread {tid} (ptrace: {})",
            errno_name(&error)
        ))),
    }
}

/// Takes the steps to the object.
fn follow(
    process: &Process<'_>,
    target: &Target,
    found: &DataPlace,
    bias: u64,
) -> Result<(u64, Vec<Followed>), ResolveError> {
    let mut at = found.base.wrapping_add(bias);
    let mut followed = Vec::new();
    for step in &found.steps {
        match step {
            Step::Add(bytes) => at = at.wrapping_add(*bytes),
            Step::Dereference => {
                let unmapped = || {
                    let (target, pid) = (target.text.clone(), process.pid());
                    ResolveError::NotMapped { target, pid, address: at }
                };
                let pointer = process.pointer(at, found.pointer_bytes)?.ok_or_else(unmapped)?;
                let why = match pointer {
                    0 => Some("a null pointer"),
                    _ if process.mapping_of(pointer).is_none() => {
                        Some("an address that is not mapped")
                    }
                    _ => None,
                };
                if let Some(why) = why {
                    let target = target.text.clone();
                    return Err(ResolveError::BadPointer { target, at, value: pointer, why });
                }
                followed.push(Followed { at, pointer });
                at = pointer;
            }
        }
    }
    Ok((at, followed))
}
