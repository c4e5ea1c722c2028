//! The named questions: SQL in `questions/`, with what rows are by.

/// What rows are by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShareBy {
    /// Service.
    Service,
    /// Version of the service.
    Version,
    /// Unit of systemd.
    Unit,
    /// Container.
    Container,
    /// Kubernetes pod.
    Pod,
    /// Function, with its module.
    Function,
    /// Module: a binary or shared library.
    Module,
    /// Function of the kernel that waits, or why a thread is off the CPU without one.
    Wait,
    /// Why threads are off the CPU.
    State,
    /// What was run.
    Benchmark,
    /// Which of several commands or settings that were compared.
    Arm,
    /// Host.
    Host,
    /// CPU model of the host.
    CpuModel,
    /// Machine name of the host, such as `aarch64`.
    Arch,
    /// Release of the kernel.
    Kernel,
}

impl ShareBy {
    /// All of them, with their names on a command line and in SQL.
    pub const ALL: [(&'static str, Self); 15] = [
        ("service", Self::Service),
        ("version", Self::Version),
        ("unit", Self::Unit),
        ("container", Self::Container),
        ("pod", Self::Pod),
        ("function", Self::Function),
        ("module", Self::Module),
        ("wait", Self::Wait),
        ("state", Self::State),
        ("benchmark", Self::Benchmark),
        ("arm", Self::Arm),
        ("host", Self::Host),
        ("cpu_model", Self::CpuModel),
        ("arch", Self::Arch),
        ("kernel", Self::Kernel),
    ];

    /// The name of its column.
    #[must_use]
    pub fn column(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, one)| *one == self);
        known.map_or("service", |(name, _)| name)
    }

    /// Whether stacks say it, and not samples.
    #[must_use]
    pub fn is_of_stacks(self) -> bool {
        matches!(self, Self::Function | Self::Module)
    }

    /// Whether samples have it, by themselves or by their stacks.
    #[must_use]
    pub fn is_of_samples(self) -> bool {
        !matches!(self, Self::Wait | Self::State) && !self.is_of_runs()
    }

    /// Whether it is what processes belong to, or the host on which they run.
    #[must_use]
    pub fn is_of_processes(self) -> bool {
        self.is_of_samples() && !self.is_of_stacks()
    }

    /// Whether only runs have it.
    #[must_use]
    pub fn is_of_runs(self) -> bool {
        matches!(self, Self::Benchmark | Self::Arm | Self::CpuModel | Self::Arch | Self::Kernel)
    }
}

/// A named question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedQuestion {
    /// Sums by service, or what else processes belong to.
    Services,
    /// Sums by the function where samples were taken.
    Functions,
    /// Sums by function, with callees.
    Total,
    /// What was recorded of each host.
    Hosts,
    /// Sums by hour.
    Hours,
    /// Sums by function of two sides.
    Diff,
    /// Sums of two sides.
    Sides,
    /// Stacks with their frames.
    Stacks,
    /// What agents cost, and what is missing.
    Agents,
    /// Waits by length.
    Waits,
    /// Sums of windows by function and event.
    Metrics,
    /// Sums of windows by event.
    Events,
    /// Counts of events by service.
    Counts,
    /// Counts of events.
    CountEvents,
    /// Memory and CPU time by node.
    Locality,
    /// Sums of values of runs.
    Runs,
}

impl NamedQuestion {
    /// All of them, with their names.
    pub const ALL: [(&'static str, Self); 16] = [
        ("services", Self::Services),
        ("functions", Self::Functions),
        ("total", Self::Total),
        ("hosts", Self::Hosts),
        ("hours", Self::Hours),
        ("diff", Self::Diff),
        ("sides", Self::Sides),
        ("stacks", Self::Stacks),
        ("agents", Self::Agents),
        ("waits", Self::Waits),
        ("metrics", Self::Metrics),
        ("events", Self::Events),
        ("counts", Self::Counts),
        ("count-events", Self::CountEvents),
        ("locality", Self::Locality),
        ("runs", Self::Runs),
    ];

    /// The text as it is in the repository.
    fn template(self) -> &'static str {
        match self {
            Self::Services => include_str!("../questions/services.sql"),
            Self::Functions => include_str!("../questions/functions.sql"),
            Self::Total => include_str!("../questions/total.sql"),
            Self::Hosts => include_str!("../questions/hosts.sql"),
            Self::Hours => include_str!("../questions/hours.sql"),
            Self::Diff => include_str!("../questions/diff.sql"),
            Self::Sides => include_str!("../questions/sides.sql"),
            Self::Stacks => include_str!("../questions/stacks.sql"),
            Self::Agents => include_str!("../questions/agents.sql"),
            Self::Waits => include_str!("../questions/waits.sql"),
            Self::Metrics => include_str!("../questions/metrics.sql"),
            Self::Events => include_str!("../questions/events.sql"),
            Self::Counts => include_str!("../questions/counts.sql"),
            Self::CountEvents => include_str!("../questions/count-events.sql"),
            Self::Locality => include_str!("../questions/locality.sql"),
            Self::Runs => include_str!("../questions/runs.sql"),
        }
    }

