//! What keys do, for the line at the bottom and for the help.

/// The line at the bottom, which fits 80 columns.
pub(crate) const LINE: &str =
    "Enter menu  a annotate  t thread  d DSO  / filter  s sort  v views  ? help";

/// The same in a view of time.
pub(crate) const TIME_LINE: &str =
    "arrows move  Space mark  Enter keep span  / type it  b rows by  v views  ? help";

/// The same where a command's text is shown.
pub(crate) const TEXT_LINE: &str =
    "arrows scroll  / search  n next  : command  e export  Esc back  ? help";

/// The same where the code of a function is shown.
pub(crate) const CODE_LINE: &str =
    "H next hottest  s source, assembly  p percent of  / search  Esc back  ? help";

/// The help.
pub(crate) const HELP: [&str; 52] = [
    "arrows, PgUp, PgDn, Space   move; Home, End: first, last",
    "Enter, m    menu of the line; in a tree: expand, collapse",
    "Right       the line's names in full; in a tree: expand",
    "Esc, Left   back: the view or filter before",
    "q, Ctrl-C   quit; Q: quit and print the command of the view",
    "Ctrl-Z      suspend; fg in the shell goes on",
    "",
    "a, A        annotate: source lines of the function; instructions",
    "n           callers and callees of the function, in the row's comm",
    "t           keep the thread (or comm, where threads are not shown)",
    "d           keep the DSO; k: the kernel",
    "f           keep samples in the function",
    "x           keep call stacks through the function",
    "p, c, u, o  keep the process, comm, CPU, NUMA node",
    "z           drop the last filter; Z: all filters",
    "",
    "/           keep rows with a text, while typing; in text and code: search",
    "            (n, N: on); in time: a span",
    "s, S        sort by the next, previous column; R: reversed",
    "+           expand, collapse; E: all, C: none",
    "Tab         next event",
    "",
    "1           functions, as in pmuscope report",
    "2           call tree from the outermost function",
    "3           call tree from the sampled function to its callers",
    "4, 5, 6     threads, processes, comms",
    "7, 8        CPUs, DSOs",
    "9           time: threads, CPUs or functions; a span can be kept",
    "v           all views: waits, metrics, watchpoint hits, shared cache lines, …",
    "i           DSOs and their symbols",
    "!           all warnings and notes on the recording",
    ":           the command that prints the view",
    "e, P        export the view to a file; its ending is the form",
    "?, h        this help",
    "",
    "In code (a):",
    "H           next hottest line",
    "s           source or assembly",
    "p           percent of the function or of all samples",
    "n, N        next, previous line with the text of /",
    ">           marks an inlined function in the function that holds its code",
    "",
    "self        percentage of all samples left, in the function itself",
    "total       in the function and what it called",
    "95% CI      half width; the 250 largest rows have one, - with too few samples",
    "time        at most 256 blocks; a span is one of whole blocks",
    "",
    "Filters count again what was read: thread, process, comm, CPU, DSO, call",
    "stack, time block. All that are set are in the third line.",
    "Views of v and code run the command that : shows.",
    "",
    "Arrows scroll this help, any other key closes it.",
];
