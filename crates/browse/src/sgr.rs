//! Lines with the colors that commands print: the few ANSI sequences that they use become styles of cells.

use ratatui_core::style::{Color, Modifier, Style};

/// A piece of a line in one style.
pub(crate) type StyledPiece = (String, Style);

/// The pieces of a line. Sequences that are no style are left out, so that nothing that was printed acts on the terminal.
pub(crate) fn pieces(line: &str) -> Vec<StyledPiece> {
    let (mut out, mut style, mut text) = (Vec::new(), Style::new(), String::new());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            match c {
                '\t' => text.push_str("    "),
                c if c.is_control() => {}
                c => text.push(c),
            }
            continue;
        }
        let mut sequence = rest.clone();
        if sequence.next() != Some('[') {
            continue;
        }
        let numbers: String = sequence.by_ref().take_while(|c| !c.is_ascii_alphabetic()).collect();
        let end = rest.clone().nth(1 + numbers.chars().count());
        rest = sequence;
        if end == Some('m') {
            if !text.is_empty() {
                out.push((std::mem::take(&mut text), style));
            }
            style = numbers.split(';').fold(style, styled);
        }
    }
    if !text.is_empty() {
        out.push((text, style));
    }
    out
}

fn styled(style: Style, number: &str) -> Style {
    match number {
        "" | "0" => Style::new(),
        "1" => style.add_modifier(Modifier::BOLD),
        "2" => style.add_modifier(Modifier::DIM),
        "31" => style.fg(Color::Red),
        "32" => style.fg(Color::Green),
        "33" => style.fg(Color::Yellow),
        _ => style,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_taken_and_what_else_would_act_is_dropped() {
        let line = "a\u{1b}[1mbold\u{1b}[0m \u{1b}[31mred\u{1b}[2J!\u{1b}]0;title\u{7}\tx";
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let red = Style::new().fg(Color::Red);
        assert_eq!(
            pieces(line),
            [
                ("a".into(), Style::new()),
                ("bold".into(), bold),
                (" ".into(), Style::new()),
                ("red!]0;title    x".into(), red),
            ]
        );
        assert_eq!(pieces("\u{1b}[1"), []);
    }
}
