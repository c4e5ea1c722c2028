//! What this machine is and allows, read from /sys and /proc; placement of threads and pages.
