//! A program and all that it starts.

use std::collections::BTreeMap;

use pmuscope_machine::{Machine, MachineError};

/// Processes that belong together: some to begin with, and what they start, and what that starts. A
/// process stays a member when its parent ends. Who looks is no member, nor what it starts, unless it is
/// among those to begin with: one that looks at its shell, or at all processes, does not measure itself.
#[derive(Debug, Clone)]
pub struct Family {
    /// By process id, when it started: tells reused ids apart.
    members: BTreeMap<u32, u64>,
    follow: bool,
}

impl Family {
    /// One of these processes, with all they start if `follow`.
    ///
    /// # Errors
    /// [`MachineError::Gone`] if one of them is not there.
    pub fn new(machine: &Machine, roots: &[u32], follow: bool) -> Result<Self, MachineError> {
        let member = |&pid: &u32| Ok((pid, machine.task(pid, pid)?.start));
        let members = roots.iter().map(member).collect::<Result<_, MachineError>>()?;
        Ok(Self { members, follow })
    }

    /// Those that run now, ascending. Started and ended between two calls is never seen.
    pub fn members(&mut self, machine: &Machine) -> Vec<u32> {
        self.members
            .retain(|&pid, start| machine.task(pid, pid).is_ok_and(|task| task.start == *start));
        if self.follow {
            let own = std::process::id();
            let mut open: Vec<u32> = self.members.keys().copied().collect();
            while let Some(pid) = open.pop() {
                for child in machine.children(pid).unwrap_or_default() {
                    if child == own {
                        continue;
                    }
                    let Ok(task) = machine.task(child, child) else { continue };
                    if self.members.insert(child, task.start).is_none() {
                        open.push(child);
                    }
                }
            }
        }
        self.members.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_is_no_member_nor_what_it_starts() {
        let machine = Machine::host();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        let members = Family::new(&machine, &[parent], true).unwrap().members(&machine);
        let asked = Family::new(&machine, &[own], true).unwrap().members(&machine);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(members.contains(&parent), "{members:?}");
        assert!(!members.contains(&own) && !members.contains(&child.id()), "{members:?}");
        assert!(asked.contains(&own) && asked.contains(&child.id()), "{asked:?}");
    }
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn grandchildren_belong_to_it_and_stay_when_their_parent_ends() {
        let machine = Machine::host();
        // Tells its child's number, and ends once its input does.
        let script = "sh -c 'sleep 60 & echo $!; read line'";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let sleeper: u32 = line.trim().parse().unwrap();
        let mut family = Family::new(&machine, &[child.id()], true).unwrap();
        assert!(family.members(&machine).contains(&sleeper));
        let mut alone = Family::new(&machine, &[child.id()], false).unwrap();
        assert_eq!(alone.members(&machine), [child.id()]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(family.members(&machine), [sleeper]);
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(sleeper.cast_signed()).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        assert!(Family::new(&machine, &[u32::MAX >> 1], true).unwrap_err().is_gone());
    }
}
