//! Health of an agent, for monitoring: a file that is replaced after each bin, and the same text from a socket.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::agent::BinReport;

/// Name of the file in the spool.
const FILE: &str = "health.json";
/// Name of the socket in the spool.
const SOCKET: &str = "health.socket";

/// What can be read of an agent; docs/fleet-agent.md describes it.
#[derive(Debug, Serialize)]
struct HealthText<'a> {
    schema: &'static str,
    agent: &'static str,
    pid: u32,
    /// When it began to run, and when the last bin ended; seconds since 1970.
    started: u64,
    last_bin_end: u64,
    bin_seconds: f64,
    bins: u64,
    samples: u64,
    lost_samples: u64,
    dropped_samples: u64,
    unpushed_samples: u64,
    delivered_files: u64,
    waiting_files: u64,
    waiting_bytes: u64,
    /// Of the last bin, 0 to 1 of the machine.
    overhead: f64,
    /// Samples of the last bin that receivers did not take, by service.
    unpushed_services: &'a BTreeMap<String, u64>,
    /// Of the last bin.
    warnings: &'a [String],
}

/// Reports the health of an agent. Sums are since its start.
#[derive(Debug)]
pub(crate) struct Health {
    file: PathBuf,
    socket: PathBuf,
    /// What the socket says.
    text: Arc<Mutex<String>>,
    started: u64,
    sums: HealthSums,
}

#[derive(Debug, Default)]
struct HealthSums {
    bins: u64,
    samples: u64,
    lost: u64,
    dropped: u64,
    unpushed: u64,
    delivered: u64,
}

impl Health {
    /// Listens on the socket of a spool that nobody else uses.
    pub(crate) fn new(spool: &Path) -> io::Result<Self> {
        let socket = spool.join(SOCKET);
        // Of an agent that was killed.
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        let text = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&text);
        std::thread::Builder::new().name("health".into()).spawn(move || {
            for connection in listener.incoming() {
                // It may be gone already.
                let Ok(mut connection) = connection else { continue };
                let text = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _ = connection.write_all(text.as_bytes());
            }
        })?;
        Ok(Self {
            file: spool.join(FILE),
            socket,
            text,
            started: now(),
            sums: HealthSums::default(),
        })
    }

    /// Notes a bin. A disk that is full costs the file, not the agent: it becomes old, which says enough.
    pub(crate) fn note(&mut self, bin: &BinReport) {
        let sums = &mut self.sums;
        sums.bins += 1;
        sums.samples += bin.samples;
        sums.lost += bin.lost;
        sums.dropped += bin.dropped;
        sums.unpushed += bin.unpushed;
        sums.delivered += bin.delivered;
        let text = HealthText {
            schema: "pmuscope/fleet-agent-health/1",
            agent: concat!("pmuscope-fleet ", env!("CARGO_PKG_VERSION")),
            pid: std::process::id(),
            started: self.started,
            last_bin_end: now(),
            bin_seconds: bin.seconds,
            bins: sums.bins,
            samples: sums.samples,
            lost_samples: sums.lost,
            dropped_samples: sums.dropped,
            unpushed_samples: sums.unpushed,
            delivered_files: sums.delivered,
            waiting_files: bin.waiting.files,
            waiting_bytes: bin.waiting.bytes,
            overhead: bin.overhead,
            unpushed_services: &bin.unpushed_services,
            warnings: &bin.warnings,
        };
        let Ok(mut text) = serde_json::to_string_pretty(&text) else { return };
        text.push('\n');
        let part = self.file.with_extension("part");
        let _ = fs::write(&part, &text).and_then(|()| fs::rename(&part, &self.file));
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::spool::Backlog;

    #[test]
    fn the_file_and_the_socket_say_the_same_and_sums_grow() {
        let spool = tempfile::tempdir().unwrap();
        let mut health = Health::new(spool.path()).unwrap();
        let bin = BinReport {
            seconds: 300.0,
            samples: 100,
            lost: 1,
            cpu_s: 0.1,
            dropped: 2,
            delivered: 6,
            waiting: Backlog { files: 3, bytes: 500 },
            unpushed: 4,
            unpushed_services: [("gzip".to_owned(), 4)].into(),
            warnings: vec!["no \"answer\"".into()],
            unkept: None,
            overhead: 0.001,
            new_frequency_hz: None,
            measurements: Vec::new(),
        };
        health.note(&bin);
        health.note(&bin);
        let file = fs::read_to_string(spool.path().join(FILE)).unwrap();
        let mut said = String::new();
        let mut socket = UnixStream::connect(spool.path().join(SOCKET)).unwrap();
        socket.read_to_string(&mut said).unwrap();
        assert_eq!(file, said);
        let text: serde_json::Value = serde_json::from_str(&file).unwrap();
        let of = |key: &str| text[key].as_u64().unwrap();
        assert_eq!(
            [of("bins"), of("samples"), of("lost_samples"), of("waiting_files")],
            [2, 200, 2, 3]
        );
        assert_eq!(
            (of("unpushed_samples"), text["unpushed_services"]["gzip"].as_u64()),
            (8, Some(4))
        );
        assert_eq!(text["warnings"][0], "no \"answer\"");
        drop(health);
        assert!(!spool.path().join(SOCKET).exists());
        // One that was killed leaves its socket.
        fs::write(spool.path().join(SOCKET), "").unwrap();
        Health::new(spool.path()).unwrap();
    }
}
