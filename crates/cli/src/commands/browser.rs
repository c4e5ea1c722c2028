//! Showing a page in the user's browser: which program that is, and what to do where there is none.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// How long a browser may take to fail. Most hand over to one that runs already, and end at once.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often that is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What opens a page where `$BROWSER` names nothing.
const DEFAULT: &str = "xdg-open";

/// Where the environment says that a browser would show its window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Desktop {
    /// `$BROWSER`: commands, separated by colons.
    browser: Option<String>,
    /// There is a display, or Windows around this Linux.
    has_display: bool,
    is_ssh: bool,
}

impl Desktop {
    fn of(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let is_set = |names: &[&str]| names.iter().any(|name| set(name).is_some());
        Self {
            browser: set("BROWSER").and_then(|value| value.into_string().ok()),
            has_display: is_set(&["WAYLAND_DISPLAY", "DISPLAY", "WSL_DISTRO_NAME"]),
            is_ssh: is_set(&["SSH_CONNECTION", "SSH_TTY"]),
        }
    }

    /// Commands to try, in order, each with its arguments.
    ///
    /// # Errors
    /// Why there are none.
    fn commands(&self, target: &str) -> Result<Vec<Vec<String>>, &'static str> {
        if let Some(browser) = &self.browser {
            let listed = browser.split(':').filter(|command| !command.trim().is_empty());
            return Ok(listed.map(|command| with_target(command, target)).collect());
        }
        match (self.has_display, self.is_ssh) {
            (true, _) => Ok(vec![with_target(DEFAULT, target)]),
            (false, true) => Err("this SSH session has no display"),
            (false, false) => {
                Err("there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set")
            }
        }
    }
}

/// Words of a command of `$BROWSER`: `%s` stands for the target, which else comes last.
fn with_target(command: &str, target: &str) -> Vec<String> {
    let mut words: Vec<String> =
        command.split_whitespace().map(|word| word.replace("%s", target)).collect();
    if !command.contains("%s") {
        words.push(target.to_owned());
    }
    words
}

/// Opens `target`, a path or an address, in the user's browser, and leaves it running.
///
/// # Errors
/// Why there is no browser: for a sentence that says where the page is.
pub(super) fn open(target: &str) -> Result<(), String> {
    let commands = Desktop::of(|name| std::env::var_os(name)).commands(target)?;
    let mut failed = Vec::new();
    for words in commands {
        match start(&words) {
            Ok(()) => return Ok(()),
            Err(why) => failed.push(format!("{}: {why}", words[0])),
        }
    }
    Err(failed.join("; "))
}

fn start(words: &[String]) -> Result<(), String> {
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is for us.
        .process_group(0)
        .spawn();
    child.map_err(|error| error.to_string()).and_then(watch)
}

/// Whether it fails within moments.
fn watch(mut child: Child) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("failed ({status})")),
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// The folder of pages that are opened, which only this user can enter.
///
/// # Errors
/// If it cannot be made.
fn folder() -> anyhow::Result<PathBuf> {
    let cache = pmuscope_machine::user_cache();
    let cache = cache.context(
        "no folder for the page: HOME and PMUSCOPE_CACHE are not set. Try: -o FILE.html",
    )?;
    let folder = cache.join("pages");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| format!("cannot make {}. Try: -o FILE.html", folder.display()))?;
    Ok(folder)
}

/// Where the page of a recording is written to be opened: the next one takes its place.
///
/// # Errors
/// If its folder cannot be made.
pub(super) fn page_of(recording: &Path) -> anyhow::Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    let whole = recording.canonicalize().unwrap_or_else(|_| recording.to_path_buf());
    whole.hash(&mut hasher);
    Ok(folder()?.join(format!("report-{:016x}.html", hasher.finish())))
}

/// A private file that leads a browser to an address, which other users would see on its command line. Gone when this
/// is dropped.
#[cfg(feature = "serve")]
#[derive(Debug)]
pub(super) struct Redirect(tempfile::NamedTempFile);

#[cfg(feature = "serve")]
impl Redirect {
    /// Of that address.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn to(address: &str) -> anyhow::Result<Self> {
        let file =
            tempfile::Builder::new().prefix("serve-").suffix(".html").tempfile_in(folder()?)?;
        std::fs::write(file.path(), pmuscope_report::redirect_page(address))?;
        Ok(Self(file))
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desktop(variables: &[(&str, &str)]) -> Desktop {
        Desktop::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_environment_names_the_browser() {
        let of = |variables: &[(&str, &str)]| desktop(variables).commands("/a.html");
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(of(&[("DISPLAY", ":0")]), Ok(vec![words("xdg-open /a.html")]));
        let two = [("BROWSER", "firefox -P x:w3m -o=%s -d"), ("SSH_TTY", "/dev/pts/1")];
        let expected = vec![words("firefox -P x /a.html"), words("w3m -o=/a.html -d")];
        assert_eq!(of(&two), Ok(expected));
        assert!(of(&[("SSH_CONNECTION", "1")]).unwrap_err().contains("SSH"));
        assert!(of(&[("DISPLAY", "")]).unwrap_err().contains("DISPLAY"));
        assert!(of(&[("SSH_TTY", "x"), ("WAYLAND_DISPLAY", "wayland-0")]).is_ok());
    }

    #[test]
    fn a_browser_that_fails_is_reported_and_one_that_stays_is_left() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(start(&words("true x")), Ok(()));
        assert!(start(&words("false x")).unwrap_err().contains("failed"));
        assert!(start(&words("/no/such/browser x")).unwrap_err().contains("No such file"));
    }
}
