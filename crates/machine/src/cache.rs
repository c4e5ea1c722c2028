//! Where what is learnt or fetched once is kept.

use std::path::PathBuf;

/// This user's cache of all that pmuscope keeps: `$PMUSCOPE_CACHE`, else `$XDG_CACHE_HOME/pmuscope`,
/// else `~/.cache/pmuscope`. `None` if `PMUSCOPE_CACHE` is empty, or none of them is set.
#[must_use]
pub fn user_cache() -> Option<PathBuf> {
    folder_of(|name| std::env::var_os(name).map(PathBuf::from))
}

fn folder_of(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(folder) = variable("PMUSCOPE_CACHE") {
        return (!folder.as_os_str().is_empty()).then_some(folder);
    }
    // The specification has it that relative paths are to be ignored.
    let xdg = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let home = || Some(variable("HOME").filter(|home| home.is_absolute())?.join(".cache"));
    Some(xdg.or_else(home)?.join("pmuscope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_where() {
        let at = |pairs: &[(&str, &str)]| {
            folder_of(|name| {
                pairs
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(at(&[("HOME", "/h")]), Some("/h/.cache/pmuscope".into()));
        let xdg = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(at(&xdg), Some("/x/pmuscope".into()));
        assert_eq!(at(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")]), at(&[("HOME", "/h")]));
        assert_eq!(at(&[("PMUSCOPE_CACHE", "/c"), ("HOME", "/h")]), Some("/c".into()));
        assert_eq!(at(&[("PMUSCOPE_CACHE", ""), ("HOME", "/h")]), None);
        assert_eq!(at(&[]), None);
    }
}
