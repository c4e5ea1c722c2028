//! Bundles: a recording together with its symbols, for another machine.
//!
//! A bundle is the recording followed by its symbols. Readers of recordings follow the offsets in
//! the header and ignore what comes after the last section, so a bundle is still a recording for
//! every other tool, including perf(1). If samples carry stack copies, the unwind rules for them are
//! included too.
//!
//! ```text
//!  recording │ symbols and rules, one zstd frame │ length of the frame, checksum, magic
//! ```

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::codec::{Stored, encode};
use crate::unwind::{Gap, Rule, StoredRules, rules_from_bytes, rules_to_bytes};
use crate::{
    BuildId, Doubt, KernelIdentity, MissingSplit, Module, ModuleFile, Resolved, State, Symbol,
};

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"pmbundl\x01";
/// Length, checksum of the frame, magic.
const TRAILER: u64 = 8 + 4 + 8;
/// No symbols take more than this, bytes.
const LARGEST: u64 = 2 << 30;
const LEVEL: i32 = 9;

/// What is wrong with a bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It has symbols that are damaged.
    #[error("its symbols are damaged ({0}): bundle the recording again")]
    Damaged(&'static str),
    /// There is more than a bundle can hold.
    #[error("too many symbols for a bundle")]
    TooLarge,
}

/// Symbols of the modules of a recording.
#[derive(Debug, Default)]
pub struct Bundle {
    kernel: KernelIdentity,
    modules: Vec<BundleEntry>,
    /// How its stacks are unwound, by module.
    rules: Vec<(Vec<u8>, StoredRules)>,
}

#[derive(Debug)]
struct BundleEntry {
    key: Vec<u8>,
    state: State,
    stored: Stored,
}

impl Bundle {
    /// An empty bundle, created while `kernel` runs.
    #[must_use]
    pub fn new(kernel: KernelIdentity) -> Self {
        Self { kernel, modules: Vec::new(), rules: Vec::new() }
    }

    /// The kernel that ran when it was created: its kernel symbols are valid for that kernel.
    #[must_use]
    pub fn kernel(&self) -> &KernelIdentity {
        &self.kernel
    }

    /// Adds what was found for `addresses` of `module`.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`].
    pub fn add(
        &mut self,
        module: &Module<'_>,
        addresses: &[u64],
        found: &Resolved,
    ) -> Result<(), BundleError> {
        let key = key_of(module);
        let mut symbols: Vec<(u64, Option<&Symbol>)> =
            addresses.iter().copied().zip(found.symbols.iter().map(Option::as_deref)).collect();
        symbols.sort_by_key(|(address, _)| *address);
        symbols.dedup_by_key(|(address, _)| *address);
        let bytes = encode(&key, symbols.into_iter(), &[], &[]).ok_or(BundleError::TooLarge)?;
        let stored = Stored::open(bytes, &key).ok_or(BundleError::TooLarge)?;
        self.modules.push(BundleEntry { key, state: found.state.clone(), stored });
        Ok(())
    }

    /// Adds the unwind rules at addresses of `module`, or why they are unknown.
    ///
    /// # Errors
    /// [`BundleError::TooLarge`].
    pub fn add_rules<'a>(
        &mut self,
        module: &Module<'_>,
        places: impl Iterator<Item = (u64, Result<&'a Rule, Gap>)>,
    ) -> Result<(), BundleError> {
        let rules = rules_from_bytes(&rules_to_bytes(places)).ok_or(BundleError::TooLarge)?;
        self.rules.push((key_of(module), rules));
        Ok(())
    }

    /// Whether it was made of a recording with stacks.
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// What was added for `module`.
    pub(crate) fn rules(&self, module: &Module<'_>) -> Option<StoredRules> {
        let key = key_of(module);
        self.rules.iter().find(|(of, _)| *of == key).map(|(_, rules)| rules.clone())
    }

