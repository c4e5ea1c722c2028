//! Cgroups that perf events can be limited to: where they are, and one of our own for a while.
//!
//! The controller perf_event has a hierarchy of its own where cgroup v1 mounts it; else it is part of
//! the unified one, in every cgroup, without being switched on (`man 7 cgroups`;
//! `kernel/events/core.c: perf_event_cgrp_subsys`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::read::Machine;
use crate::{CpuSet, MachineError};

const CONTROLLER: &str = "perf_event";

impl Machine {
    /// Where the hierarchy of cgroups is mounted that perf events know; `None` if nowhere.
    /// Reads `/proc/self/mounts`.
    #[must_use]
    pub fn perf_cgroup_mount(&self) -> Option<PathBuf> {
        self.hierarchy().map(|hierarchy| hierarchy.mount(self))
    }

    /// The folder of a cgroup, opened: by its path below [`Machine::perf_cgroup_mount`], or from the root.
    ///
    /// # Errors
    /// [`MachineError::Cgroup`], as where there is no such folder.
    pub fn open_cgroup(&self, path: &str) -> Result<OwnedFd, MachineError> {
        let opened = fs::File::open(self.cgroup_folder(path)).and_then(|file| {
            let is_folder = file.metadata()?.is_dir();
            is_folder.then(|| file.into()).ok_or_else(|| io::ErrorKind::NotADirectory.into())
        });
        opened.map_err(|source| MachineError::Cgroup { path: path.to_owned(), source })
    }

    /// Processes of a cgroup and of those below it, ascending; those of other pid namespaces are left out. The
    /// path is as for [`Machine::open_cgroup`].
    ///
    /// # Errors
    /// [`MachineError::Cgroup`], as where there is no such folder.
    pub fn cgroup_processes(&self, path: &str) -> Result<Vec<u32>, MachineError> {
        let mut pids = Vec::new();
        add_processes(&self.cgroup_folder(path), &mut pids)
            .map_err(|source| MachineError::Cgroup { path: path.to_owned(), source })?;
        pids.sort_unstable();
        pids.dedup();
        Ok(pids)
    }

    fn cgroup_folder(&self, path: &str) -> PathBuf {
        let below = path.trim_start_matches('/');
        let mount = self.perf_cgroup_mount().unwrap_or_else(|| self.root().join("sys/fs/cgroup"));
        let from_root = self.root().join(below);
        if path.starts_with('/') && from_root.starts_with(&mount) {
            from_root
        } else {
            mount.join(below)
        }
    }

    /// The same as this machine names it, whatever root it is looked at from.
    pub(crate) fn event_cgroups(&self) -> Option<PathBuf> {
        self.hierarchy().map(|hierarchy| hierarchy.place)
    }

    fn hierarchy(&self) -> Option<Hierarchy> {
        let mounts = fs::read(self.path("proc/self/mounts")).ok()?;
        let all: Vec<Hierarchy> =
            mounts.split(|&byte| byte == b'\n').filter_map(Hierarchy::mounted).collect();
        let own = all.iter().find(|hierarchy| !hierarchy.unified);
        own.or_else(|| all.iter().find(|hierarchy| hierarchy.unified)).cloned()
    }

    /// The cgroup that holds these processes and no other, not even in one below it; `None` where they
    /// have none of their own. Reads `/proc/PID/cgroup` and `cgroup.procs`.
    #[must_use]
    pub fn cgroup_of_only(&self, pids: &[u32]) -> Option<PathBuf> {
        let hierarchy = self.hierarchy()?;
        let place = |pid: &u32| self.cgroup_of(&pid.to_string(), hierarchy.unified);
        let (first, others) = pids.split_first()?;
        let below = place(first).filter(|path| !path.as_os_str().is_empty())?;
        if others.iter().any(|pid| place(pid).as_ref() != Some(&below)) {
            return None;
        }
        let directory = hierarchy.mount(self).join(below);
        holds_only(&directory, pids)?.then_some(directory)
    }

    /// Path of a process's cgroup in the unified hierarchy (cgroup v2), such as `/system.slice/redis.service`; `None`
    /// if the process has ended or there is no such hierarchy. Reads `/proc/PID/cgroup`.
    #[must_use]
    pub fn cgroup_path(&self, pid: u32) -> Option<String> {
        let below_root = self.cgroup_of(&pid.to_string(), true)?;
        Some(Path::new("/").join(below_root).to_string_lossy().into_owned())
    }

