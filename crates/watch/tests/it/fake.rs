//! A kernel that lets breakpoints in by the rules, on a machine of any kind.

use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use pmuscope_abi::{Attr, OpenFlags, breakpoint};
use pmuscope_counters::{Kernel, RingMemory};
use pmuscope_watch::slots::{Accounting, Constant, Kind, Layout, Owner, SlotRequest, SlotTask};

/// Knows only how to open breakpoints.
pub(crate) struct Rules {
    account: Constant,
    /// What is open, each with the other end of its descriptor, which tells when it is closed.
    open: Mutex<Vec<(SlotRequest, UnixStream)>>,
    gone: Vec<i32>,
}

impl Rules {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { account: Constant::new(layout), open: Mutex::default(), gone: Vec::new() }
    }

    pub(crate) fn without_task(mut self, tid: i32) -> Self {
        self.gone.push(tid);
        self
    }

    /// Somebody else has these, for good.
    pub(crate) fn hold(&self, owner: Owner, kind: Kind, number: u32) {
        for _ in 0..number {
            self.account.reserve(SlotRequest { kind, ..SlotRequest::data(owner) }).unwrap();
        }
    }

    /// Whether whoever asked has closed all.
    pub(crate) fn is_all_closed(&self) -> bool {
        self.release_closed();
        self.open.lock().unwrap().is_empty()
    }

    fn release_closed(&self) {
        self.open.lock().unwrap().retain(|(request, other)| {
            let is_open = (&*other).read(&mut [0]).is_err();
            if !is_open {
                self.account.release(*request).unwrap();
            }
            is_open
        });
    }
}

fn not_here<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Kernel for Rules {
    fn open(
        &self,
        attr: &Attr,
        pid: i32,
        cpu: i32,
        _group: Option<BorrowedFd<'_>>,
        _flags: OpenFlags,
    ) -> io::Result<OwnedFd> {
        let error = |errno: rustix::io::Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        if self.gone.contains(&pid) {
            return Err(error(rustix::io::Errno::SRCH));
        }
        self.release_closed();
        let owner = match (u64::try_from(pid), u32::try_from(cpu)) {
            (Err(_), Ok(cpu)) => Owner::Cpu(cpu),
            (Ok(tid), Ok(cpu)) => Owner::TaskOnCpu(SlotTask(tid), cpu),
            (Ok(tid), Err(_)) => Owner::Task(SlotTask(tid)),
            (Err(_), Err(_)) => return Err(error(rustix::io::Errno::INVAL)),
        };
        let kind = if attr.bp_type == breakpoint::EXECUTE { Kind::Instruction } else { Kind::Data };
        let request = SlotRequest { kind, ..SlotRequest::data(owner) };
        self.account.reserve(request).map_err(|_| error(rustix::io::Errno::NOSPC))?;
        let (given, kept) = UnixStream::pair()?;
        kept.set_nonblocking(true)?;
        self.open.lock().unwrap().push((request, kept));
        Ok(given.into())
    }

    fn event_id(&self, _event: BorrowedFd<'_>) -> io::Result<u64> {
        not_here()
    }
    fn redirect(&self, _event: BorrowedFd<'_>, _owner: BorrowedFd<'_>) -> io::Result<()> {
        not_here()
    }
    fn enable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        not_here()
    }
    fn disable(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        not_here()
    }
    fn enable_alone(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        not_here()
    }
    fn disable_alone(&self, _event: BorrowedFd<'_>) -> io::Result<()> {
        not_here()
    }
    fn set_period(&self, _event: BorrowedFd<'_>, _period: u64) -> io::Result<()> {
        not_here()
    }
    fn read(&self, _event: BorrowedFd<'_>, _words: &mut [u64]) -> io::Result<usize> {
        not_here()
    }
    fn map(
        &self,
        _event: BorrowedFd<'_>,
        _bytes: usize,
        _writable: bool,
    ) -> io::Result<RingMemory> {
        not_here()
    }
}
