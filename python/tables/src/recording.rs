//! A recording and what is made of it, once it is asked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmuscope_perfdata::reader::RecordingFile;
use pmuscope_profile::diff::INTERVALS;
use pmuscope_profile::{
    Collected, Counting, Detail, EventProfile, FileState, FilterRequest, GroupBy, Intervals,
    Options, Profile, Unwinding, available_threads, waits,
};
use pmuscope_symbols::{Bundle, Options as SymbolOptions, Sources, Symbolizer, user_cache};

use crate::error::TableError;
use crate::table::ArrowTable;
use crate::{functions, losses, samples, stacks};

/// How a recording is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadOptions {
    /// Functions that were inlined are functions; else they count as part of the function that holds their code.
    pub inlined: bool,
    /// Source lines are told apart.
    pub lines: bool,
    /// Folder below which files are looked for first.
    pub symfs: Option<PathBuf>,
    /// Which samples count.
    pub filter: FilterRequest,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { inlined: true, lines: true, symfs: None, filter: FilterRequest::default() }
    }
}

/// A recording.
#[derive(Debug)]
pub struct OpenRecording {
    file: Arc<RecordingFile>,
    options: ReadOptions,
    found: Mutex<ReadSoFar>,
}

/// What is read.
#[derive(Debug, Clone, Copy)]
struct LoadRequest {
    apart: GroupBy,
    options: Options,
    /// Samples one by one, too.
    with_samples: bool,
    /// Events that only views of waits show.
    with_waits: bool,
}

/// What was read already.
#[derive(Debug, Default)]
struct ReadSoFar {
    profile: Option<Arc<Profile>>,
    samples: Option<ArrowTable>,
    /// Functions of all events, or of one.
    functions: BTreeMap<Option<String>, ArrowTable>,
}

