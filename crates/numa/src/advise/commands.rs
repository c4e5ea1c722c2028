//! What to type to try an advice.

use super::evidence::Evidence;
use super::judge::{Lack, Verdict};

/// A command to try.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Suggestion {
    /// What to type; CMD stands for how the process is started.
    pub type_this: String,
    /// What it does.
    pub does: String,
}

/// Commands that carry out a verdict on a process, now and from its next start on; those of programs that are not
/// `installed` say so.
#[must_use]
pub fn commands(
    verdict: &Verdict,
    evidence: &Evidence,
    pid: u32,
    installed: &dyn Fn(&str) -> bool,
) -> Vec<Suggestion> {
    let list = List { evidence, pid, installed, commands: Vec::new() };
    match verdict {
        Verdict::Compact { node, threads, pages } => list.bring_to(*node, *threads, *pages),
        Verdict::SpreadProcess { to, .. } => list.bring_to(*to, true, true),
        Verdict::SpreadThreads { nodes } => list.spread(nodes),
        Verdict::Interleave { nodes } => list.interleave(nodes),
        Verdict::LeaveAlone => Vec::new(),
        Verdict::Unknown { lacks } => list.learn_more(lacks),
    }
}

struct List<'a> {
    evidence: &'a Evidence,
    pid: u32,
    installed: &'a dyn Fn(&str) -> bool,
    commands: Vec<Suggestion>,
}

impl List<'_> {
    fn add(&mut self, type_this: String, does: &str) {
        let program = type_this.trim_start_matches("sudo ").split(' ').next().unwrap_or_default();
        let package = match program {
            "numactl" | "migratepages" => "numactl",
            "taskset" => "util-linux",
            _ => "",
        };
        let does = match package.is_empty() || (self.installed)(program) {
            true => does.to_owned(),
            false => format!("{does} ({program} is not installed: package {package})"),
        };
        self.commands.push(Suggestion { type_this, does });
    }

    fn balance(&mut self) {
        self.add(
            format!("pmuscope numa balance -p {} --dry-run", self.pid),
            "shows what pmuscope would move, without moving it",
        );
    }

    fn cpus(&self, nodes: &[u32]) -> String {
        let wanted = self.evidence.nodes.iter().filter(|node| nodes.contains(&node.id));
        let lists: Vec<&str> = wanted.map(|node| node.cpu_list.as_str()).collect();
        lists.join(",")
    }

    fn bring_to(mut self, node: u32, threads: bool, pages: bool) -> Vec<Suggestion> {
        let pid = self.pid;
        // It would undo what pinned them; balance moves threads within the affinity of each.
        if threads && !self.evidence.pinned_apart {
            let cpus = self.cpus(&[node]);
            self.add(format!("taskset -apc {cpus} {pid}"), "moves all its threads to that node");
        }
        if pages {
            let elsewhere =
                self.evidence.nodes.iter().filter(|n| n.id != node && n.own_bytes > 0.0);
            let from = joined(&elsewhere.map(|node| node.id).collect::<Vec<_>>());
            self.add(
                format!("migratepages {pid} {from} {node}"),
                "moves its pages to that node, all at once",
            );
        }
        self.balance();
        self.add(
            format!("numactl --cpunodebind={node} --preferred={node} CMD"),
            "does the same at the next start",
        );
        self.commands
    }

    fn spread(mut self, nodes: &[u32]) -> Vec<Suggestion> {
        if self.evidence.balancing == Some(false) {
            self.add(
                "sudo sysctl kernel.numa_balancing=1".to_owned(),
                "lets the kernel move pages to the threads that use them",
            );
        }
        self.balance();
        self.add(
            format!("numactl --localalloc --cpunodebind={} CMD", joined(nodes)),
            "allocates memory on the node of the thread that touches it first, at the next start",
        );
        self.commands
    }

    fn interleave(mut self, nodes: &[u32]) -> Vec<Suggestion> {
        self.balance();
        self.add(
            format!("numactl --interleave={} CMD", joined(nodes)),
            "places pages round-robin, at the next start",
        );
        self.commands
    }

    fn learn_more(mut self, lacks: &[Lack]) -> Vec<Suggestion> {
        if lacks.contains(&Lack::Sharing) {
            let pid = self.pid;
            self.add(
                format!("pmuscope numa advise -p {pid} --sharing shared"),
                "if you know that its threads share their memory; private if they do not",
            );
        }
        if lacks.contains(&Lack::Sharing) && self.evidence.balancing == Some(false) {
            self.add(
                "sudo sysctl kernel.numa_balancing=1".to_owned(),
                "turns on hint faults, by which the kernel samples memory accesses and moves pages",
            );
        }
        let seconds = (self.evidence.seconds * 6.0).ceil().max(30.0);
        let pid = self.pid;
        self.add(
            format!("pmuscope numa advise -p {pid} --seconds {seconds}"),
            "observes longer; best while it is busy",
        );
        self.commands
    }
}

