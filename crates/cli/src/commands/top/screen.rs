//! The screen on a terminal: keys in, drawings out, and everything as it was at the end.
//!
//! ```text
//!  this thread   interval ─ names ─ interval ─ names ─ …        waits for nobody
//!                     └─► profile ─────┐
//!  screen's      keys ─► state ◄───────┘ ─► draw                ten times a second at most
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use pmuscope_console::exit::{Exit, bad_input};
use pmuscope_machine::Machine;
use pmuscope_profile::Profile;
use pmuscope_recorder::Following;
use pmuscope_report::{Next, Screen};

use super::{Args, Asked, Ticker};
use crate::commands::screen::{OurTerminal, TerminalInput, refusal};
use crate::signals::Stop;

/// Whether the user has left is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Intervals that wait to be drawn.
const WAITING: usize = 2;

/// What the counting thread says.
enum Message {
    Interval(Box<Profile>),
    /// The processes that were looked at have ended.
    Ended,
}

/// Refuses where there is nothing to draw on.
pub(super) fn check() -> anyhow::Result<()> {
    let Some(what) = refusal() else { return Ok(()) };
    let message = format!(
        "top needs a terminal, and {what}. Try: pmuscope top --once, or pmuscope top --once --json"
    );
    Err(bad_input(message))
}

pub(super) fn run(
    args: &Args,
    asked: &Asked,
    following: &Following<'_>,
    machine: &Machine,
) -> anyhow::Result<Exit> {
    let topology = machine.topology()?;
    let node = |cpu: u32| Some((cpu, topology.node_of(cpu)?));
    let nodes: BTreeMap<u32, u32> = topology.online.iter().filter_map(node).collect();
    let mut ticker = super::ticker(args, following)?;
    let stop = Stop::new()?;
    let screen = Screen::new(args.by, crate::terminal::style(), nodes);
    let (send, receive) = sync_channel(WAITING);
    let left = &AtomicBool::new(false);
    std::thread::scope(|threads| {
        let drawing = threads.spawn(move || {
            let drawn = draw(screen, &receive, &stop);
            left.store(true, Ordering::Relaxed);
            drawn
        });
        let counted = count(&mut ticker, asked.delay, &send, left);
        // The screen ends when nobody can send to it.
        drop(send);
        let drawn = drawing.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
        counted.and(drawn)
    })?;
    Ok(Exit::Done)
}

/// Sends intervals until nobody wants them.
fn count(
    ticker: &mut Ticker<'_>,
    delay: Duration,
    send: &SyncSender<Message>,
    left: &AtomicBool,
) -> anyhow::Result<()> {
    let has_left = || left.load(Ordering::Relaxed);
    loop {
        let tick = ticker.next(delay, has_left)?;
        if has_left() {
            return Ok(());
        }
        // A terminal that takes nothing must not stop the counting: the interval is left out.
        let _ = send.try_send(Message::Interval(Box::new(tick.profile)));
        if tick.last {
            // It goes on to show the last one.
            let _ = send.send(Message::Ended);
            while !has_left() {
                std::thread::sleep(LOOK_EVERY);
            }
            return Ok(());
        }
    }
}

/// Draws until the user leaves.
fn draw(mut screen: Screen, messages: &Receiver<Message>, stop: &Stop) -> anyhow::Result<()> {
    let mut terminal = OurTerminal::take()?;
    terminal.draw(|frame| screen.draw(frame))?;
    loop {
        let mut changed = false;
        match terminal.next()? {
            TerminalInput::Key(key) if screen.key(key) == Next::Quit => return Ok(()),
            TerminalInput::Gone => return Ok(()),
            TerminalInput::Key(_) | TerminalInput::Resized => changed = true,
            TerminalInput::Nothing => {}
        }
        match messages.try_recv() {
            Ok(Message::Interval(profile)) => {
                screen.take(*profile);
                changed = true;
            }
            Ok(Message::Ended) => {
                screen.end("the observed processes have ended");
                changed = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        if stop.asked() {
            return Ok(());
        }
        if changed {
            terminal.draw(|frame| screen.draw(frame))?;
        }
    }
}
