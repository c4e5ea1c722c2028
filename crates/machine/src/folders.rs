//! Where what a user has, and what is learnt or fetched once, is kept.

use std::path::PathBuf;

/// A folder of the user by the XDG Base Directory Specification, with a variable of our own before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserFolder {
    /// Variable that names the folder itself; empty: there is none.
    pub variable: &'static str,
    /// XDG's variable: `XDG_CACHE_HOME`.
    pub xdg: &'static str,
    /// What stands for it below the home, where it is not set: `.cache`.
    pub below_home: &'static str,
    /// The folder's name below either.
    pub name: &'static str,
}

/// Caches.
const CACHE: UserFolder = UserFolder {
    variable: "PMUSCOPE_CACHE",
    xdg: "XDG_CACHE_HOME",
    below_home: ".cache",
    name: "pmuscope",
};

/// This user's cache of all that pmuscope keeps: `$PMUSCOPE_CACHE`, else `$XDG_CACHE_HOME/pmuscope`,
/// else `~/.cache/pmuscope`. `None` if `PMUSCOPE_CACHE` is empty, or none of them is set.
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    CACHE.path()
}

impl UserFolder {
    /// Where it is for this user; `None` if its own variable is empty, or nothing is set.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        self.by(|name| std::env::var_os(name).map(PathBuf::from))
    }

    fn by(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        if let Some(folder) = variable(self.variable) {
            return (!folder.as_os_str().is_empty()).then_some(folder);
        }
        // The specification has it that relative paths are to be ignored.
        let absolute = |name: &str| variable(name).filter(|folder| folder.is_absolute());
        let home = || Some(absolute("HOME")?.join(self.below_home));
        Some(absolute(self.xdg).or_else(home)?.join(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where() {
        let at = |pairs: &[(&str, &str)]| {
            CACHE.by(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(at(&[("HOME", "/h")]), Some("/h/.cache/pmuscope".into()));
        let xdg = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(at(&xdg), Some("/x/pmuscope".into()));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), at(&[("HOME", "/h")]));
        assert_eq!(at(&[("PMUSCOPE_CACHE", "c"), ("HOME", "/h")]), Some("c".into()));
        assert_eq!(at(&[("PMUSCOPE_CACHE", ""), ("HOME", "/h")]), None);
        assert_eq!(at(&[]), None);
    }
}
