//! Columns that accesses to memory have in common: who accessed, and what became of it.

use std::borrow::Cow;

use pmuscope_perfdata::reader::AccessClass;
use pmuscope_profile::TasksBy;
use pmuscope_profile::views::{AccessBy, Accessor, BranchEnd, ClassCounts};

use super::UNKNOWN;
use crate::sheet::{Field, NAME};

/// The word of a class in JSON and CSV: what a count of it is called there, too.
pub(super) fn class_word(class: AccessClass) -> &'static str {
    use AccessClass as Class;
    match class {
        Class::LoadL1 => "load_l1",
        Class::LoadFillBuffer => "load_fill_buffer",
        Class::LoadL2 => "load_l2",
        Class::LoadL3 => "load_l3",
        Class::LoadLocalHitm => "local_hitm",
        Class::LoadRemoteHitm => "remote_hitm",
        Class::LoadLocalPeer => "local_peer",
        Class::LoadRemotePeer => "remote_peer",
        Class::LoadRemoteCache => "load_remote_cache",
        Class::LoadLocalMemory => "load_local_memory",
        Class::LoadRemoteMemory => "load_remote_memory",
        Class::LoadUncached => "load_uncached",
        Class::LoadIo => "load_io",
        Class::LoadOther => "load_other",
        Class::StoreL1Hit => "store_l1_hit",
        Class::StoreL1Miss => "store_l1_miss",
        Class::StoreOther => "store_other",
    }
}

/// Which columns of classes a table has: what no sample of it says is not 0.
#[derive(Debug, Clone, Copy)]
struct SampledClasses {
    loads: bool,
    stores: bool,
    peers: bool,
    l1: bool,
}

/// Loads and stores by class. `all` are those of the whole recording; `of` is `None` where no sample of a row says it.
pub(super) fn class_fields<'a, R: 'a>(
    all: &ClassCounts,
    of: impl Fn(&'a R) -> Option<&'a ClassCounts> + Copy + 'a,
) -> Vec<Field<'a, R>> {
    use AccessClass as Class;
    let has = |classes: [Class; 2]| classes.into_iter().any(|class| all.of(class) > 0);
    let sampled = SampledClasses {
        loads: all.loads() > 0,
        stores: all.stores() > 0,
        peers: has([Class::LoadLocalPeer, Class::LoadRemotePeer]),
        l1: has([Class::StoreL1Hit, Class::StoreL1Miss]),
    };
    let class = move |class: Class, head: &'static str, is_sampled: bool| {
        let get = move |row: &'a R| of(row).filter(|_| is_sampled).map(|one| one.of(class));
        Field::count(class_word(class), get).head(head).only_if_measured()
    };
    let sum = move |key: &'static str, get: fn(&ClassCounts) -> u64, is_sampled: bool| {
        let get = move |row: &'a R| of(row).filter(|_| is_sampled).map(get);
        Field::count(key, get).only_if_measured()
    };
    vec![
        sum("loads", ClassCounts::loads, sampled.loads).optional(4),
        sum("stores", ClassCounts::stores, sampled.stores).optional(4),
        class(Class::LoadLocalHitm, "local HITM", sampled.loads).optional(2),
        class(Class::LoadRemoteHitm, "remote HITM", sampled.loads).optional(2),
        class(Class::LoadLocalPeer, "local peer", sampled.peers).optional(3),
        class(Class::LoadRemotePeer, "remote peer", sampled.peers).optional(3),
        class(Class::StoreL1Hit, "store L1 hit", sampled.l1).optional(5),
        class(Class::StoreL1Miss, "store L1 miss", sampled.l1).optional(5),
    ]
}

/// Who accessed: the columns that were asked for.
pub(super) fn accessor_fields<'a, R: 'a>(
    by: AccessBy,
    of: impl Fn(&'a R) -> &'a Accessor + Copy + 'a,
) -> Vec<Field<'a, R>> {
    let mut fields = Vec::new();
    if by.node {
        fields.push(Field::id("node", move |row: &'a R| of(row).node));
    }
    if by.cpu {
        fields.push(Field::id("cpu", move |row: &'a R| of(row).cpu).head("CPU"));
    }
    if matches!(by.tasks, Some(TasksBy::Process | TasksBy::Thread)) {
        fields.push(Field::id("pid", move |row: &'a R| of(row).pid));
    }
    if by.tasks == Some(TasksBy::Thread) {
        fields.push(Field::id("tid", move |row: &'a R| of(row).tid));
    }
    if by.tasks.is_some() {
        fields.push(Field::text("command", move |row: &'a R| of(row).command.as_deref()));
    }
    if by.function {
        let code = move |row: &'a R| of(row).code.as_ref();
        fields.extend([
            Field::text("function", move |row: &'a R| code(row)?.function.as_deref())
                .shown_if_known(move |row: &'a R| code(row).map(code_text))
                .missing_as(UNKNOWN)
                .wanted(NAME),
            Field::text("code_module", move |row: &'a R| Some(&*code(row)?.module)).for_programs(),
            Field::address("code_address", move |row: &'a R| code(row)?.address).for_programs(),
        ]);
    }
    fields
}

/// The function, or where the code is.
fn code_text(code: &BranchEnd) -> String {
    match (&code.function, code.address) {
        (Some(function), _) => function.to_string(),
        (None, Some(address)) => format!("{}+{address:#x}", super::short(&code.module)),
        (None, None) => UNKNOWN.to_owned(),
    }
}

/// `local`, `remote`, `no`.
pub(super) fn hitm_text(class: Option<AccessClass>, is_hitm: bool) -> Cow<'static, str> {
    Cow::Borrowed(match class {
        Some(AccessClass::LoadLocalHitm) => "local",
        Some(AccessClass::LoadRemoteHitm) => "remote",
        _ if is_hitm => "yes",
        _ => "no",
    })
}