    /// CPU time that the processes of a cgroup of the unified hierarchy, and of those below it, have used so far, microseconds;
    /// `None` if it is not there, or there is no such hierarchy. `path` is as of [`Machine::cgroup_path`]. Reads `cpu.stat`,
    /// which every cgroup has, whatever its controllers (`cgroup_base_stat_cputime_show` in the kernel's
    /// `kernel/cgroup/rstat.c`).
    #[must_use]
    pub fn cgroup_cpu_us(&self, path: &str) -> Option<u64> {
        let mounts = fs::read(self.path("proc/self/mounts")).ok()?;
        let mut all = mounts.split(|&byte| byte == b'\n').filter_map(Hierarchy::mounted);
        let unified = all.find(|hierarchy| hierarchy.unified)?;
        let folder = unified.mount(self).join(path.trim_start_matches('/'));
        let stat = fs::read_to_string(folder.join("cpu.stat")).ok()?;
        stat.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok())
    }

    /// CPUs that a process could be let run on, by its cpuset: `cpuset.cpus.effective` of its cgroup, or of the next
    /// above that has the controller. `None` where none has, and with cgroup v1: it may run anywhere then, as
    /// far as this tells.
    #[must_use]
    pub fn cpuset_of(&self, pid: u32) -> Option<CpuSet> {
        let hierarchy = self.hierarchy().filter(|hierarchy| hierarchy.unified)?;
        let mount = hierarchy.mount(self);
        let below = self.cgroup_of(&pid.to_string(), true)?;
        let mut folders = below.ancestors().map(|folder| mount.join(folder));
        folders.find_map(|folder| {
            let list = fs::read_to_string(folder.join("cpuset.cpus.effective")).ok()?;
            CpuSet::parse(&list).ok().filter(|cpus| !cpus.is_empty())
        })
    }

    /// The cgroup this process is in, below [`Machine::perf_cgroup_mount`].
    fn own_cgroup(&self, unified: bool) -> Option<PathBuf> {
        self.cgroup_of("self", unified)
    }

    /// The cgroup a process is in, by its folder in `/proc`.
    fn cgroup_of(&self, process: &str, unified: bool) -> Option<PathBuf> {
        let lines = fs::read(self.path("proc").join(process).join("cgroup")).ok()?;
        lines.split(|&byte| byte == b'\n').find_map(|line| {
            let mut fields = line.splitn(3, |&byte| byte == b':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let mut controllers = controllers.split(|&byte| byte == b',');
            let wanted = if unified { "" } else { CONTROLLER };
            let is_it = controllers.any(|one| one == wanted.as_bytes());
            is_it.then(|| Path::new(OsStr::from_bytes(path)).components().skip(1).collect())
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    /// Where it is mounted, from the root.
    place: PathBuf,
    unified: bool,
}

impl Hierarchy {
    /// A line of `/proc/self/mounts`, if it is such a hierarchy.
    fn mounted(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        let mut options = options.split(|&byte| byte == b',');
        let unified = match kind {
            b"cgroup2" => true,
            b"cgroup" if options.any(|it| it == CONTROLLER.as_bytes()) => false,
            _ => return None,
        };
        Some(Self { place: unescape(place).into(), unified })
    }

    fn mount(&self, machine: &Machine) -> PathBuf {
        machine.path(self.place.strip_prefix("/").unwrap_or(&self.place))
    }
}

/// Blanks and the like are octal in `/proc/self/mounts`: `\040`.
fn unescape(text: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        rest = match code.filter(|_| byte == b'\\') {
            Some(code) => {
                out.push(code);
                &after[3..]
            }
            None => {
                out.push(byte);
                after
            }
        };
    }
    OsString::from_vec(out)
}

fn add_processes(cgroup: &Path, pids: &mut Vec<u32>) -> io::Result<()> {
    let members = fs::read_to_string(cgroup.join("cgroup.procs"))?;
    let members = members.lines().filter_map(|line| line.parse::<u32>().ok());
    pids.extend(members.filter(|pid| *pid > 0));
    for entry in fs::read_dir(cgroup)?.flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            // One that went since has nobody in it.
            let _ = add_processes(&entry.path(), pids);
        }
    }
    Ok(())
}

/// Whether all processes of a cgroup, and of those below it, are among `pids`; `None` if that cannot be
/// read.
fn holds_only(cgroup: &Path, pids: &[u32]) -> Option<bool> {
    let members = fs::read_to_string(cgroup.join("cgroup.procs")).ok()?;
    // A process of another namespace has the number 0.
    let is_known = |line: &str| line.parse().is_ok_and(|pid| pids.contains(&pid));
    if !members.lines().all(is_known) {
        return Some(false);
    }
    for entry in fs::read_dir(cgroup).ok()?.flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) && !holds_only(&entry.path(), pids)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Switches a controller on below a root of the unified hierarchy that has none on: until then perf