    /// Number of modules, and of addresses in them.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.modules.len(), self.modules.iter().map(|entry| entry.stored.len()).sum())
    }

    /// What was added for `module`; of several, as of the kernel and its modules, that which knows
    /// `address`.
    pub(crate) fn get(
        &self,
        module: &Module<'_>,
        address: Option<u64>,
    ) -> Option<(&Stored, &State)> {
        let key = key_of(module);
        let knows =
            |entry: &&BundleEntry| address.is_none_or(|at| entry.stored.reader().get(at).is_some());
        let mut entries = self.modules.iter().filter(|entry| entry.key == key);
        let entry = entries.clone().find(knows).or_else(|| entries.next())?;
        Some((&entry.stored, &entry.state))
    }

    /// Writes the symbols after a recording that was written to `out`.
    ///
    /// # Errors
    /// Those of writing; [`BundleError::TooLarge`].
    pub fn append(&self, out: &mut impl Write) -> Result<(), BundleError> {
        let mut bytes = Vec::new();
        push_parts(&mut bytes, &kernel_to_parts(&self.kernel))?;
        push_number(&mut bytes, self.modules.len())?;
        for entry in &self.modules {
            let state = state_to_bytes(&entry.state);
            push_parts(&mut bytes, &[&entry.key[..], &state, entry.stored.as_bytes()])?;
            if bytes.len() as u64 > LARGEST {
                return Err(BundleError::TooLarge);
            }
        }
        for (key, rules) in &self.rules {
            push_parts(&mut bytes, &[&key[..], &rules.to_bytes()])?;
            if bytes.len() as u64 > LARGEST {
                return Err(BundleError::TooLarge);
            }
        }
        let frame = zstd::bulk::compress(&bytes, LEVEL)?;
        out.write_all(&frame)?;
        out.write_all(&(frame.len() as u64).to_le_bytes())?;
        out.write_all(&crc32fast::hash(&frame).to_le_bytes())?;
        out.write_all(&MAGIC)?;
        Ok(())
    }

    /// The symbols appended to the recording at `path`; `None` if there are none.
    ///
    /// # Errors
    /// Those of reading; [`BundleError::Damaged`].
    pub fn of(path: &Path) -> Result<Option<Self>, BundleError> {
        Self::of_file(&File::open(path)?)
    }

    /// The same for a recording that is already open.
    ///
    /// # Errors
    /// As [`Bundle::of`].
    pub fn of_file(file: &File) -> Result<Option<Self>, BundleError> {
        let metadata = file.metadata()?;
        // Only a file has an end to look at.
        if !metadata.is_file() || metadata.len() < TRAILER {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER as usize];
        file.read_exact_at(&mut trailer, metadata.len() - TRAILER)?;
        let (head, magic) = trailer.split_at(12);
        if magic != MAGIC {
            return Ok(None);
        }
        let damaged = BundleError::Damaged;
        let length = head.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let checksum = head.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let start = (metadata.len() - TRAILER).checked_sub(length).ok_or(damaged("length"))?;
        let mut frame = vec![0; usize::try_from(length).map_err(|_| damaged("length"))?];
        file.read_exact_at(&mut frame, start)?;
        if crc32fast::hash(&frame) != checksum {
            return Err(damaged("checksum"));
        }
        let mut bytes = Vec::new();
        let decoder = zstd::stream::read::Decoder::with_buffer(&frame[..])?;
        decoder.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|_| damaged("compression"))?;
        Self::from_bytes(&bytes).map(Some).ok_or(damaged("contents"))
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() as u64 > LARGEST {
            return None;
        }
        let mut kernel = [&[][..]; 4];
        for part in &mut kernel {
            *part = take_part(&mut bytes)?;
        }
        let kernel = kernel_from_parts(kernel)?;
        let number = take_number(&mut bytes)?;
        let mut modules = Vec::new();
        for _ in 0..number {
            let key = take_part(&mut bytes)?;
            let (state, stored) = (take_part(&mut bytes)?, take_part(&mut bytes)?);
            modules.push(BundleEntry {
                key: key.to_vec(),
                state: state_from_bytes(state)?,
                stored: Stored::open(stored.to_vec(), key)?,
            });
        }
        let mut rules = Vec::new();
        while !bytes.is_empty() {
            let (key, stored) = (take_part(&mut bytes)?, take_part(&mut bytes)?);
            rules.push((key.to_vec(), rules_from_bytes(stored)?));
        }
        Some(Self { kernel, modules, rules })
    }
}

