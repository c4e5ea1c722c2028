//! Tables of all widths.

use super::*;

fn sample() -> Table {
    let mut table = Table::new([
        Column::number("share"),
        Column::number("samples"),
        Column::text("command"),
        Column::text("function").shrink(),
    ]);
    table.row(["31.42%", "6,786,720", "bt.B.x", "y_solve_._omp_fn.0"]);
    table.row(["-", "", "größe", "函数"]);
    table.row([Cell::new("0.31%"), Cell::measured(None::<u64>, |n| n.to_string())]);
    table
}

#[test]
fn numbers_lean_right_and_text_left() {
    insta::assert_snapshot!(sample().render(&Style::PLAIN), @r"
     share    samples  command  function
    31.42%  6,786,720  bt.B.x   y_solve_._omp_fn.0
         -             größe    函数
     0.31%          -
    ");
}

#[test]
fn a_narrow_terminal_cuts_only_what_may_be_cut() {
    let narrow = Style { width: Some(40), ..Style::PLAIN };
    let text = sample().indent(1).render(&narrow);
    insta::assert_snapshot!(text, @r"
     share    samples  command  function
    31.42%  6,786,720  bt.B.x   y_sol…_fn.0
         -             größe    函数
     0.31%          -
    ");
    assert!(text.lines().all(|line| line.width() <= 40));
    // Not even the longest number is cut.
    let absurd = Style { width: Some(3), ..Style::PLAIN };
    let text = sample().render(&absurd);
    assert!(text.contains("31.42%") && !text.contains("6,78"), "{text}");
}

#[test]
fn cutting_without_unicode_stays_within_the_width() {
    let narrow = Style { width: Some(39), unicode: false, ..Style::PLAIN };
    let text = sample().render(&narrow);
    assert!(text.contains("y_so...fn.0\n"), "{text}");
}

#[test]
fn a_table_without_heads_has_no_head_line() {
    let mut table = Table::new([Column::text(""), Column::number("")]);
    table.row(["nodes", "2"]);
    table.row(["CPUs", "128"]);
    assert_eq!(table.render(&Style::PLAIN), "nodes    2\nCPUs   128\n");
}

#[test]
fn color_does_not_move_columns() {
    let mut table = Table::new([Column::text("a"), Column::text("b")]);
    table.row([Cell::new("x").paint(Paint::Bad), Cell::new("y")]);
    let color = Style { color: true, ..Style::PLAIN };
    let text = table.render(&color);
    assert_eq!(text, "\u{1b}[1ma\u{1b}[0m  \u{1b}[1mb\u{1b}[0m\n\u{1b}[31mx\u{1b}[0m  y\n");
}

#[test]
fn units_stand_in_the_head() {
    let mut table = Table::new([Column::number("wall").unit("s"), Column::number("n").unit("")]);
    table.row(["1.25 ± 0.03", "15"]);
    let ascii = Style { unicode: false, ..Style::PLAIN };
    assert_eq!(table.render(&ascii), "      wall s   n\n1.25 +- 0.03  15\n");
}

fn wide() -> Table {
    let mut table = Table::new([
        Column::number("self"),
        Column::number("95% CI").optional(1),
        Column::number("samples of the event").optional(4),
        Column::text("command").optional(5),
        Column::text("function").shrink_to(28),
    ]);
    table.row([
        "31.42%",
        "±0.31",
        "6,786,720",
        "bt.B.x",
        "std::__cxx11::basic_string<char>::operator()",
    ]);
    table.row(["0.31%", "±0.02", "1,234", "bt.B.x", "y_solve_._omp_fn.0"]);
    table
}

#[test]
fn heads_break_before_columns_are_left_out() {
    let at = |width| wide().render(&Style { width: Some(width), ..Style::PLAIN });
    insta::assert_snapshot!(at(90), @r"
                         samples of the
      self  95% CI                event  command  function
    31.42%   ±0.31            6,786,720  bt.B.x   std::__cxx11::basic_string<char>::operator()
     0.31%   ±0.02                1,234  bt.B.x   y_solve_._omp_fn.0
    ");
    insta::assert_snapshot!(at(70), @r"
                      samples
                       of the
      self  95% CI      event  command  function
    31.42%   ±0.31  6,786,720  bt.B.x   std::__cxx11::…::operator()
     0.31%   ±0.02      1,234  bt.B.x   y_solve_._omp_fn.0
    ");
    insta::assert_snapshot!(at(50), @r"
      self  95% CI  function
    31.42%   ±0.31  std::__cxx11::…::operator()
     0.31%   ±0.02  y_solve_._omp_fn.0
    columns left out: samples of the event, command;
    --wide shows all
    ");
    assert_eq!(wide().render(&Style { width: Some(50), ..Style::PLAIN }.wide()), at(200));
}

#[test]
fn what_is_left_out_is_named() {
    assert!(!wide().render(&Style::PLAIN).contains("left out"));
    let text = wide().indent(2).render(&Style { width: Some(50), ..Style::PLAIN });
    assert!(
        text.ends_with("  columns left out: samples of the event, command;\n  --wide shows all\n"),
        "{text}"
    );
}