    /// Whether it compares two sides.
    #[must_use]
    pub fn has_sides(self) -> bool {
        matches!(self, Self::Diff | Self::Sides)
    }

    /// Whether a column of its rows may be missing, which is an empty text until the rows are shown.
    fn may_lack(self, by: ShareBy) -> bool {
        match by {
            ShareBy::Version | ShareBy::Unit | ShareBy::Container | ShareBy::Pod => true,
            ShareBy::Arm | ShareBy::CpuModel | ShareBy::Arch | ShareBy::Kernel => true,
            ShareBy::Service => matches!(self, Self::Metrics | Self::Runs),
            ShareBy::Function => matches!(self, Self::Metrics | Self::Waits),
            ShareBy::Module => self == Self::Waits,
            ShareBy::Wait | ShareBy::State | ShareBy::Benchmark | ShareBy::Host => false,
        }
    }

    /// Its SQL: rows by these columns, this many of them at most.
    #[must_use]
    pub fn sql(self, by: &[ShareBy], limit: u64) -> String {
        let all: Vec<&str> = by.iter().map(|one| one.column()).collect();
        // Sums are by host in any case, so that answers can have intervals over hosts.
        let and_host = if by.contains(&ShareBy::Host) { "" } else { ", host" };
        let of_samples = by.iter().filter(|one| !one.is_of_stacks());
        let columns: String = of_samples.map(|one| format!("{}, ", one.column())).collect();
        let of_stacks = by.iter().filter(|one| one.is_of_stacks());
        let of_stacks: String = of_stacks.map(|one| format!(", {}", one.column())).collect();
        let shown = |one: &ShareBy| match (self.may_lack(*one), one.column()) {
            (true, column) => format!("nullif({column}, '') AS {column}"),
            (false, column) => column.to_owned(),
        };
        let shown: Vec<String> = by.iter().map(shown).collect();
        // Engines differ in where they put missing values.
        let order = |one: &ShareBy| match (self.may_lack(*one), one.column()) {
            (true, column) => format!("{column} NULLS FIRST"),
            (false, column) => column.to_owned(),
        };
        let order: Vec<String> = by.iter().map(order).collect();
        self.template()
            .trim_end()
            .replace("{by}", &all.join(", "))
            .replace("{shown}", &shown.join(", "))
            .replace("{order}", &order.join(", "))
            .replace("{and_host}", and_host)
            .replace("{columns}", &columns)
            .replace("{of_stacks}", &of_stacks)
            .replace("{limit}", &limit.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_a_question_is_filled() {
        for (name, question) in NamedQuestion::ALL {
            let sql = question.sql(&[ShareBy::Service, ShareBy::Function], 20);
            assert!(!sql.contains(['{', '}', ';']), "{name}: {sql}");
            assert!(sql.starts_with("-- "), "{name} says what it answers");
        }
    }

    #[test]
    fn sums_are_by_host_once() {
        let with = |by: &[ShareBy]| NamedQuestion::Services.sql(by, 5);
        let sql = with(&[ShareBy::Service]);
        assert!(sql.contains("SELECT service, host, weight"), "{sql}");
        let sql = with(&[ShareBy::Host, ShareBy::Service]);
        assert!(sql.contains("SELECT host, service, weight"), "{sql}");
        assert!(sql.contains("USING (host, service)"), "{sql}");
    }

    #[test]
    fn functions_are_of_stacks_and_the_rest_is_of_samples() {
        let sql = NamedQuestion::Functions.sql(&[ShareBy::Service, ShareBy::Function], 5);
        assert!(sql.contains("SELECT service, stack_id, sum(weight)"), "{sql}");
        assert!(sql.contains("SELECT service, function, host, sum(weight)"), "{sql}");
        let sql = NamedQuestion::Functions.sql(&[ShareBy::Function, ShareBy::Module], 5);
        assert!(sql.contains("SELECT stack_id, sum(weight)"), "{sql}");
    }
}
