//! What is said on standard error.

/// As `eprintln!`, but where nobody listens any more (`2>&1 | head`, a full disk), the work goes on: a notice is
/// no reason to panic.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
