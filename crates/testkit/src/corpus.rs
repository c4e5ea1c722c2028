//! Recordings that other tools made on other machines: `testdata/recordings` of the repository, or the folder
//! that `PMUSCOPE_CORPUS` names instead.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest as _, Sha256};

/// A line of the index: values by column.
pub type IndexRow = HashMap<String, String>;

/// A folder of recordings with its index, `INDEX.tsv`, and those made to do harm in `malformed`.
#[derive(Debug)]
pub struct Corpus {
    folder: PathBuf,
    index: HashMap<String, IndexRow>,
}

/// The recordings, unpacked at the first call. Tests only read them.
pub fn corpus() -> &'static Corpus {
    static CORPUS: OnceLock<Corpus> = OnceLock::new();
    CORPUS.get_or_init(|| match std::env::var_os("PMUSCOPE_CORPUS") {
        Some(folder) => Corpus::open(PathBuf::from(folder)),
        None => Corpus::open(unpacked()),
    })
}

impl Corpus {
    fn open(folder: PathBuf) -> Self {
        let index = index(&folder);
        Self { folder, index }
    }

    /// What an independent parser found in the recording of that file name.
    ///
    /// # Panics
    /// If the index has no such line.
    #[track_caller]
    pub fn row(&self, path: &Path) -> &IndexRow {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        self.index.get(name).unwrap_or_else(|| panic!("{name} is not in the index"))
    }

    /// Recordings as tools made them, by name.
    pub fn recordings(&self) -> Vec<PathBuf> {
        files(&self.folder)
    }

    /// Files made to break readers, by name.
    pub fn malformed(&self) -> Vec<PathBuf> {
        files(&self.folder.join("malformed"))
    }

    /// One recording.
    ///
    /// # Panics
    /// If it is not there: every folder of recordings has those of `testdata/recordings`.
    #[track_caller]
    pub fn recording(&self, name: &str) -> PathBuf {
        let path = self.folder.join(name);
        assert!(path.is_file(), "no recording {}", path.display());
        path
    }

    /// One recording that only a larger folder than the repository's has; `None`, with the reason printed,
    /// where it is not there.
    pub fn extra(&self, name: &str) -> Option<PathBuf> {
        let path = self.folder.join(name);
        if path.is_file() {
            return Some(path);
        }
        eprintln!("skipped: PMUSCOPE_CORPUS names no folder with {name}");
        None
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|ext| ext != "tsv"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no recordings in {}", folder.display());
    files
}

fn index(folder: &Path) -> HashMap<String, IndexRow> {
    let path = folder.join("INDEX.tsv");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let row = |line: &str| -> IndexRow {
        let values = line.split('\t').map(str::to_owned);
        columns.iter().map(|name| (*name).to_owned()).zip(values).collect()
    };
    lines.map(row).map(|row| (row["file"].clone(), row)).collect()
}

/// The repository's recordings in a folder next to the test programs: some 45 MB, written once per version.
fn unpacked() -> PathBuf {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let version = &hex(&fs::read(packed.join("INDEX.tsv")).unwrap())[..12];
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap();
    let folder = beside.join(format!("recordings-{version}"));
    if folder.is_dir() {
        return folder;
    }
    // Whole or not at all: other test programs may unpack at the same time.
    let new = tempfile::tempdir_in(beside).unwrap();
    unpack(&packed, new.path());
    let new = new.keep();
    if fs::rename(&new, &folder).is_err() {
        assert!(folder.is_dir(), "cannot make {}", folder.display());
        fs::remove_dir_all(&new).unwrap();
    }
    folder
}

fn unpack(packed: &Path, folder: &Path) {
    fs::create_dir(folder.join("malformed")).unwrap();
    fs::copy(packed.join("INDEX.tsv"), folder.join("INDEX.tsv")).unwrap();
    for (name, row) in index(packed) {
        let from = packed.join(format!("{name}.zst"));
        let file =
            fs::File::open(&from).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        let bytes = zstd::decode_all(file).unwrap();
        assert_eq!(hex(&bytes)[..12], row["sha256_12"], "{name}");
        fs::write(folder.join(name), bytes).unwrap();
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_repository_has_recordings_with_their_origin_and_license() {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let readme = fs::read_to_string(packed.join("README.md")).unwrap();
    for (name, row) in index(&packed) {
        assert!(readme.contains(&row["origin"]), "README.md does not name the origin of {name}");
    }
    let corpus = Corpus::open(unpacked());
    assert!(corpus.recordings().len() > 60 && corpus.malformed().len() > 20);
    for path in corpus.recordings() {
        assert_eq!(corpus.row(&path)["size"], path.metadata().unwrap().len().to_string());
    }
}

/// Every clone has them.
#[test]
fn packed_recordings_are_small() {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings");
    let bytes = |folder: &Path| -> u64 {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|entry| entry.metadata().unwrap())
            .filter(|m| m.is_file())
            .map(|m| m.len())
            .sum()
    };
    let all = bytes(&packed) + bytes(&packed.join("malformed")) + bytes(&packed.join("licenses"));
    assert!(all < 8 << 20, "{all} bytes");
}
