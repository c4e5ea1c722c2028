//! `browse` on a terminal: keys in, drawings out, commands run.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pmuscope_browse::{After, Browser, CommandJob, CommandOutput, RecordingFlags};
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::terminal::{print, style};
use pmuscope_profile::{GroupBy, Options, Profile, TasksBy, cpu_nodes};

use super::job::Running;
use super::rest::{self, DeferredReading, RestReading};
use crate::commands::empty;
use crate::commands::load::{LoadArgs, LoadRequest};
use crate::commands::screen::{OurTerminal, TerminalInput, refusal};
use crate::signals::Stop;

/// What is kept of a recording: who ran where, with callers, so that filters need not read it again.
const KEPT: LoadRequest = LoadRequest {
    apart: GroupBy { chains: true, tasks: TasksBy::Thread, cpus: true },
    options: Options::COUNTS,
    stacks: true,
    progress: true,
};

/// What is read of a large recording before that.
const FUNCTIONS: LoadRequest = LoadRequest {
    apart: GroupBy { chains: false, tasks: TasksBy::Command, cpus: false },
    stacks: false,
    ..KEPT
};

/// How often the file is looked at: whether it is still the one that was read.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Looks around in the recording at `path`.
pub(in crate::commands) fn show(path: &Path, load: &LoadArgs) -> anyhow::Result<Exit> {
    if let Some(what) = refusal() {
        let message = format!("browse needs a terminal, and {what}. Try: pmuscope report");
        return Err(bad_input(message));
    }
    let recording = load.symbols.open(path)?;
    if recording.is_stream() {
        let message = "browse reads the recording again for some views, which a stream does not allow. Try: save it to a file";
        return Err(bad_input(message));
    }
    let metadata = recording.file().and_then(|file| file.metadata().ok());
    let file = RecordedFile::new(path, metadata.as_ref());
    let mut symbolizer = load.symbols.symbolizer(!load.no_inline, &recording)?;
    let functions_first = rest::is_worth_it(&recording, load);
    let wanted = if functions_first { FUNCTIONS } else { KEPT };
    let profile = load.load(&recording, &mut symbolizer, wanted)?;
    if empty::explain(&profile, &recording)? {
        return Ok(Exit::Incomplete);
    }
    let nodes = cpu_nodes(&profile.metadata);
    let origin = origin(path, load, &profile);
    let mut browser = Browser::new(profile, origin, nodes, style());
    let mut later = None;
    if functions_first {
        browser = browser.of_functions_first();
        // Progress would be written over what is drawn.
        let wanted = LoadRequest { progress: false, ..KEPT };
        later = Some(DeferredReading { recording, symbolizer, load: load.clone(), wanted });
    }
    if let After::QuitWith(command) = draw(browser, later, file)? {
        print(&format!("{}\n", command.shell()))?;
    }
    Ok(Exit::Done)
}

/// The recording as commands are asked for it.
fn origin(path: &Path, load: &LoadArgs, profile: &Profile) -> RecordingFlags {
    RecordingFlags {
        file: path.display().to_string(),
        filters: load.filter.asked(),
        times: profile.filtered.iter().flat_map(|one| one.filter.times.iter().cloned()).collect(),
        by_name: load.symbol_filter.asked(),
        of_report: load.no_inline.then(|| "--no-inline".to_owned()).into_iter().collect(),
        symbols: load.symbols.flags(),
    }
}

/// Draws until the user leaves; how he did.
fn draw(
    mut browser: Browser,
    later: Option<DeferredReading>,
    mut file: RecordedFile,
) -> anyhow::Result<After> {
    let stop = Stop::new()?;
    let mut terminal = OurTerminal::take()?;
    let mut running: Option<Running> = None;
    terminal.draw(|frame| browser.draw(frame))?;
    let mut reading =
        later.map(DeferredReading::start).transpose().context("cannot read callers")?;
    loop {
        let mut changed = true;
        match terminal.next()? {
            TerminalInput::Key(key) => match browser.key(key) {
                After::GoOn => {}
                After::Run(job) => running = start(&mut browser, &job),
                After::Cancel => running = None,
                leaves => return Ok(leaves),
            },
            TerminalInput::Resized => {}
            TerminalInput::Gone => return Ok(After::Quit),
            TerminalInput::Nothing => changed = browser.rest(),
        }
        if let Some(outcome) = running.as_mut().and_then(Running::outcome) {
            browser.take(outcome.number, &outcome.output);
            (running, changed) = (None, true);
        }
        if let Some(whole) = reading.as_ref().and_then(RestReading::outcome) {
            browser.take_whole(whole.map_err(|error| format!("{error:#}")));
            (reading, changed) = (None, true);
        }
        if stop.asked() {
            return Ok(After::Quit);
        }
        if file.was_replaced() {
            browser.set_replaced();
            changed = true;
        }
        if changed {
            terminal.draw(|frame| browser.draw(frame))?;
        }
    }
}

/// Runs a command; one that cannot be started has failed.
fn start(browser: &mut Browser, job: &CommandJob) -> Option<Running> {
    match Running::start(job) {
        Ok(running) => Some(running),
        Err(error) => {
            let failure = Some(error.to_string());
            browser.take(job.number, &CommandOutput { failure, ..CommandOutput::default() });
            None
        }
    }
}

/// The file that was read.
struct RecordedFile {
    path: PathBuf,
    /// What it was when it was opened; `None` once it was found to be another.
    read: Option<FileIdentity>,
    next: Instant,
}

/// What differs between two files, or two states of one.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileIdentity {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

impl RecordedFile {
    fn new(path: &Path, metadata: Option<&Metadata>) -> Self {
        let read = metadata.map(FileIdentity::of);
        Self { path: path.to_path_buf(), read, next: Instant::now() + LOOK_EVERY }
    }

    /// Whether another file is in its place, or it has changed; true once.
    fn was_replaced(&mut self) -> bool {
        if self.read.is_none() || Instant::now() < self.next {
            return false;
        }
        self.next = Instant::now() + LOOK_EVERY;
        let now = std::fs::metadata(&self.path).ok();
        let is_other = now.as_ref().map(FileIdentity::of) != self.read;
        if is_other {
            self.read = None;
        }
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_in_its_place_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.data");
        std::fs::write(&path, "one").unwrap();
        let metadata = || std::fs::metadata(&path).ok();
        let mut file = RecordedFile::new(&path, metadata().as_ref());
        let mut look = || {
            file.next = Instant::now();
            file.was_replaced()
        };
        assert!(!look());
        let other = folder.path().join("other");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!([look(), look()], [true, false]);
        let mut file = RecordedFile::new(&path, metadata().as_ref());
        std::fs::remove_file(&path).unwrap();
        file.next = Instant::now();
        assert!(file.was_replaced());
    }
}
