//! Which fields of a sample are shown: perf's names, in perf's order.

/// A field of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Name of the thread.
    Comm,
    /// Process.
    Pid,
    /// Thread.
    Tid,
    /// CPU.
    Cpu,
    /// Mode and flags of the record.
    Misc,
    /// Wall-clock time.
    Tod,
    /// Time stamp.
    Time,
    /// Units of the event the sample stands for.
    Period,
    /// Name of the event.
    Event,
    /// What a tracepoint says.
    Trace,
    /// Id of the descriptor.
    Id,
    /// Id of the very event that sampled.
    StreamId,
    /// Counts read with the sample.
    Read,
    /// Address of the data.
    Addr,
    /// Where the data came from.
    DataSrc,
    /// Latency of the access.
    Weight,
    /// Latency of the instruction.
    InsLat,
    /// Cycles until it retired.
    RetireLat,
    /// Address of the instruction, and of its callers.
    Ip,
    /// Function.
    Sym,
    /// Module.
    Dso,
    /// Source file and line.
    Srcline,
    /// Registers at the interrupt.
    Iregs,
    /// Registers of the program.
    Uregs,
    /// Bytes of the program's stack.
    Ustack,
    /// Branches, as addresses.
    Brstack,
    /// Branches, as functions.
    Brstacksym,
    /// Raw data, hexadecimal.
    Raw,
    /// Hardware transaction.
    Transaction,
    /// Physical address of the data.
    PhysAddr,
    /// Cgroup: in text its path, in forms for programs its number.
    Cgroup,
    /// Path of the cgroup.
    CgroupPath,
    /// Size of the page of the data.
    DataPageSize,
    /// Size of the page of the instruction.
    CodePageSize,
}

/// All fields and their names.
const NAMES: [(Field, &str); 34] = [
    (Field::Comm, "comm"),
    (Field::Pid, "pid"),
    (Field::Tid, "tid"),
    (Field::Cpu, "cpu"),
    (Field::Misc, "misc"),
    (Field::Tod, "tod"),
    (Field::Time, "time"),
    (Field::Period, "period"),
    (Field::Event, "event"),
    (Field::Trace, "trace"),
    (Field::Id, "id"),
    (Field::StreamId, "stream_id"),
    (Field::Read, "read"),
    (Field::Addr, "addr"),
    (Field::DataSrc, "data_src"),
    (Field::Weight, "weight"),
    (Field::InsLat, "ins_lat"),
    (Field::RetireLat, "retire_lat"),
    (Field::Ip, "ip"),
    (Field::Sym, "sym"),
    (Field::Dso, "dso"),
    (Field::Srcline, "srcline"),
    (Field::Iregs, "iregs"),
    (Field::Uregs, "uregs"),
    (Field::Ustack, "ustack"),
    (Field::Brstack, "brstack"),
    (Field::Brstacksym, "brstacksym"),
    (Field::Raw, "raw"),
    (Field::Transaction, "transaction"),
    (Field::PhysAddr, "phys_addr"),
    (Field::Cgroup, "cgroup"),
    (Field::CgroupPath, "cgroup_path"),
    (Field::DataPageSize, "data_page_size"),
    (Field::CodePageSize, "code_page_size"),
];

/// What perf shows where no fields are named.
const DEFAULT: [Field; 9] = [
    Field::Comm,
    Field::Tid,
    Field::Cpu,
    Field::Time,
    Field::Period,
    Field::Event,
    Field::Ip,
    Field::Sym,
    Field::Dso,
];

impl Field {
    /// perf's name of it.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }

    /// Whether it is what a sample carries after its call chain, see [`pmuscope_perfdata::reader::Details`].
    pub(super) fn is_detail(self) -> bool {
        use Field as F;
        matches!(
            self,
            F::Trace
                | F::DataSrc
                | F::Weight
                | F::InsLat
                | F::RetireLat
                | F::Iregs
                | F::Uregs
                | F::Ustack
                | F::Brstack
                | F::Brstacksym
                | F::Raw
                | F::Transaction
                | F::PhysAddr
                | F::Cgroup
                | F::CgroupPath
                | F::DataPageSize
                | F::CodePageSize
        )
    }

    /// Whether it is the function, module or source line of the instruction.
    pub(super) fn is_of_place(self) -> bool {
        matches!(self, Self::Sym | Self::Dso | Self::Srcline)
    }
}

