//! `--control`: where commands come from.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use pmuscope_recorder::Control;

/// Opens `fifo:CTL[,ACK]` or `fd:N[,M]`.
pub(super) fn open(text: &str) -> Result<Control, String> {
    let wrong = || format!("--control {text}: not known. Try: fifo:PATH,ACKPATH or fd:N,M");
    let (kind, channels) = text.split_once(':').ok_or_else(wrong)?;
    let (commands, acknowledgements) = match channels.split_once(',') {
        Some((commands, acknowledgements)) => (commands, Some(acknowledgements)),
        None => (channels, None),
    };
    let open: fn(&str) -> std::io::Result<OwnedFd> = match kind {
        "fifo" => fifo,
        "fd" => descriptor,
        _ => return Err(wrong()),
    };
    let opened =
        |channel: &str| open(channel).map_err(|error| format!("--control {channel}: {error}"));
    Ok(Control {
        commands: opened(commands)?,
        acknowledgements: acknowledgements.map(opened).transpose()?,
    })
}

/// For reading and writing, so that peers may come and go without our seeing the end of the file.
fn fifo(path: &str) -> std::io::Result<OwnedFd> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = File::options().read(true).write(true).custom_flags(nonblocking).open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_fifo() && !kind.is_char_device() && !kind.is_socket() {
        // A file is always ready to be read, and says nothing.
        let text = "it is no FIFO. Try: mkfifo PATH";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    Ok(file.into())
}

/// A copy of a descriptor that we were started with: opening it by its path needs no unsafe code.
fn descriptor(number: &str) -> std::io::Result<OwnedFd> {
    let number: u32 = number
        .parse()
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a number"))?;
    fifo(&format!("/proc/self/fd/{number}"))
}
