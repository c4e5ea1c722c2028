//! `pmuscope workload exact-loop --count`: a loop of known instructions in regions, so that what they count
//! can be held against it.

use std::thread;

use anyhow::Context as _;
use pmuscope_console::exit::{bad_input, not_possible};
use pmuscope_machine::{CpuSet, place};
use pmuscope_region::{CounterSet, Options, Region, RegionError, Report, Unit};
use pmuscope_workloads::exact;

/// How the loop is counted.
#[derive(Debug, clap::Args)]
pub(super) struct CountArgs {
    /// Count these events in regions; prints cost per iteration
    ///
    /// See docs/region.md.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    count: Vec<String>,
    /// With --count: split the iterations into N regions
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        requires = "count",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    regions: u64,
    /// With --count: run N threads with all iterations each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "count",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    threads: u64,
    /// With --count: migrate to another CPU within each region
    #[arg(long = "move", requires = "count")]
    moving: bool,
    /// With --count: read counters by system call
    #[arg(long, requires = "count")]
    system_calls: bool,
}

impl CountArgs {
    /// Runs the loop; `None` if it is not to be counted.
    pub(super) fn run(&self, rounds: u64) -> anyhow::Result<Option<Report>> {
        if self.count.is_empty() {
            return Ok(None);
        }
        let each = rounds / self.regions;
        if each < 2 {
            let what = "--regions: at most half as many as --rounds";
            return Err(bad_input(what));
        }
        let events: Vec<&str> = self.count.iter().map(String::as_str).collect();
        let options = Options { user_reads: !self.system_calls };
        let set = CounterSet::new(&events, options).map_err(|error| match error {
            RegionError::Event(_) | RegionError::NoEvents | RegionError::TooMany(_) => {
                bad_input(error)
            }
            _ => not_possible(error),
        })?;
        let region = set.region("loop");
        thread::scope(|threads| {
            let others: Vec<_> =
                (1..self.threads).map(|_| threads.spawn(|| self.enter(&region, each))).collect();
            let own = self.enter(&region, each);
            // A panic in a thread is a defect; it is passed on, not hidden.
            let join = |other: thread::ScopedJoinHandle<'_, _>| {
                other.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
            };
            others.into_iter().map(join).fold(own, anyhow::Result::and)
        })?;
        Ok(Some(set.report(&[Unit::done("round")])))
    }

    /// What one thread does.
    fn enter(&self, region: &Region, rounds: u64) -> anyhow::Result<()> {
        let cpus = if self.moving { self.cpus()? } else { Vec::new() };
        for number in 0..self.regions {
            let mut entry = region.enter();
            exact::go_round(rounds / 2);
            if let Some(next) = cpus.get((number % cpus.len().max(1) as u64) as usize) {
                place::set_affinity(next).context("cannot move to another CPU")?;
            }
            exact::go_round(rounds - rounds / 2);
            entry.did(rounds as f64);
        }
        Ok(())
    }

    /// Where to move to, one after the other.
    fn cpus(&self) -> anyhow::Result<Vec<CpuSet>> {
        let allowed = place::affinity().context("cannot read which CPUs this may use")?;
        let each: Vec<CpuSet> = allowed.iter().map(|cpu| CpuSet::from_iter([cpu])).collect();
        if each.len() < 2 {
            let why = format!("--move: this program may run on CPU {allowed} only");
            return Err(not_possible(why));
        }
        Ok(each)
    }
}
