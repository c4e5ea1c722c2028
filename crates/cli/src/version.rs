//! What `--version` prints: which build this is, so that a report of a fault can name it.

/// The commit, or why it is not known.
pub(crate) const COMMIT: &str = env!("PMUSCOPE_BUILD_COMMIT");

/// `pmuscope --version`, after the name; `-V` prints the first line. `build.rs` finds it out.
pub(crate) const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("PMUSCOPE_BUILD_COMMIT"),
    "\ntarget: ",
    env!("PMUSCOPE_BUILD_TARGET"),
    "\nprofile: ",
    env!("PMUSCOPE_BUILD_PROFILE"),
    "\ncompiler: ",
    env!("PMUSCOPE_BUILD_RUSTC"),
    "\nfeatures: ",
    env!("PMUSCOPE_BUILD_FEATURES"),
);
