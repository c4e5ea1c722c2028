//! Titles of pages: what was measured, of what, for how long, and how much that is.
//!
//! ```text
//! cpu-clock: ./server --port 80, 5.0 s, 2,199 samples
//! ```
//!
//! A title is read in a tab or a list of bookmarks, so it is short, and says nothing of machines or files.

use pmuscope_measure::arms::join;
use pmuscope_measure::compare::FileHead;
use pmuscope_perfdata::reader::Metadata;
use pmuscope_profile::Profile;
use pmuscope_text::{ShortenAt, shorten};

use crate::number::{count, counted, duration};

/// Columns of what was measured; a longer command is cut in its middle, so that program and input stay.
const LONGEST_SUBJECT: usize = 48;
/// Columns of a name of several.
const LONGEST_NAME: usize = 24;
/// Events that are named; of more the first is, with the number of the others.
const MOST_NAMED: usize = 2;
/// Columns of a comparison that are named.
const MOST_FILES: usize = 3;

/// `what: subject, extent, extent`; an empty part is left out.
pub(crate) fn title(what: &str, subject: &str, extents: &[String]) -> String {
    let parts: Vec<&str> =
        [subject].into_iter().chain(extents.iter().map(String::as_str)).collect();
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { what.to_owned() } else { format!("{what}: {}", parts.join(", ")) }
}

/// The title of a page of a profile: its events, and `by` where rows are by something.
pub(crate) fn of_profile(profile: &Profile, by: &str, file: &str) -> String {
    let names: Vec<&str> = profile.events.iter().map(|event| &*event.name).collect();
    let events = some(&names, "event");
    let what = if by.is_empty() { events } else { format!("{events} {by}") };
    about_profile(profile, &what, file)
}

/// The title of a page about `what` in a profile.
pub(crate) fn about_profile(profile: &Profile, what: &str, file: &str) -> String {
    let (kept, read) = (profile.samples(), profile.samples_read());
    let samples = match profile.filtered {
        Some(_) => format!("{} of {}", count(kept), counted(read, "sample")),
        None => counted(kept, "sample"),
    };
    let seconds = profile.duration_s.map(duration);
    let extents: Vec<String> = seconds.into_iter().chain([samples]).collect();
    title(what, &of_recording(&profile.metadata, file), &extents)
}

/// `cycles`, `cycles, instructions`, `cycles and 4 more events`.
pub(crate) fn some(names: &[&str], noun: &str) -> String {
    match names {
        [] => format!("no {noun}s"),
        [first, others @ ..] if names.len() > MOST_NAMED => {
            format!("{first} and {} more {noun}s", count(others.len() as u64))
        }
        _ => names.join(", "),
    }
}

/// What a recording is of: a command, processes, the whole system. perf keeps only its own command line, where a
/// command stands after `--`; where it does not, the name of the recording has to do.
pub(crate) fn of_recording(metadata: &Metadata, file: &str) -> String {
    let scope = metadata.info.as_ref().map(|info| &*info.scope).unwrap_or_default();
    let command = after_dashes(&metadata.command);
    let subject = match (scope.strip_prefix("command "), command) {
        (Some(command), _) => command.to_owned(),
        (None, _) if !scope.is_empty() => scope.to_owned(),
        (None, Some(command)) => command,
        (None, None) => file_name(file).to_owned(),
    };
    short(&subject)
}

/// The title of a page of run files that columns called `names` are of: our command, what it ran, and `extents`.
pub(crate) fn of_runs(files: &[FileHead], names: &[String], extents: &[String]) -> String {
    let what = tools(files);
    title(&what, &of_columns(files, names, &what), extents)
}

/// The title of a page of run files over time.
pub(crate) fn over_time(files: &[FileHead], extents: &[String]) -> String {
    title(&tools(files), &same_command(files).unwrap_or_default(), extents)
}

/// Our command that wrote all files.
fn tools(files: &[FileHead]) -> String {
    let mut tools: Vec<String> = files.iter().map(|file| tool(&file.command)).collect();
    tools.dedup();
    if tools.len() == 1 { tools.remove(0) } else { "compare".to_owned() }
}

/// The one command that all of them ran.
fn same_command(files: &[FileHead]) -> Option<String> {
    let mut commands = files.iter().map(command);
    let first = commands.next()??;
    commands.all(|one| one.as_ref() == Some(&first)).then(|| short(&first))
}

/// What columns are of: the one command that all of them ran, and what tells them apart.
fn of_columns(files: &[FileHead], names: &[String], what: &str) -> String {
    match (same_command(files), names) {
        (Some(command), [_]) => command,
        // Its name says nothing more.
        (None, [name]) if name == what => String::new(),
        (Some(command), _) => format!("{command}, {}", versus(names)),
        (None, _) if files.iter().all(|file| file.arm.is_some()) => {
            versus(&files.iter().filter_map(command).collect::<Vec<_>>())
        }
        (None, _) => versus(names),
    }
}

