//! Why a workload did not run.

/// Why a workload did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// An option that has no sense.
    #[error("workload {workload}: {what}")]
    Options {
        /// Which workload.
        workload: &'static str,
        /// What is wrong with which value, and what would be right.
        what: String,
    },
    /// A thread could not be started or placed, or a clock not read.
    #[error("workload: cannot {what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

impl WorkloadError {
    pub(crate) fn system(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::System { what: what.into(), source: source.into() }
    }
}
