//! One pass over a recording.

use pmuscope_perfdata::reader::{CpuMode, ReadError, Reader, Record, Sample};
use pmuscope_symbols::RangeMap;

use crate::counts::{Counts, Key};
use crate::loss::StreamLoss;
use crate::modules::{ModuleKind, Modules, UNKNOWN};
use crate::tasks::{CommId, Place, Tasks};

/// What a recording holds, before addresses have names.
#[derive(Debug, Default)]
pub struct Collected {
    pub(crate) tasks: Tasks,
    pub(crate) modules: Modules,
    pub(crate) counts: Counts,
    pub(crate) loss: StreamLoss,
    /// Functions the kernel told by name; the value is that of the name among the commands.
    loaded: RangeMap<CommId>,
    /// Where the kernel's text lay: the address of `_text` or `_stext`.
    pub(crate) kernel_text: Option<u64>,
    /// Whether samples of an event carry their period.
    has_period: Vec<bool>,
}

impl Collected {
    /// Reads all records that are left.
    ///
    /// # Errors
    /// Those of [`Reader::next`].
    pub fn from_reader(reader: &mut Reader) -> Result<Self, ReadError> {
        let mut collected = Self::default();
        for event in reader.events() {
            collected.has_period.push(event.has_period());
        }
        while let Some(entry) = reader.next()? {
            collected.take(&entry.record);
        }
        Ok(collected)
    }

    /// For records that do not come from a file: one entry per event, whether its samples carry periods.
    #[cfg(test)]
    pub(crate) fn with_events(has_period: &[bool]) -> Self {
        Self { has_period: has_period.to_vec(), ..Self::default() }
    }

    pub(crate) fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.on_sample(sample),
            Record::Mmap(mmap) => {
                if mmap.kernel && mmap.path.starts_with(b"[kernel.kallsyms]_") && mmap.offset != 0 {
                    self.kernel_text.get_or_insert(mmap.offset);
                }
                self.tasks.on_mmap(mmap, &mut self.modules);
            }
            Record::Comm(comm) => self.tasks.on_comm(comm),
            Record::Fork(task) => self.tasks.on_fork(task),
            Record::Exit(task) => self.tasks.on_exit(task),
            Record::Lost { count, .. } => self.loss.on_lost(*count),
            Record::LostSamples { event, count } => self.loss.on_lost_samples(*event, *count),
            Record::Throttle { .. } => self.loss.throttled += 1,
            Record::Ksymbol(function) => {
                let end = function.start.saturating_add(function.length.into());
                if function.unregistered {
                    self.loaded.remove(function.start, end);
                } else {
                    let name = self.tasks.intern(function.name);
                    self.loaded.insert(function.start, end, name);
                }
            }
            _ => {}
        }
    }

    fn on_sample(&mut self, sample: &Sample<'_>) {
        let comm = match (sample.pid, sample.tid) {
            (Some(pid), Some(tid)) => self.tasks.comm(pid, tid),
            _ => self.tasks.intern(b"-"),
        };
        let place = self.place(sample);
        let key =
            Key { address: place.address, comm, module: place.module, event: sample.event as u32 };
        let by_period = self.has_period.get(sample.event).copied().unwrap_or(false);
        let weight = if by_period { sample.period.unwrap_or(1) } else { 1 };
        self.counts.add(key, sample.time, weight);
    }

    fn place(&mut self, sample: &Sample<'_>) -> Place {
        // Where there is no symbol to be had, addresses are not told apart.
        let nowhere = |module| Place { module, address: 0 };
        let Some(ip) = sample.ip else { return nowhere(UNKNOWN) };
        let mode = match sample.mode {
            // The upper half belongs to the kernel on all 64-bit machines.
            CpuMode::Unknown if ip >> 63 == 1 => CpuMode::Kernel,
            CpuMode::Unknown => CpuMode::User,
            mode => mode,
        };
        match mode {
            CpuMode::Kernel => self.kernel_place(ip),
            CpuMode::Hypervisor => nowhere(self.modules.other("[hypervisor]")),
            CpuMode::GuestKernel | CpuMode::GuestUser => nowhere(self.modules.other("[guest]")),
            CpuMode::User | CpuMode::Unknown => {
                let found = sample.pid.and_then(|pid| self.tasks.find(pid, ip));
                found.map_or(nowhere(UNKNOWN), |place| {
                    let is_other =
                        self.modules.list()[place.module as usize].kind == ModuleKind::Other;
                    if is_other { nowhere(place.module) } else { place }
                })
            }
        }
    }

    fn kernel_place(&mut self, ip: u64) -> Place {
        if let Some(&name) = self.loaded.get(ip) {
            return Place { module: self.modules.kernel_loaded(), address: name.into() };
        }
        self.tasks
            .find_kernel(ip)
            .unwrap_or_else(|| Place { module: self.modules.kernel(), address: ip })
    }
}