/// Each behind its length.
fn push_parts(bytes: &mut Vec<u8>, parts: &[impl AsRef<[u8]>]) -> Result<(), BundleError> {
    for part in parts {
        push_number(bytes, part.as_ref().len())?;
        bytes.extend(part.as_ref());
    }
    Ok(())
}

fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_number(bytes)?;
    let (part, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(part)
}

/// What is not known is empty.
fn kernel_to_parts(kernel: &KernelIdentity) -> [Vec<u8>; 4] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    [
        text(&kernel.release),
        kernel.build_id.as_ref().map(|id| id.as_bytes().to_vec()).unwrap_or_default(),
        text(&kernel.boot_id),
        kernel.text.get().map(|address| address.to_le_bytes().to_vec()).unwrap_or_default(),
    ]
}

fn kernel_from_parts([release, id, boot, address]: [&[u8]; 4]) -> Option<KernelIdentity> {
    let text =
        |bytes: &[u8]| (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned());
    Some(KernelIdentity {
        release: text(release),
        build_id: (!id.is_empty()).then(|| BuildId::new(id)).transpose().ok()?,
        boot_id: text(boot),
        text: address.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).into(),
    })
}

fn push_number(bytes: &mut Vec<u8>, number: usize) -> Result<(), BundleError> {
    let number = u32::try_from(number).map_err(|_| BundleError::TooLarge)?;
    bytes.extend(number.to_le_bytes());
    Ok(())
}

fn take_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number) as usize)
}

/// A module as it will be asked for again: all of this comes from the recording.
pub(crate) fn key_of(module: &Module<'_>) -> Vec<u8> {
    match module {
        Module::File(ModuleFile { path, build_id, mapped }) => {
            let path = path.as_os_str().as_bytes();
            match (build_id, mapped.and_then(|mapped| mapped.inode)) {
                (None, Some(inode)) => [&b"i"[..], &inode.to_bytes(), path].concat(),
                (id, _) => {
                    let id = id.map_or(&[][..], BuildId::significant);
                    [b"f", id, &[0], path].concat()
                }
            }
        }
        Module::Kernel => b"k".to_vec(),
        Module::Vdso => b"v".to_vec(),
        Module::Jit { pid, .. } => [&b"j"[..], &pid.to_le_bytes()].concat(),
    }
}

/// A number for the state, then what it carries.
fn state_to_bytes(state: &State) -> Vec<u8> {
    let (code, text): (u8, Vec<u8>) = match state {
        State::Found => (0, Vec::new()),
        State::NoSymbols => (1, Vec::new()),
        State::FileMissing => (2, Vec::new()),
        State::FileReplaced => (3, Vec::new()),
        State::NotAllowed => (4, Vec::new()),
        State::Unreadable(why) => (5, why.clone().into_bytes()),
        State::BuildIdDiffers { recorded, file } => {
            let mut ids = vec![recorded.as_bytes().len() as u8];
            ids.extend(recorded.as_bytes());
            ids.extend(file.iter().flat_map(|file| file.as_bytes()));
            (6, ids)
        }
        State::DebugFileDiffers(path) => (7, path.as_os_str().as_bytes().to_vec()),
        State::KernelHidden => (8, Vec::new()),
        State::OtherKernel => (9, Vec::new()),
        State::OtherBoot => (10, Vec::new()),
        State::NoPerfMap => (11, Vec::new()),
        State::NotMapped => (12, Vec::new()),
        State::FileChanged => (13, Vec::new()),
        State::Unproven(Doubt::OtherHost) => (14, Vec::new()),
        State::Unproven(Doubt::Overlay) => (15, Vec::new()),
        State::SplitMissing(missing) => (16, missing.to_bytes()),
        State::NotElf => (17, Vec::new()),
        State::StalePerfMap(path) => (18, path.as_os_str().as_bytes().to_vec()),
    };
    std::iter::once(code).chain(text).collect()
}

