//! A small order service: each request is an order in JSON that is parsed, sorted, added up by customer, and answered.
//!
//! It is what a profile is shown with: its functions have names that say what they do, their callers are worth seeing,
//! and allocation, copying and the kernel have their part, as in any service.
//!
//! ```text
//! serve ─┬─ parse_order ── serde_json
//!        ├─ sort_by_price ── sort
//!        ├─ sum_by_customer ── hash table
//!        └─ render_reply ── formatting, copies
//! ```

mod service;

use std::time::{Duration, Instant};

use crate::error::WorkloadError;
use crate::facts::{OrdersFacts, WorkloadFacts};
use crate::place::{self, Placement};

/// Name on the command line.
pub const NAME: &str = "orders";

/// What to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long, by the wall clock.
    pub duration: Duration,
    /// `None`: one per CPU that this process may use.
    pub threads: Option<usize>,
    /// Keep each thread on one CPU.
    pub pin: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { duration: Duration::from_secs(10), threads: None, pin: false }
    }
}

/// Serves requests, one after another in each thread; returns after the duration asked for.
///
/// # Errors
/// Options without sense, or a thread that cannot be started or placed.
pub fn run(options: &Options) -> Result<WorkloadFacts, WorkloadError> {
    let cpus = place::cpus()?;
    let threads = place::threads(NAME, options.threads, cpus.len())?;
    let pin_to = if options.pin { &cpus[..] } else { &[] };
    let started = Instant::now();
    let end = started + options.duration;
    let served = place::run_team(NAME, &Placement { threads, pin_to }, |index| {
        service::serve_until(end, index as u64)
    })?;
    let time_s = started.elapsed().as_secs_f64();
    let mut facts = place::facts(NAME, threads, time_s)?;
    let requests: u64 = served.iter().sum();
    facts.orders = Some(OrdersFacts { requests, per_s: requests as f64 / time_s });
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted() {
        let options =
            Options { duration: Duration::from_millis(30), threads: Some(2), ..Options::default() };
        let facts = run(&options).unwrap();
        let orders = facts.orders.unwrap();
        assert!(orders.requests >= 2, "each thread serves one at least: {orders:?}");
        assert!((orders.per_s * facts.time_s - orders.requests as f64).abs() < 1e-6);
        let none = run(&Options { threads: Some(0), ..options });
        assert!(none.unwrap_err().to_string().contains("0 threads"));
    }
}
