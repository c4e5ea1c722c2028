//! What standard output can show, and how wide a terminal is.

use std::io::{IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;

use anyhow::Context as _;
use pmuscope_report::Style;

/// When text has colors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal
    #[default]
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// What the command line says of text: all columns, and colors.
static ASKED: OnceLock<(bool, Color)> = OnceLock::new();

/// Takes `--wide` and `--color` from the command line.
pub fn set(wide: bool, color: Color) {
    // Once per process; a second time would say the same.
    let _ = ASKED.set((wide, color));
}

/// The style for standard output: color and width only on a terminal unless asked for, ASCII where the locale says so.
pub fn style() -> Style {
    let (wide, color) = ASKED.get().copied().unwrap_or_default();
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let dumb = variable("TERM").is_none_or(|term| term == "dumb");
    let style = Style {
        color: match color {
            Color::Auto => terminal && !dumb && variable("NO_COLOR").is_none(),
            Color::Always => true,
            Color::Never => false,
        },
        unicode: is_unicode(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable)),
        width: width_of(&stdout),
    };
    if wide { style.wide() } else { style }
}

/// Columns of a terminal; `None` where it is none, or does not say.
pub fn width_of(stream: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size =
        stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Writes a result to standard output.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Without any locale (containers, cron) UTF-8 is the better guess.
fn is_unicode(locale: Option<String>) -> bool {
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::is_unicode;

    #[test]
    fn the_locale_decides_on_unicode() {
        for (locale, unicode) in
            [("en_US.UTF-8", true), ("C.utf8", true), ("C", false), ("de_DE.ISO-8859-1", false)]
        {
            assert_eq!(is_unicode(Some(locale.to_owned())), unicode, "{locale}");
        }
        assert!(is_unicode(None));
    }
}