fn state_from_bytes(bytes: &[u8]) -> Option<State> {
    let (code, rest) = bytes.split_first()?;
    Some(match code {
        0 => State::Found,
        1 => State::NoSymbols,
        2 => State::FileMissing,
        3 => State::FileReplaced,
        4 => State::NotAllowed,
        5 => State::Unreadable(String::from_utf8_lossy(rest).into_owned()),
        6 => {
            let (length, ids) = rest.split_first()?;
            let (recorded, file) = ids.split_at_checked(usize::from(*length))?;
            let file = (!file.is_empty()).then(|| BuildId::new(file)).transpose().ok()?;
            State::BuildIdDiffers { recorded: BuildId::new(recorded).ok()?, file }
        }
        7 => State::DebugFileDiffers(PathBuf::from(std::ffi::OsStr::from_bytes(rest))),
        8 => State::KernelHidden,
        9 => State::OtherKernel,
        10 => State::OtherBoot,
        11 => State::NoPerfMap,
        12 => State::NotMapped,
        13 => State::FileChanged,
        14 => State::Unproven(Doubt::OtherHost),
        15 => State::Unproven(Doubt::Overlay),
        16 => State::SplitMissing(MissingSplit::from_bytes(rest)?),
        17 => State::NotElf,
        18 => State::StalePerfMap(PathBuf::from(std::ffi::OsStr::from_bytes(rest))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn states() -> Vec<State> {
        let id = |byte| BuildId::new(&[byte; 20]).unwrap();
        vec![
            State::Found,
            State::NoSymbols,
            State::FileMissing,
            State::FileReplaced,
            State::NotAllowed,
            State::Unreadable("no".into()),
            State::NotElf,
            State::StalePerfMap("/tmp/perf-7.map".into()),
            State::BuildIdDiffers { recorded: id(1), file: Some(id(2)) },
            State::BuildIdDiffers { recorded: id(1), file: None },
            State::DebugFileDiffers("/x".into()),
            State::KernelHidden,
            State::OtherKernel,
            State::OtherBoot,
            State::NoPerfMap,
            State::NotMapped,
            State::FileChanged,
            State::Unproven(Doubt::OtherHost),
            State::Unproven(Doubt::Overlay),
            State::SplitMissing(MissingSplit {
                tried: vec!["/a/x.dwo".into(), "/b/x.dwo".into()],
                refused: Some(("/a/x.dwo".into(), "it is of another build".into())),
                has_others: true,
            }),
            State::SplitMissing(MissingSplit { tried: vec![], refused: None, has_others: false }),
        ]
    }

    #[test]
    fn states_survive() {
        for state in states() {
            assert_eq!(state_from_bytes(&state_to_bytes(&state)), Some(state));
        }
    }

    /// Made on another machine.
    fn elsewhere() -> KernelIdentity {
        KernelIdentity {
            release: Some("1.2.3-elsewhere".into()),
            build_id: BuildId::new(&[9; 20]).ok(),
            boot_id: None,
            text: Some(0xffff_0000).into(),
        }
    }

    #[test]
    fn the_kernels_names_are_those_of_the_machine_that_made_the_bundle() {
        let mut bytes = Vec::new();
        bundle().append(&mut bytes).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut symbolizer = crate::Symbolizer::new(crate::Options { inlined: false });
        assert_ne!(symbolizer.running_kernel(), elsewhere());
        symbolizer.use_bundle(Bundle::of(file.path()).unwrap().unwrap());
        assert_eq!(symbolizer.running_kernel(), elsewhere());
        let found = symbolizer.resolve(&Module::Kernel, &[10, 20]);
        let names: Vec<&str> = found.symbols.iter().flatten().map(|symbol| &*symbol.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn signatures_are_names_where_they_are_asked_for() {
        let named = |name: &str, signature: Option<&str>| {
            let signature = signature.map(Into::into);
            Some(Arc::new(Symbol { signature, ..Symbol::named(name.into()) }))
        };
        let symbols =
            vec![named("f", Some("f(int)")), named("f", Some("f(long)")), named("g", None)];
        let mut bundle = Bundle::new(elsewhere());
        let found = Resolved { symbols, state: State::Found };
        bundle.add(&Module::Vdso, &[10, 20, 30], &found).unwrap();
        let mut bytes = Vec::new();
        bundle.append(&mut bytes).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut symbolizer = crate::Symbolizer::new(crate::Options { inlined: false });
        symbolizer.use_bundle(Bundle::of(file.path()).unwrap().unwrap());
        let mut names = |show: bool| -> Vec<String> {
            if show {
                symbolizer.show_signatures();
            }
            let found = symbolizer.resolve(&Module::Vdso, &[10, 20, 30]);
            found.symbols.iter().flatten().map(|symbol| symbol.name.to_string()).collect()
        };
        assert_eq!(names(false), ["f", "f", "g"]);
        assert_eq!(names(true), ["f(int)", "f(long)", "g"]);
    }

    fn bundle() -> Bundle {
        let mut bundle = Bundle::new(elsewhere());
        let symbol = |name: &str| Some(Symbol::named(name.into()).into());
        let found = Resolved { symbols: vec![symbol("b"), symbol("a"), None], state: State::Found };
        bundle.add(&Module::Kernel, &[20, 10, 30], &found).unwrap();
        let nothing = Resolved { symbols: vec![None], state: State::NoSymbols };
        let module = Module::file(Path::new("/bin/x"), None);
        bundle.add(&module, &[5], &nothing).unwrap();
        bundle
    }

    #[test]
    fn a_bundle_is_found_behind_a_recording() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a recording").unwrap();
        assert!(Bundle::of(file.path()).unwrap().is_none());
        let mut bytes = b"a recording that is long enough".to_vec();
        bundle().append(&mut bytes).unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let bundle = Bundle::of(file.path()).unwrap().unwrap();
        assert_eq!(bundle.size(), (2, 4));
        let (stored, state) = bundle.get(&Module::Kernel, Some(10)).unwrap();
        assert_eq!(*state, State::Found);
        assert_eq!(stored.reader().get(10), Some(Some(Symbol::named("a".into()).into())));
        assert_eq!(stored.reader().get(30), Some(None));
        assert!(bundle.get(&Module::Vdso, None).is_none());
        assert!(Bundle::of(Path::new("/no/such")).is_err());
    }

    fn kernel_bytes(bundle: &Bundle) -> usize {
        kernel_to_parts(bundle.kernel()).iter().map(Vec::len).sum()
    }

    proptest! {
        #[test]
        fn damaged_bundles_are_refused(at in any::<prop::sample::Index>(), change in 1_u8..) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut bytes = Vec::new();
            bundle().append(&mut bytes).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            std::fs::write(file.path(), &bytes).unwrap();
            prop_assert!(!matches!(Bundle::of(file.path()), Ok(Some(_))));
        }

        #[test]
        fn any_contents_are_refused_or_harmless(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Some(bundle) = Bundle::from_bytes(&bytes) {
                prop_assert_eq!(bundle.size().0 > 0, bytes.len() > 20 + kernel_bytes(&bundle));
            }
        }
    }
}