impl OpenRecording {
    /// Opens a recording. It is read when a table is asked for.
    ///
    /// # Errors
    /// It is not there, or is no recording.
    pub fn open(path: &Path, options: ReadOptions) -> Result<Self, TableError> {
        if let Some(folder) = options.symfs.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(TableError::NoSymfs(folder.clone()));
        }
        let file = Arc::new(RecordingFile::open(path)?);
        // What is no recording, or has not what a filter asks for, is refused now.
        let reader = file.reader()?;
        options.filter.filter(&file, reader.events(), reader.metadata())?;
        Ok(Self { file, options, found: Mutex::default() })
    }

    /// The same recording with fewer samples. It is read anew when a table is asked for.
    ///
    /// # Errors
    /// Both filters ask for the same thing, or the recording does not have what the filter asks for.
    pub fn narrowed(&self, more: &FilterRequest) -> Result<Self, TableError> {
        let filter = self.options.filter.and(more).map_err(TableError::FilteredTwice)?;
        let reader = self.file.reader()?;
        filter.filter(&self.file, reader.events(), reader.metadata())?;
        let options = ReadOptions { filter, ..self.options.clone() };
        Ok(Self { file: Arc::clone(&self.file), options, found: Mutex::default() })
    }

    /// What filters were given, as flags and their values.
    #[must_use]
    pub fn asked(&self) -> Vec<(&'static str, String)> {
        self.options.filter.asked()
    }

    /// How the file ends: one that is still written to is not closed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self) -> Result<FileState, TableError> {
        Ok(self.file.reader()?.state())
    }

    /// Path of the recording.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What all tables but that of samples are made of.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn profile(&self) -> Result<Arc<Profile>, TableError> {
        self.profile_of(&mut self.found())
    }

    fn profile_of(&self, found: &mut ReadSoFar) -> Result<Arc<Profile>, TableError> {
        if let Some(profile) = &found.profile {
            return Ok(Arc::clone(profile));
        }
        let profile = Arc::new(self.load(false)?);
        found.profile = Some(Arc::clone(&profile));
        Ok(profile)
    }

    /// Every sample, in the order of time. Where other tables were asked for before, the file is read once more for them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn samples(&self) -> Result<ArrowTable, TableError> {
        let mut found = self.found();
        if let Some(table) = &found.samples {
            return Ok(table.clone());
        }
        let again = match &found.profile {
            Some(before) => self.samples_like(before)?,
            None => None,
        };
        let is_first = again.is_none();
        let mut counted = match again {
            Some(counted) => counted,
            None => self.load(true)?,
        };
        let samples = counted.samples.take().unwrap_or_default();
        let table = samples::table(&counted, &samples, self.options.filter.is_by_name())?;
        if is_first {
            found.functions.clear();
            found.profile = Some(Arc::new(counted));
        }
        found.samples = Some(table.clone());
        Ok(table)
    }

    /// Samples, with the same numbers of stacks as a profile that other tables are made of. `None` where the file was written
    /// to meanwhile: then all tables are to be of what it is now.
    fn samples_like(&self, profile: &Profile) -> Result<Option<Profile>, TableError> {
        let counted = self.load(true)?;
        let (now, before) = (&counted.aggregate, &profile.aggregate);
        let is_same = now.stacks == before.stacks && now.frames == before.frames;
        Ok(is_same.then_some(counted))
    }

    /// Functions with their shares and confidence intervals; of all events, or of one.
    ///
    /// # Errors
    /// The file cannot be read, or has no samples of the event.
    pub fn functions(&self, event: Option<&str>) -> Result<ArrowTable, TableError> {
        let mut found = self.found();
        let key = event.map(str::to_owned);
        if let Some(table) = found.functions.get(&key) {
            return Ok(table.clone());
        }
        let profile = self.profile_of(&mut found)?;
        let events = self.events_of(&profile, event)?;
        let table = functions::table(&profile, &events, self.has_callers()?)?;
        found.functions.insert(key, table.clone());
        Ok(table)
    }

    /// Distinct call stacks with their samples; of all events, or of one.
    ///
    /// # Errors
    /// The file cannot be read, or has no samples of the event.
    pub fn stacks(&self, event: Option<&str>) -> Result<ArrowTable, TableError> {
        let profile = self.profile()?;
        Ok(stacks::stacks(&profile, &self.events_of(&profile, event)?)?)
    }

    /// The frames of these stacks, one a row.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn frames(&self) -> Result<ArrowTable, TableError> {
        Ok(stacks::frames(&*self.profile()?)?)
    }

    /// The events with samples.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn events(&self) -> Result<ArrowTable, TableError> {
        Ok(losses::events(&*self.profile()?)?)
    }

    /// CPUs that lost records or were throttled.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn losses(&self) -> Result<ArrowTable, TableError> {
        Ok(losses::losses(&*self.profile()?)?)
    }

    fn found(&self) -> MutexGuard<'_, ReadSoFar> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn events_of<'p>(
        &self,
        profile: &'p Profile,
        name: Option<&str>,
    ) -> Result<Vec<&'p EventProfile>, TableError> {
        let events = profile.events.iter();
        let Some(name) = name else { return Ok(events.collect()) };
        let base = |event: &EventProfile| event.name.rsplit_once(':').map(|(base, _)| base == name);
        let is_one = |event: &&EventProfile| event.name == name || base(event).unwrap_or(false);
        let wanted: Vec<&EventProfile> = events.filter(is_one).collect();
        if wanted.is_empty() {
            return Err(TableError::NoSuchEvent {
                file: self.path().display().to_string(),
                event: name.to_owned(),
                known: profile.events.iter().map(|event| event.name.clone()).collect(),
            });
        }
        Ok(wanted)
    }

    /// Whether callers were recorded.
    fn has_callers(&self) -> Result<bool, TableError> {
        let reader = self.file.reader()?;
        Ok(reader.events().iter().any(|event| event.has_chains() || event.has_stacks()))
    }

    /// Reads the recording; also its samples one by one.
    fn load(&self, with_samples: bool) -> Result<Profile, TableError> {
        let detail = if self.options.lines { Detail::Line } else { Detail::Function };
        // Functions are made of the counts when somebody asks for them.
        let options = Options { detail, ..Options::COUNTS };
        let apart = GroupBy { chains: true, ..GroupBy::default() };
        self.read(LoadRequest { apart, options, with_samples, with_waits: true })
    }

    /// Functions with what comparisons take.
    pub(crate) fn functions_to_compare(&self) -> Result<Profile, TableError> {
        let options = Options { intervals: Intervals::Largest(INTERVALS), ..Options::default() };
        let chains = !self.options.filter.focus.is_empty();
        let apart = GroupBy { chains, ..GroupBy::default() };
        self.read(LoadRequest { apart, options, with_samples: false, with_waits: false })
    }

    fn read(&self, wanted: LoadRequest) -> Result<Profile, TableError> {
        let mut reader = self.file.reader()?;
        let mut symbolizer = self.symbolizer();
        let running = symbolizer.running_kernel();
        let mut filter =
            self.options.filter.filter(&self.file, reader.events(), reader.metadata())?;
        if !wanted.with_waits {
            waits::leave_out(&mut filter, &reader);
        }
        let counting = Counting { apart: wanted.apart, filter, code_by_time: true };
        let collected = {
            let unwinder = symbolizer.unwinder();
            let unwinding = Some(Unwinding { unwinder: &unwinder, running: &running });
            let threads = available_threads();
            if wanted.with_samples {
                Collected::read_samples(&mut reader, counting, threads, unwinding)?
            } else {
                Collected::read(&mut reader, counting, threads, unwinding)?
            }
        };
        for (pid, dump) in collected.jit_dumps() {
            symbolizer.add_jit_dump(*pid, dump.clone());
        }
        Ok(collected.profile(&reader, &running, wanted.options, &mut |requests| {
            symbolizer.resolve_all(requests)
        })?)
    }

    /// Names by what is on this machine; those of a bundle come first.
    fn symbolizer(&self) -> Symbolizer {
        let ReadOptions { inlined, ref symfs, .. } = self.options;
        let sources = Sources { symfs: symfs.clone(), cache: user_cache(), ..Sources::default() };
        let mut symbolizer = Symbolizer::with_sources(SymbolOptions { inlined }, sources);
        // One that cannot be read has the symbols of this machine.
        if let Some(Ok(Some(bundle))) = self.file.file().map(Bundle::of_file) {
            symbolizer.use_bundle(bundle);
        }
        symbolizer
    }
}
