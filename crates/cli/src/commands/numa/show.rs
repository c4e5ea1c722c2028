//! `pmuscope numa show`.

use pmuscope_console::exit::{Exit, bad_input, not_possible};
use pmuscope_console::output::{Form, OutputArgs};
use pmuscope_machine::Machine;
use pmuscope_report::NumaShow;

use super::follow::{self, FollowArgs};

/// Flags of `pmuscope numa show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pmuscope numa show                  nodes, distances, settings, counters
  pmuscope numa show -p 4242          where its threads run and its memory is, for 5 s
  pmuscope numa show -o x.html -- ./bench    the same for a program, as a page
  pmuscope numa show --json")]
pub(crate) struct Args {
    #[command(flatten)]
    output: OutputArgs<ShowFormats>,
    #[command(flatten)]
    follow: FollowArgs,
}

pmuscope_console::forms!(ShowFormats: Text Json Csv Tsv Html, "pmuscope/numa/1 or numa-show/1");

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let form = args.output.form()?;
    if args.follow.is_asked()? {
        return follow::run(&machine, &args.follow, &form);
    }
    if let Some(flag) = args.follow.needs_process() {
        let text = format!("{flag} is of processes. Try: pmuscope numa show {flag} ... -p PID");
        return Err(bad_input(text));
    }
    of_machine(&machine, &form)
}

/// Nodes and settings, without a process.
fn of_machine(machine: &Machine, form: &Form) -> anyhow::Result<Exit> {
    let topology = machine.topology().map_err(not_possible)?;
    let kernel = machine.kernel().map_err(not_possible)?;
    let virtualization = machine.virtualization(&machine.processor());
    let show = NumaShow {
        facts: &machine.numa_facts(&topology),
        topology: &topology,
        kernel: &kernel,
        emulator: virtualization.emulator.as_ref(),
    };
    form.show(&show, &Exit::Done)?;
    Ok(Exit::Done)
}