/// What a column of a comparison ran, where its file says it.
fn command(file: &FileHead) -> Option<String> {
    match &file.arm {
        Some(words) => Some(words.join(" ")),
        None => after_dashes(&file.command),
    }
}

/// `a.json vs b.json`, `12 files`.
fn versus(names: &[String]) -> String {
    match names.len() {
        0..=MOST_FILES => {
            let names: Vec<String> = names.iter().map(|name| cut(name, LONGEST_NAME)).collect();
            names.join(" vs ")
        }
        more => counted(more, "file"),
    }
}

/// A command of ours without its arguments: `stat`, `bench ring`.
fn tool(command: &[String]) -> String {
    let mut words = command.iter().skip(1).map(String::as_str);
    match (words.next(), words.next()) {
        (Some(group @ ("bench" | "lab" | "numa")), Some(command)) => format!("{group} {command}"),
        (Some(command), _) => command.to_owned(),
        (None, _) => "runs".to_owned(),
    }
}

/// The command that another one was given after `--`.
fn after_dashes(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| word == "--")?;
    Some(join(&words[at + 1..])).filter(|command| !command.is_empty())
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// What was measured, in one line, as long as a title may be.
pub(crate) fn short(subject: &str) -> String {
    cut(subject, LONGEST_SUBJECT)
}

fn cut(text: &str, width: usize) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    shorten(&words.join(" "), width, "…", ShortenAt::Middle)
}

#[cfg(test)]
pub(crate) mod tests {
    use pmuscope_perfdata::info::RecordingInfo;

    use super::*;

    /// The title of a page, which its first heading repeats.
    #[track_caller]
    pub(crate) fn of_page(page: &str) -> &str {
        let between = |start: &str, end: &str| page.split_once(start)?.1.split(end).next();
        let title = between("<title>", " · pmuscope</title>").unwrap();
        assert_eq!(between("<h1>", "</h1>"), Some(title));
        title
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn metadata(scope: &str, command: &str) -> Metadata {
        let info = RecordingInfo { scope: scope.into(), ..RecordingInfo::default() };
        let info = (!scope.is_empty()).then_some(info);
        Metadata { info, command: words(command), ..Metadata::default() }
    }

    #[test]
    fn a_recording_is_of_what_was_measured() {
        let of = |scope, command| of_recording(&metadata(scope, command), "/tmp/a.data");
        assert_eq!(of("command ./server --port 80", "pmuscope record"), "./server --port 80");
        assert_eq!(of("system-wide", "pmuscope record -a -- sleep 5"), "system-wide");
        assert_eq!(of("process 4711", "pmuscope record -p 4711"), "process 4711");
        assert_eq!(of("", "perf record -g -- ./server --port 80"), "./server --port 80");
        assert_eq!(of("", "perf record -g ./server"), "a.data");
        assert_eq!(of("", "perf record --"), "a.data");
    }

    #[test]
    fn a_long_command_is_cut_in_its_middle() {
        let command =
            "/opt/vendor/bin/database --config /etc/db.conf\n --log-level debug orders.sql";
        let title = title("cycles", &short(command), &["5.0 s".into(), "2,199 samples".into()]);
        assert!(title.starts_with("cycles: /opt/vendor/bin/"), "{title}");
        assert!(title.ends_with("orders.sql, 5.0 s, 2,199 samples"), "{title}");
        assert!(title.contains('…') && !title.contains('\n'), "{title}");
        assert!(title.chars().count() <= 80, "{title}");
    }

    #[test]
    fn what_was_not_measured_is_not_in_a_title() {
        assert_eq!(title("cycles", "", &[]), "cycles");
        assert_eq!(
            title("cycles", "ls", &[String::new(), "3 samples".into()]),
            "cycles: ls, 3 samples"
        );
    }

    #[test]
    fn many_events_are_a_number() {
        assert_eq!(some(&["cycles"], "event"), "cycles");
        assert_eq!(some(&["cycles", "instructions"], "event"), "cycles, instructions");
        assert_eq!(
            some(&["cycles", "instructions", "faults"], "event"),
            "cycles and 2 more events"
        );
        assert_eq!(some(&[], "event"), "no events");
    }

    #[test]
    fn our_commands_are_named_without_arguments() {
        assert_eq!(tool(&words("pmuscope stat -r 2 -- true")), "stat");
        assert_eq!(tool(&words("pmuscope bench ring -r 2")), "bench ring");
        assert_eq!(tool(&[]), "runs");
    }

    #[test]
    fn columns_are_named_while_they_are_few() {
        let names: Vec<String> = words("a.json b.json c.json d.json");
        assert_eq!(versus(&names[..2]), "a.json vs b.json");
        assert_eq!(versus(&names), "4 files");
    }
}
