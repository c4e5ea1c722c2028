//! Messages of commands as a reader of the screen needs them: without what a shell would be given next.

/// The first paragraph, without its severity and without what to type.
pub(crate) fn without_hints(message: &str) -> String {
    let paragraph = message.trim().split("\n\n").next().unwrap_or_default();
    let line = paragraph.replace('\n', " ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let end = ["Try: ", "For more information"].iter().filter_map(|hint| line.find(hint)).min();
    let kept = line[..end.unwrap_or(line.len())].trim_end();
    kept.strip_suffix('.').unwrap_or(kept).to_owned()
}

/// A note or warning that a command printed, without what to type; other lines as they are.
pub(crate) fn line_without_hints(line: &str) -> &str {
    let is_note = line.starts_with("note:") || line.starts_with("warning:");
    match line.find("Try: pmuscope").filter(|_| is_note) {
        Some(end) => line[..end].trim_end(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_type_is_left_out() {
        for (message, expected) in [
            ("error: f was sampled in a, b. Try: --dso a\n", "f was sampled in a, b"),
            (
                "error: the argument '--a' cannot be used with '--b'\n\nUsage: pmuscope report\n\nFor more information",
                "the argument '--a' cannot be used with '--b'",
            ),
            (
                "no instructions: no program objdump. Try: apt install binutils",
                "no instructions: no program objdump",
            ),
            ("error: it broke", "it broke"),
            ("", ""),
        ] {
            assert_eq!(without_hints(message), expected);
        }
        assert_eq!(line_without_hints("note: none. Try: pmuscope list"), "note: none.");
        assert_eq!(line_without_hints("x Try: pmuscope list"), "x Try: pmuscope list");
    }
}
