//! Names of the running kernel and its modules: `/proc/kallsyms`.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};

use pmuscope_machine::Machine;

use super::names::Nearest;
use crate::kallsyms::parse;

/// Far beyond the 10 to 20 MiB of a distribution kernel.
const LARGEST: u64 = 1 << 28;
/// A longer line is no symbol's.
const LONGEST_LINE: u64 = 4 << 10;
/// Functions of that name; statics in headers are in hundreds of objects.
const MOST: usize = 1000;

/// A symbol of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Its address; for a per-CPU variable, its offset in the per-CPU area.
    pub address: u64,
    /// Whether it is a function.
    pub code: bool,
    /// The module that has it; `None`: the kernel itself.
    pub module: Option<String>,
}

impl KernelSymbol {
    /// Whether it is per-CPU, so that it has no single address.
    #[must_use]
    pub fn is_per_cpu(&self) -> bool {
        self.address < 1 << 63
    }
}

/// Why the kernel provides no address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelNameError {
    /// `/proc/kallsyms` cannot be read.
    #[error("cannot read /proc/kallsyms: {0}")]
    Read(io::Error),
    /// All addresses are 0 for this user.
    #[error("the kernel hides its addresses")]
    Hidden,
    /// Nothing has this name.
    #[error(
        "the kernel has no symbol {name}{}",
        if near.is_empty() { String::new() } else { format!(". Similar: {}", near.join(", ")) }
    )]
    None {
        /// As asked.
        name: String,
        /// Names that are like it.
        near: Vec<String>,
    },
}

/// Symbols called `name`.
///
/// # Errors
/// If there is none, or the kernel hides addresses.
pub fn kernel_symbols(machine: &Machine, name: &str) -> Result<Vec<KernelSymbol>, KernelNameError> {
    let file = File::open(machine.root().join("proc/kallsyms")).map_err(KernelNameError::Read)?;
    find(file, name)
}

fn find(file: impl Read, name: &str) -> Result<Vec<KernelSymbol>, KernelNameError> {
    let mut reader = BufReader::with_capacity(1 << 16, file.take(LARGEST));
    let mut found = Vec::new();
    let mut nearest = Nearest::new(name);
    let mut visible = false;
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut one = reader.by_ref().take(LONGEST_LINE);
        if one.read_until(b'\n', &mut line).map_err(KernelNameError::Read)? == 0 {
            break;
        }
        let Some((address, kind, raw)) = parse(line.trim_ascii_end()) else { continue };
        visible |= address != 0;
        if raw != name.as_bytes() {
            if found.is_empty() {
                nearest.offer(&String::from_utf8_lossy(raw));
            }
        } else if found.len() < MOST {
            let module = line.trim_ascii_end().strip_suffix(b"]");
            let module = module.and_then(|line| line.rsplit(|&byte| byte == b'[').next());
            let module = module.map(|module| String::from_utf8_lossy(module).into_owned());
            let code = matches!(kind, b't' | b'T' | b'w' | b'W');
            found.push(KernelSymbol { address, code, module });
        }
    }
    match found.is_empty() {
        true => Err(KernelNameError::None { name: name.to_owned(), near: nearest.names() }),
        false if !visible => Err(KernelNameError::Hidden),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0000000000012340 A current_task
ffffffff81000100 T vfs_read
ffffffff82000000 D jiffies
ffffffffc0000000 t helper\t[ext4]
ffffffffc0010000 t helper\t[xfs]
";

    #[test]
    fn symbols_are_told_with_their_modules() {
        let jiffies = find(TEXT.as_bytes(), "jiffies").unwrap();
        assert_eq!(
            jiffies,
            [KernelSymbol { address: 0xffff_ffff_8200_0000, code: false, module: None }]
        );
        assert!(!jiffies[0].is_per_cpu());
        assert!(find(TEXT.as_bytes(), "current_task").unwrap()[0].is_per_cpu());
        let helpers = find(TEXT.as_bytes(), "helper").unwrap();
        let modules: Vec<_> = helpers.iter().map(|one| one.module.as_deref().unwrap()).collect();
        assert_eq!(modules, ["ext4", "xfs"]);
        assert!(find(TEXT.as_bytes(), "vfs_read").unwrap()[0].code);
    }

    #[test]
    fn what_is_not_there_or_hidden_is_said() {
        let error = find(TEXT.as_bytes(), "jifies").unwrap_err().to_string();
        assert_eq!(error, "the kernel has no symbol jifies. Similar: jiffies");
        let hidden = "0000000000000000 D jiffies\n";
        assert!(matches!(find(hidden.as_bytes(), "jiffies"), Err(KernelNameError::Hidden)));
    }
}
