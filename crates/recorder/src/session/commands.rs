//! Commands while recording (`--control`), with perf's words.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::{Act, Due, Session};
use crate::error::RecorderError;
use crate::options::Control;

/// perf's limit for a command.
const LONGEST: usize = 64;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Start all events, or this one.
    Enable(Option<String>),
    /// Stop all events, or this one.
    Disable(Option<String>),
    /// Write out the flight recorder, or begin a new file.
    Snapshot,
    /// End the recording.
    Stop,
    /// Acknowledge only.
    Ping,
    /// List the events (to the acknowledgement channel, if there is one).
    EventList,
    /// Not understood; acknowledged as such.
    Unknown(String),
}

/// Reads commands line by line.
#[derive(Debug)]
pub(super) struct Commands<'a> {
    control: &'a Control,
    partial: Vec<u8>,
}

impl<'a> Commands<'a> {
    pub(super) fn new(control: &'a Control) -> Self {
        Self { control, partial: Vec::new() }
    }

    /// For polling.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.control.commands.as_fd()
    }

    /// The commands that have arrived.
    pub(super) fn read(&mut self) -> Vec<Command> {
        let mut bytes = [0_u8; 256];
        // The descriptor was ready; what cannot be read is no command.
        let count = rustix::io::read(&self.control.commands, &mut bytes).unwrap_or(0);
        self.partial.extend_from_slice(&bytes[..count]);
        let mut commands = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| matches!(byte, b'\n' | 0)) {
            let line: Vec<u8> = self.partial.drain(..=end).take(end).collect();
            let line = String::from_utf8_lossy(&line);
            if !line.trim().is_empty() {
                commands.push(parse(line.trim()));
            }
        }
        if self.partial.len() > LONGEST {
            self.partial.clear();
            commands.push(Command::Unknown("a line of more than 64 bytes".into()));
        }
        commands
    }

    /// Tells that a command was carried out.
    pub(super) fn acknowledge(&self) {
        self.answer("ack\n");
    }

    /// Writes to whoever listens; nobody listening is no error.
    pub(super) fn answer(&self, text: &str) {
        if let Some(channel) = &self.control.acknowledgements {
            let _ = rustix::io::write(channel, text.as_bytes());
        }
    }
}

fn parse(line: &str) -> Command {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let event = Some(rest.trim()).filter(|name| !name.is_empty()).map(str::to_owned);
    match word {
        "enable" => Command::Enable(event),
        "disable" => Command::Disable(event),
        "snapshot" => Command::Snapshot,
        "stop" => Command::Stop,
        "ping" => Command::Ping,
        "evlist" => Command::EventList,
        _ => Command::Unknown(line.chars().take(LONGEST).collect()),
    }
}

impl Session<'_> {
    /// Carries out the commands that have arrived; true for the one that ends the recording.
    pub(super) fn obey(
        &self,
        commands: Option<&mut Commands<'_>>,
        elapsed: Duration,
        act: Act<'_>,
    ) -> Result<bool, RecorderError> {
        let Some(commands) = commands else { return Ok(false) };
        for command in commands.read() {
            match command {
                Command::Enable(None) => self.enable()?,
                Command::Disable(None) => self.disable_sampling()?,
                Command::Enable(Some(name)) if !self.switch_event(commands, &name, true)? => {
                    continue;
                }
                Command::Disable(Some(name)) if !self.switch_event(commands, &name, false)? => {
                    continue;
                }
                Command::Enable(Some(_)) | Command::Disable(Some(_)) => {}
                Command::Snapshot if self.takes_switches() => act(Due::Switch, elapsed)?,
                Command::Snapshot => {
                    commands.answer("error: snapshot needs --overwrite or --switch-output\n");
                    continue;
                }
                Command::Stop => {
                    commands.acknowledge();
                    return Ok(true);
                }
                Command::Ping => {}
                Command::EventList => {
                    for request in self.set.requests() {
                        commands.answer(&format!("{}\n", request.name));
                    }
                }
                Command::Unknown(line) => {
                    commands.answer(&format!("error: not a command: {line}\n"));
                    continue;
                }
            }
            commands.acknowledge();
        }
        Ok(false)
    }

    /// Whether there is such an event; if not, says so.
    fn switch_event(
        &self,
        commands: &Commands<'_>,
        name: &str,
        on: bool,
    ) -> Result<bool, RecorderError> {
        let is_there = self.set.switch_event(self.kernel, name, on)?;
        if !is_there {
            commands.answer(&format!("error: no event {name}\n"));
        }
        Ok(is_there)
    }

    /// Stops the sampling events; the sideband goes on, so that what starts meanwhile has a name.
    fn disable_sampling(&self) -> Result<(), RecorderError> {
        for request in self.set.requests().iter().filter(|request| request.attr.sample > 0) {
            self.set.switch_event(self.kernel, &request.name, false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn lines_become_commands_also_in_pieces() {
        let (commands, mut peer) = std::io::pipe().unwrap();
        let (mut acks, ack_writer) = std::io::pipe().unwrap();
        let control =
            Control { commands: commands.into(), acknowledgements: Some(ack_writer.into()) };
        let mut reader = Commands::new(&control);
        peer.write_all(b"enable\ndisable cpu-clock\nsnap").unwrap();
        assert_eq!(
            reader.read(),
            [Command::Enable(None), Command::Disable(Some("cpu-clock".into()))]
        );
        peer.write_all(b"shot\0stop\nfly\n").unwrap();
        assert_eq!(
            reader.read(),
            [Command::Snapshot, Command::Stop, Command::Unknown("fly".into())]
        );
        peer.write_all(&[b'x'; 100]).unwrap();
        assert!(matches!(reader.read().as_slice(), [Command::Unknown(_)]));
        reader.acknowledge();
        let mut ack = [0; 4];
        acks.read_exact(&mut ack).unwrap();
        assert_eq!(&ack, b"ack\n");
    }
}