/// Fields to show, in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    list: Vec<Field>,
    /// A bit for each field of the list, by its number.
    bits: u64,
    /// What tracepoints say is shown where the recording has any.
    may_add_trace: bool,
}

impl Default for Fields {
    fn default() -> Self {
        Self::of(DEFAULT.to_vec(), true)
    }
}

impl std::str::FromStr for Fields {
    type Err = String;

    /// `comm,ip,sym` are those fields, `+addr,-period` the default ones with changes.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|p| !p.is_empty()).collect();
        let changes = parts.first().is_some_and(|part| part.starts_with(['+', '-']));
        let mut list = if changes { DEFAULT.to_vec() } else { Vec::new() };
        let mut may_add_trace = changes;
        for part in parts {
            let (remove, name) = match part.strip_prefix('-') {
                Some(name) => (true, name),
                None => (false, part.strip_prefix('+').unwrap_or(part)),
            };
            let found = NAMES.iter().find(|(_, known)| *known == name);
            let field = found.map(|(field, _)| *field).ok_or_else(|| unknown(name))?;
            list.retain(|known| *known != field);
            may_add_trace &= field != Field::Trace;
            if !remove {
                list.push(field);
            }
        }
        list.sort_unstable();
        if list.is_empty() {
            return Err(format!("no field is left; fields are {}", names()));
        }
        Ok(Self::of(list, may_add_trace))
    }
}

fn names() -> String {
    NAMES.map(|(_, name)| name).join(", ")
}

fn unknown(name: &str) -> String {
    format!("there is no field \"{}\"; fields are {}", crate::escape(name), names())
}

impl Fields {
    fn of(list: Vec<Field>, may_add_trace: bool) -> Self {
        let bits = list.iter().fold(0, |bits, &field| bits | 1 << field as u32);
        Self { list, bits, may_add_trace }
    }

    /// Whether a field is to be shown.
    #[inline]
    #[must_use]
    pub fn has(&self, field: Field) -> bool {
        self.bits >> field as u32 & 1 == 1
    }

    /// The fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = Field> + '_ {
        self.list.iter().copied()
    }

    /// These fields for a recording of tracepoints: what they say is among the default ones.
    #[must_use]
    pub fn with_trace(mut self) -> Self {
        if self.may_add_trace && !self.has(Field::Trace) {
            self.list.push(Field::Trace);
            self.list.sort_unstable();
            return Self::of(self.list, true);
        }
        self
    }

    /// Whether function, module or source line are shown.
    #[must_use]
    pub(super) fn want_places(&self) -> bool {
        self.list.iter().any(|field| field.is_of_place())
    }

    /// Whether names of functions are needed.
    #[must_use]
    pub fn want_symbols(&self) -> bool {
        [Field::Sym, Field::Srcline, Field::Brstacksym].iter().any(|&field| self.has(field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_added_and_taken_away() {
        let fields = |text: &str| text.parse::<Fields>().map(|fields| fields.list);
        assert_eq!(fields("time,comm"), Ok(vec![Field::Comm, Field::Time]));
        assert_eq!(fields("+addr,-period").unwrap().len(), DEFAULT.len());
        assert!(fields("+addr").unwrap().contains(&Field::Addr));
        assert_eq!(fields("-comm,-tid").unwrap()[0], Field::Cpu);
        assert!(fields("comm,-comm").unwrap_err().starts_with("no field is left"));
        let error = fields("comm,color\u{1b}").unwrap_err();
        assert!(error.contains("\"color\\x1b\"; fields are comm, pid, tid"), "{error}");
    }

    #[test]
    fn what_tracepoints_say_is_shown_by_default_where_there_are_any() {
        let has = |text: &str| text.parse::<Fields>().unwrap().with_trace().has(Field::Trace);
        assert!(Fields::default().with_trace().has(Field::Trace) && has("+addr") && has("trace"));
        assert!(!Fields::default().has(Field::Trace) && !has("comm,ip") && !has("-trace"));
    }

    #[test]
    fn every_field_has_one_name_and_the_order_of_the_list() {
        let mut names = NAMES;
        names.sort_by_key(|(field, _)| *field);
        assert_eq!(names, NAMES);
        for (field, name) in NAMES {
            let only = Fields::of(vec![field], false);
            assert_eq!((field.name(), name.parse()), (name, Ok(only)));
        }
    }
}