fn joined(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::super::evidence::NodeEvidence;
    use super::*;

    fn typed(verdict: &Verdict, evidence: &Evidence) -> Vec<String> {
        let all = commands(verdict, evidence, 7, &|_| true);
        all.into_iter().map(|command| command.type_this).collect()
    }

    fn evidence() -> Evidence {
        let node = |id: u32, own_bytes| NodeEvidence {
            id,
            cpu_list: format!("{}-{}", 2 * id, 2 * id + 1),
            own_bytes,
            ..NodeEvidence::default()
        };
        Evidence {
            seconds: 5.0,
            nodes: vec![node(0, 10.0), node(1, 0.0), node(2, 5.0)],
            balancing: Some(true),
            ..Evidence::default()
        }
    }

    #[test]
    fn only_what_has_to_move_is_moved() {
        let compact = |threads, pages| {
            let verdict = Verdict::Compact { node: 2, threads, pages };
            let all = typed(&verdict, &evidence());
            all[..all.len() - 2].to_vec()
        };
        assert_eq!(compact(true, false), ["taskset -apc 4-5 7"]);
        assert_eq!(compact(false, true), ["migratepages 7 0 2"]);
        let away = typed(&Verdict::SpreadProcess { from: 0, to: 1 }, &evidence());
        assert_eq!(
            away,
            [
                "taskset -apc 2-3 7",
                "migratepages 7 0,2 1",
                "pmuscope numa balance -p 7 --dry-run",
                "numactl --cpunodebind=1 --preferred=1 CMD"
            ]
        );
        assert!(typed(&Verdict::LeaveAlone, &evidence()).is_empty());
    }

    #[test]
    fn threads_that_are_pinned_one_by_one_are_not_unpinned() {
        let pinned = Evidence { is_bound: true, pinned_apart: true, ..evidence() };
        let verdict = Verdict::Compact { node: 2, threads: true, pages: true };
        let all = typed(&verdict, &pinned);
        assert_eq!(all[..2], ["migratepages 7 0 2", "pmuscope numa balance -p 7 --dry-run"]);
    }

    #[test]
    fn settings_are_changed_only_where_they_are_otherwise() {
        let sysctl = "sudo sysctl kernel.numa_balancing=1".to_owned();
        let spread = Verdict::SpreadThreads { nodes: vec![0, 1] };
        assert!(!typed(&spread, &evidence()).contains(&sysctl));
        let off = Evidence { balancing: Some(false), is_bound: true, ..evidence() };
        let all = typed(&spread, &off);
        assert!(all.contains(&sysctl), "{all:?}");
        // Whatever bound it is not undone.
        assert!(!all.iter().any(|typed| typed.starts_with("taskset")), "{all:?}");
        let unknown = Verdict::Unknown { lacks: vec![Lack::Sharing] };
        assert_eq!(
            typed(&unknown, &off),
            [
                "pmuscope numa advise -p 7 --sharing shared".to_owned(),
                sysctl,
                "pmuscope numa advise -p 7 --seconds 30".to_owned()
            ]
        );
        let idle = Verdict::Unknown { lacks: vec![Lack::Work] };
        assert_eq!(typed(&idle, &off), ["pmuscope numa advise -p 7 --seconds 30"]);
    }

    #[test]
    fn what_is_not_installed_is_named_with_its_package() {
        let verdict = Verdict::Interleave { nodes: vec![0, 2] };
        let all = commands(&verdict, &evidence(), 7, &|program| program != "numactl");
        let last = all.last().unwrap();
        assert_eq!(last.type_this, "numactl --interleave=0,2 CMD");
        assert!(last.does.ends_with("(numactl is not installed: package numactl)"), "{last:?}");
    }
}
