//! `pmuscope top`.
//!
//! ```text
//!  recorder::follow ─► live::Ticker: a profile per interval ─► report::top ─► once, or a screen
//! ```

mod flags;
mod once;
#[cfg(feature = "screen")]
mod screen;

use pmuscope_counters::Host;
use pmuscope_live::{KnownNames, Ticker};
use pmuscope_machine::{Machine, Target};
use pmuscope_profile::{GroupBy, Options, TasksBy};
use pmuscope_recorder::{CallGraph, FollowOptions, Following, Sampling, follow};

use super::record::convert::sampling;
use super::record::events::{self, set_rate};
use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_console::invocation::Invocation;

pub(crate) use flags::Args;

#[allow(clippy::needless_pass_by_value)] // all commands are called alike
pub(crate) fn run(args: Args) -> anyhow::Result<Exit> {
    let machine = Machine::host();
    let asked = Asked::of(&args)?;
    if !args.once {
        screen::check()?;
    }
    let (options, notices) = options(&args, &machine)?;
    events::say_notices(&notices);
    let run = if args.once { once::run } else { screen::run };
    follow(options, &Host, &machine, |following| run(&args, &asked, following, &machine))
        .map_err(|error| super::record::refused(&error, false))?
}

/// Of a program that was built without it.
#[cfg(not(feature = "screen"))]
mod screen {
    use pmuscope_machine::Machine;

    use super::{Args, Asked, Following};
    use pmuscope_console::exit::{Exit, not_possible};

    pub(super) fn check() -> anyhow::Result<()> {
        Err(not_possible(
            "this pmuscope was built without its screen. Try: pmuscope top --once; or build it with: cargo \
             build --release",
        ))
    }

    pub(super) fn run(_: &Args, _: &Asked, _: &Following<'_>, _: &Machine) -> anyhow::Result<Exit> {
        check().map(|()| Exit::Done)
    }
}

/// What flags say, where it can be wrong.
struct Asked {
    begun: Invocation,
    delay: std::time::Duration,
}

impl Asked {
    fn of(args: &Args) -> anyhow::Result<Self> {
        if args.output.is_asked() && !args.once {
            let text =
                "a result is of one interval, which --once takes. Try: pmuscope top --once --json";
            return Err(bad_input(text));
        }
        args.output.form()?.check()?;
        if !(0.1..=3600.0).contains(&args.delay) {
            return Err(bad_input(format!(
                "-d {}: an interval is 0.1 to 3600 seconds long. Try: -d 2",
                args.delay
            )));
        }
        Ok(Self { begun: Invocation::now(), delay: std::time::Duration::from_secs_f64(args.delay) })
    }
}

fn options(args: &Args, machine: &Machine) -> anyhow::Result<(FollowOptions, Vec<String>)> {
    let target = args.target.asked("top", &[])?.unwrap_or(Target::System);
    let asked = events::asked(&args.event, machine)?;
    let (mut groups, notices) = events::or_default(asked, &target, machine)?;
    let (count, freq) = (args.count.as_deref(), args.freq.as_deref());
    let sampling: Sampling = sampling(count, freq, machine).map_err(bad_input)?;
    if count.is_some() || freq.is_some() {
        set_rate(&mut groups, sampling);
    }
    let own_command_line = pmuscope_console::invocation::command_line();
    let call_graph = CallGraph::None;
    Ok((FollowOptions { target, groups, sampling, call_graph, own_command_line }, notices))
}

/// Counts what is followed. Rows are made of the aggregate, as they are asked for.
fn ticker<'a>(args: &Args, following: &'a Following<'a>) -> anyhow::Result<Ticker<'a>> {
    let apart = GroupBy { chains: false, tasks: TasksBy::Process, cpus: true };
    Ok(Ticker::new(following, KnownNames::new(args.symbols.of_running()?), apart, Options::COUNTS))
}