/// events know no cgroup there (`ENOENT`, seen on Linux 6.1). Which one it was.
fn switch_on_any(cgroup: &Path) -> Option<String> {
    let is_root = !cgroup.join("cgroup.type").exists();
    let on = cgroup.join("cgroup.subtree_control");
    if !is_root || !fs::read_to_string(&on).ok()?.trim().is_empty() {
        return None;
    }
    let there = fs::read_to_string(cgroup.join("cgroup.controllers")).ok()?;
    let cheapest = there.split_whitespace().find(|one| *one == "pids");
    let controller = cheapest.or_else(|| there.split_whitespace().next())?.to_owned();
    fs::write(on, format!("+{controller}")).ok()?;
    Some(controller)
}

/// A cgroup below the one of this process, so that its limits go on to hold. It goes when this value
/// goes; who is still in it then moves up.
#[derive(Debug)]
pub struct OwnCgroup {
    directory: PathBuf,
    /// The controller that was switched on for it in the root.
    switched_on: Option<String>,
}

impl OwnCgroup {
    /// Makes one.
    ///
    /// # Errors
    /// The place it was to be made at and the system's refusal; [`io::ErrorKind::Unsupported`] where no
    /// hierarchy is mounted.
    pub fn new(machine: &Machine) -> Result<Self, (PathBuf, io::Error)> {
        let none = || (PathBuf::from("/sys/fs/cgroup"), io::ErrorKind::Unsupported.into());
        let hierarchy = machine.hierarchy().ok_or_else(none)?;
        let below = machine.own_cgroup(hierarchy.unified).ok_or_else(none)?;
        Self::below(&hierarchy.mount(machine).join(below))
    }

    /// Makes one below the cgroup in this directory.
    ///
    /// # Errors
    /// The place it was to be made at and the system's refusal.
    pub fn below(cgroup: &Path) -> Result<Self, (PathBuf, io::Error)> {
        let directory = cgroup.join(format!("pmuscope-{}", std::process::id()));
        // One that a killed process of the same number left behind is empty, or another's.
        let _ = fs::remove_dir(&directory);
        let switched_on = switch_on_any(cgroup);
        match fs::create_dir(&directory) {
            Ok(()) => Ok(Self { directory, switched_on }),
            Err(error) => Err((directory, error)),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Moves a process into it.
    ///
    /// # Errors
    /// Those of writing `cgroup.procs`.
    pub fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), pid.to_string())
    }

    /// Moves who is in it to the cgroup above.
    fn empty(&self) -> io::Result<()> {
        let Some(parent) = self.directory.parent() else { return Ok(()) };
        for pid in fs::read_to_string(self.directory.join("cgroup.procs"))?.lines() {
            // One that has ended meanwhile needs no move.
            let _ = fs::write(parent.join("cgroup.procs"), pid);
        }
        Ok(())
    }
}

