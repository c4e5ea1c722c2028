//! All connections, on one thread.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::Routes;
use crate::address::ListenAddress;
use crate::connection::{Connection, LoopState, NextStep};
use crate::gate::Gate;
use crate::limits::ServerLimits;
use crate::token::Token;
use crate::workers::Workers;

/// Connections that are accepted before the others get their turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// How long nothing is accepted where the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not free, or not there.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: io::Error,
    },
    /// The kernel has no random bytes.
    #[error("cannot make a secret address: {0}")]
    Random(io::Error),
    /// No thread can be started, or no descriptors are left.
    #[error("cannot serve: {0}")]
    Start(io::Error),
}

/// A server that listens, and answers once it [runs](Server::run).
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    gate: Gate,
    limits: ServerLimits,
}

impl Server {
    /// Listens on `address`, with a new token.
    ///
    /// # Errors
    /// If another program has the port, or the kernel has no random bytes.
    pub fn bind(address: ListenAddress) -> Result<Self, ServeError> {
        let address = address.socket();
        let failed = |error| ServeError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = Token::new().map_err(ServeError::Random)?;
        let gate = Gate { token, viewer: None };
        Ok(Self { listener, address, gate, limits: ServerLimits::default() })
    }

    /// Lets pages of one foreign origin, such as `https://viewer.example`, read what
    /// [`Routes::is_for_viewer`] names.
    #[must_use]
    pub fn allow_origin(mut self, origin: &'static str) -> Self {
        self.gate.viewer = Some(origin);
        self
    }

    /// Takes other limits than the default ones.
    #[must_use]
    pub fn limit(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Where it listens, with the port that was free.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The secret.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.gate.token
    }

    /// The address with the secret, for browsers: `http://127.0.0.1:4000/TOKEN/`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.gate.token.as_str())
    }

    /// Serves until `stop` is readable. Answers that are being made then are not awaited.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn run(&self, routes: &Arc<dyn Routes>, stop: BorrowedFd<'_>) -> Result<(), ServeError> {
        let workers = Workers::start(self.limits.workers, routes).map_err(ServeError::Start)?;
        let shared = LoopState::new(&self.gate, &**routes, &self.limits);
        let listener = &self.listener;
        let mut running = EventLoop {
            listener,
            workers,
            shared,
            connections: BTreeMap::new(),
            opened: 0,
            paused_until: None,
        };
        while running.turn(stop).map_err(ServeError::Start)? {}
        Ok(())
    }
}

struct EventLoop<'a> {
    listener: &'a TcpListener,
    workers: Workers,
    shared: LoopState<'a>,
    /// By number, so the oldest first.
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    /// Nothing is accepted before.
    paused_until: Option<Instant>,
}

impl EventLoop<'_> {
    /// Waits for something to happen, and does what is to be done then; `false` at the end.
    fn turn(&mut self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let accepts = match self.paused_until {
            Some(_) => PollFlags::empty(),
            None => PollFlags::IN,
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.workers.ready(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), accepts),
        ];
        // A connection that waits for a worker would report its client's end again and again.
        let waiting = self.connections.iter().filter(|(_, one)| !one.is_working());
        let (numbers, of_clients): (Vec<u64>, Vec<PollFd<'_>>) = waiting
            .map(|(&number, one)| (number, PollFd::from_borrowed_fd(one.fd(), one.interest())))
            .unzip();
        fds.extend(of_clients);
        match poll(&mut fds, self.timeout().as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        let happened: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if happened[0] {
            return Ok(false);
        }
        if happened[1] {
            self.send_answers();
        }
        for (&number, _) in numbers.iter().zip(&happened[3..]).filter(|(_, happened)| **happened) {
            self.go_on(number);
        }
        self.close_late();
        if happened[2] {
            self.accept();
        }
        Ok(true)
    }

    /// Until the next deadline.
    fn timeout(&self) -> Option<Timespec> {
        let deadlines = self.connections.values().filter_map(Connection::deadline);
        let next = deadlines.chain(self.paused_until).min()?;
        // A millisecond more, or the clock of poll would wake us just before it.
        let left = next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    fn send_answers(&mut self) {
        for (number, answer) in self.workers.take() {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            let step = connection.answer(&mut self.shared, answer);
            self.take(number, step);
        }
    }

    fn go_on(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let step = connection.go_on(&mut self.shared);
        self.take(number, step);
    }

    fn take(&mut self, number: u64, step: NextStep) {
        match step {
            NextStep::Wait => {}
            NextStep::Ask(request) => {
                if !self.workers.ask(number, request) {
                    self.close(number);
                }
            }
            NextStep::Close => self.close(number),
        }
    }

    fn close(&mut self, number: u64) {
        if let Some(connection) = self.connections.remove(&number) {
            self.shared.used -= connection.reserved;
        }
    }

    fn close_late(&mut self) {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|&until| until > now);
        let is_late = |one: &Connection| one.deadline().is_some_and(|deadline| deadline <= now);
        let late = self.connections.iter().filter(|(_, one)| is_late(one));
        let late: Vec<u64> = late.map(|(&number, _)| number).collect();
        late.into_iter().for_each(|number| self.close(number));
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if !self.make_room() {
                        continue; // which closes it
                    }
                    if let Ok(connection) = Connection::new(stream, self.shared.limits) {
                        self.connections.insert(self.opened, connection);
                        self.opened += 1;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client has gone.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    /// Makes room for a connection: of those that need not go on, the oldest is closed. Whether there is room.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < self.shared.limits.connections {
            return true;
        }
        let oldest = |is: fn(&Connection) -> bool| {
            self.connections.iter().find(|(_, one)| is(one)).map(|(&number, _)| number)
        };
        let found = oldest(Connection::is_closing).or_else(|| oldest(|one| !one.knows_token));
        found.map(|number| self.close(number)).is_some()
    }
}
