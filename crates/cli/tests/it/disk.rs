//! Where the disk or the allowance is full: the recording ends, says what is missing, and what is in
//! the file is what the file says.

use std::path::PathBuf;
use std::process::Command;

use crate::actor;
use crate::harness::{Outcome, Scratch, Started, need_full, skip_unless};
use crate::recording::{Recording, need_root_clock, rate};

/// A file system of so many KiB below a scratch folder, unmounted at its end.
struct SmallDisk {
    scratch: Scratch,
}

impl SmallDisk {
    /// Or why not.
    fn new(kib: u32) -> Result<Self, String> {
        let scratch = Scratch::new();
        let size = format!("size={kib}k");
        let mounted = Outcome::of(
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(scratch.path("")),
        );
        match mounted.code() {
            0 => Ok(Self { scratch }),
            _ => Err(format!("cannot mount: {}", mounted.stderr.trim())),
        }
    }

    fn path(&self) -> PathBuf {
        self.scratch.path("x.data")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What uses it has ended; were it not so, the folder would stay, which the caller sees.
        let _ = Command::new("umount").arg(self.scratch.path("")).status();
    }
}

/// Records a spinning process onto a disk with room for the description of this machine and
/// `room_kib` KiB, until it is full.
#[track_caller]
fn fill(room_kib: u32, write: &[&str]) {
    let disk = match SmallDisk::new(described_kib() + room_kib) {
        Ok(disk) => disk,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let path = disk.path();
    let said = record_until_full(path.to_str().unwrap(), write);
    said.exits(1).complains("ENOSPC (No space left on device)");
    said.complains("all later ones, are missing");
    let recording = Recording::at(path.clone());
    let samples = recording.everyone_reads(samples_by(&said));
    assert!(samples > 0, "{said}");
    // The last bytes of the disk may be too few for the description of the recording.
    match recording.try_info() {
        Some(info) => {
            assert!(info.ended_by.unwrap().contains("No space left"), "{said}");
            let report = disk.scratch.pmuscope(["report", "-i", path.to_str().unwrap()]);
            report.exits(1).prints("warning: the recording stopped early").prints("are missing");
        }
        None => drop(said.complains("cannot write the end of")),
    }
}

/// KiB that a recording without samples takes: what runs on this machine, and its files.
fn described_kib() -> u32 {
    let scratch = Scratch::new();
    let path = scratch.path("described.data");
    let args =
        ["record", "-a", "-e", "cpu-clock", "-F", "1", "-o", path.to_str().unwrap(), "--", "true"];
    scratch.pmuscope(args).exits(0);
    u32::try_from(path.metadata().unwrap().len().div_ceil(1024)).unwrap()
}

/// The number of samples that the summary tells.
#[track_caller]
fn samples_by(said: &Outcome) -> u64 {
    let (before, _) = said.stderr.lines().last().unwrap().split_once(" samples, ").unwrap();
    before.replace(',', "").parse().unwrap()
}

#[test]
fn a_full_disk() {
    skip_unless!(need_root_clock());
    fill(500, &[]);
}

#[test]
fn a_full_disk_compressed_and_asynchronously() {
    skip_unless!(need_root_clock());
    fill(120, &["-z", "--aio"]);
}

#[test]
fn full_a_disk_of_any_size() {
    skip_unless!(need_full());
    skip_unless!(need_root_clock());
    // What a reader takes from a ring is written whole or not at all: the smallest disk has room for one
    // such piece, up to a third of a second of a CPU (370 KiB), or, compressed, of two CPUs (90 KiB).
    for (write, rooms) in [
        (&[][..], [400, 550, 850]),
        (&["--aio"], [400, 550, 850]),
        (&["-z"], [100, 150, 250]),
        (&["-z", "--aio"], [100, 150, 250]),
    ] {
        for room in rooms {
            eprintln!("{room} KiB {write:?}");
            fill(room, write);
        }
    }
}

/// Not even the description of the machine fits: nothing was recorded, and what was there stays.
/// What passes for a recording of this size: another file would stay for that reason.
fn recording(bytes: usize) -> Vec<u8> {
    let mut content = b"PERFILE2".to_vec();
    content.resize(bytes, 7);
    content
}

#[test]
fn a_disk_without_any_room() {
    skip_unless!(need_root_clock());
    let disk = match SmallDisk::new(16) {
        Ok(disk) => disk,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    std::fs::write(disk.path(), recording(16 << 10)).unwrap();
    let path = disk.path();
    let args = ["record", "-a", "-e", "cpu-clock", "-o", path.to_str().unwrap(), "--", "true"];
    let refused = Scratch::new().pmuscope(args);
    refused.exits(2).complains("cannot create").complains("No space left on device");
    assert_eq!(std::fs::read(&path).unwrap(), recording(16 << 10));
}

/// The recording ends when the file is as large as it may be, and that is what was asked for.
#[test]
fn a_largest_size() {
    skip_unless!(need_root_clock());
    for (write, most) in [(&[][..], "300K"), (&["-z", "--aio"], "100K")] {
        let scratch = Scratch::new();
        let path = scratch.path("x.data");
        let flags = [write, &["--max-size", most]].concat();
        let said = record_until_full(path.to_str().unwrap(), &flags);
        said.exits(0).complains("(--max-size)");
        let info = Recording::at(path).everyone_agrees();
        assert!(info.samples() > 0 && info.cost.bytes <= 300 << 10, "{said}");
        assert!(info.ended_by.unwrap().contains("--max-size"), "{said}");
    }
}

/// The whole machine, one of whose CPUs at least is busy for longer than any disk here lasts. (Not that
/// process alone: on Linux 6.18 the clock of a process that is attached to now and then stops after a
/// few samples, for stock perf as well.)
#[track_caller]
fn record_until_full(path: &str, flags: &[&str]) -> Outcome {
    let _actor = Started::of(&mut actor::command("spin 60000"));
    let hz = rate(20_000);
    let args = ["record", "-e", "cpu-clock", "-F", &hz, "-o", path, "-a"];
    Scratch::new().pmuscope([&args, flags].concat())
}