impl Drop for OwnCgroup {
    fn drop(&mut self) {
        // Who forks while we move leaves a child behind.
        for _ in 0..10 {
            let _ = self.empty();
            if fs::remove_dir(&self.directory).is_ok() {
                if let (Some(controller), Some(root)) = (&self.switched_on, self.directory.parent())
                {
                    // Another one may need it by now: then it stays.
                    let _ =
                        fs::write(root.join("cgroup.subtree_control"), format!("-{controller}"));
                }
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(mounts: &str, cgroup: &str) -> (tempfile::TempDir, Machine) {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("proc/self");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("mounts"), mounts).unwrap();
        fs::write(own.join("cgroup"), cgroup).unwrap();
        let machine = Machine::at(root.path());
        (root, machine)
    }

    const UNIFIED: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
    const MIXED: &str = "\
        tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    const V1: &str = "\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
        cgroup /sys/fs/cgroup/perf\\040event cgroup rw,perf_event 0 0\n";

    #[test]
    fn the_controllers_own_hierarchy_comes_first() {
        for (mounts, place) in
            [(UNIFIED, "cgroup"), (MIXED, "cgroup/unified"), (V1, "cgroup/perf event")]
        {
            let (root, machine) = machine(mounts, "");
            let expected = root.path().join("sys/fs").join(place);
            assert_eq!(machine.perf_cgroup_mount(), Some(expected));
        }
        assert_eq!(machine("tmpfs /tmp tmpfs rw 0 0\n", "").1.perf_cgroup_mount(), None);
    }

    #[test]
    fn a_cgroup_is_known_by_its_path_below_the_mount_and_from_the_root() {
        let (root, machine) = machine(UNIFIED, "");
        let folder = root.path().join("sys/fs/cgroup/system.slice/nginx.service");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        for path in ["system.slice/nginx.service", "/sys/fs/cgroup/system.slice/nginx.service"] {
            assert_eq!(machine.cgroup_folder(path), folder);
            machine.open_cgroup(path).unwrap();
        }
        let error = |path: &str| match machine.open_cgroup(path).unwrap_err() {
            MachineError::Cgroup { source, .. } => source.kind(),
            other => panic!("{other}"),
        };
        assert_eq!(error("system.slice/none"), io::ErrorKind::NotFound);
        assert_eq!(error("system.slice/nginx.service/cgroup.procs"), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn cpu_time_is_that_of_the_unified_hierarchy() {
        let (root, machine) = machine(MIXED, "");
        let folder = root.path().join("sys/fs/cgroup/unified/system.slice/nginx.service");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cpu.stat"), "usage_usec 1234\nuser_usec 1000\n").unwrap();
        assert_eq!(machine.cgroup_cpu_us("/system.slice/nginx.service"), Some(1234));
        assert_eq!(machine.cgroup_cpu_us("/system.slice/other.service"), None);
    }

    #[test]
    fn it_is_made_below_our_own_and_goes_with_its_members_moved_up() {
        let (root, machine) = machine(UNIFIED, "0::/user.slice/a\n");
        let ours = root.path().join("sys/fs/cgroup/user.slice/a");
        fs::create_dir_all(&ours).unwrap();
        let cgroup = OwnCgroup::new(&machine).unwrap();
        assert_eq!(cgroup.directory().parent(), Some(ours.as_path()));
        cgroup.add(4711).unwrap();
        assert_eq!(fs::read_to_string(cgroup.directory().join("cgroup.procs")).unwrap(), "4711");
        cgroup.empty().unwrap();
        assert_eq!(fs::read_to_string(ours.join("cgroup.procs")).unwrap(), "4711");
        // In a real one the file goes with the folder.
        fs::remove_file(cgroup.directory().join("cgroup.procs")).unwrap();
        let directory = cgroup.directory().to_owned();
        drop(cgroup);
        assert!(!directory.exists());
    }

    #[test]
    fn the_line_of_the_controller_tells_where_we_are() {
        let (_root, machine) = machine(V1, "4:cpu,perf_event:/x\n0::/y\n");
        assert_eq!(machine.own_cgroup(false), Some("x".into()));
        assert_eq!(machine.own_cgroup(true), Some("y".into()));
    }

    #[test]
    fn processes_have_a_cgroup_of_their_own_where_it_holds_nobody_else() {
        let (root, machine) = machine(UNIFIED, "");
        let put = |group: &str, pids: &[u32]| {
            let directory = root.path().join("sys/fs/cgroup").join(group);
            fs::create_dir_all(&directory).unwrap();
            let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
            fs::write(directory.join("cgroup.procs"), text).unwrap();
            for pid in pids {
                let process = root.path().join("proc").join(pid.to_string());
                fs::create_dir_all(&process).unwrap();
                fs::write(process.join("cgroup"), format!("0::/{group}\n")).unwrap();
            }
            directory
        };
        put("", &[1]);
        let (alone, _) = (put("a/alone", &[11]), put("shared", &[21, 22]));
        let parent = put("parent", &[31]);
        let below = put("parent/below", &[32]);
        assert_eq!(machine.cgroup_of_only(&[11]), Some(alone));
        assert_eq!(machine.cgroup_of_only(&[21]), None);
        assert_eq!(
            machine.cgroup_of_only(&[21, 22]),
            Some(root.path().join("sys/fs/cgroup/shared"))
        );
        assert_eq!(machine.cgroup_of_only(&[11, 21]), None, "two cgroups");
        assert_eq!(machine.cgroup_of_only(&[31]), None, "its cgroup counts those below too");
        assert_eq!(machine.cgroup_of_only(&[32]), Some(below.clone()));
        assert_eq!(machine.cgroup_of_only(&[1]), None, "the root is everybody's");
        assert_eq!(machine.cgroup_of_only(&[99]), None, "no such process");
        assert_eq!(machine.cgroup_of_only(&[]), None);
        fs::write(below.join("cgroup.procs"), "").unwrap();
        assert_eq!(machine.cgroup_of_only(&[31]), Some(parent));
    }

    #[test]
    fn a_root_without_controllers_gets_one_and_others_are_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        let on = || fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(switch_on_any(root.path()), None, "not the unified hierarchy");
        write("cgroup.controllers", "cpu io pids\n");
        write("cgroup.subtree_control", "cpu\n");
        assert_eq!(switch_on_any(root.path()), None);
        write("cgroup.subtree_control", "\n");
        assert_eq!((switch_on_any(root.path()).as_deref(), &on()[..]), (Some("pids"), "+pids"));
        write("cgroup.subtree_control", "\n");
        write("cgroup.type", "domain\n");
        assert_eq!(switch_on_any(root.path()), None, "not the root");
    }
}
