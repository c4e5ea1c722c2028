//! Writes a recording in which hardly any two samples have the same call chain, as large as it is asked for.
//!
//! ```text
//! cargo run --release -p pmuscope-perfdata --example distinct_stacks -- SAMPLES FILE
//! ```

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [samples, path] = &arguments[..] else {
        return Err("usage: distinct_stacks SAMPLES FILE".into());
    };
    let samples = samples.parse().map_err(|_| format!("{samples} is no number of samples"))?;
    Ok(pmuscope_testkit::distinct_stacks::write(samples, Path::new(path))?)
}
