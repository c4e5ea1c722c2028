//! The program as a user runs it.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy takes helpers of a test binary for no tests

mod accesses;
mod actor;
mod alloc;
mod bench;
mod bench_numa;
mod branches;
mod breakpoint;
mod browse;
mod bundle;
mod call_stacks;
mod cgroups;
mod compare;
mod corpus;
mod crafted;
mod diff;
mod disk;
#[path = "../../../perfdata/tests/it/distinct_stacks.rs"]
mod distinct_stacks;
mod docs;
mod doctor;
mod events;
mod exact;
mod filters;
mod flame_direction;
mod fleet;
mod forms;
mod generate;
mod ground_truth;
mod guest_script;
mod guest_shell;
mod harness;
#[path = "../../../profile/tests/it/hit_file.rs"]
mod hit_file;
mod hostile;
mod interface;
mod json;
mod killed;
mod lab;
mod lab_machines;
mod lab_record;
mod leader_sampling;
mod library;
mod list;
mod long_runs;
mod memory;
mod memory_limit;
mod metric_pages;
mod metrics;
mod mistakes;
mod names;
mod narrow;
mod numa;
mod numa_advise;
mod numa_balance;
mod numa_guests;
mod numa_limits;
mod numa_show;
mod opens;
mod other_data;
mod outputs;
mod packages;
mod pages;
mod peers;
mod phases;
#[path = "../../../perfdata/tests/it/plain_file.rs"]
mod plain_file;
mod recorded_names;
mod recording;
mod region;
mod replace;
mod report;
mod rights;
mod ring;
mod script;
mod serve;
mod serve_viewers;
mod sharing;
#[path = "../../../profile/tests/it/sharing_file.rs"]
mod sharing_file;
mod sharing_watch;
mod simulated;
#[path = "../../../profile/tests/it/simulator.rs"]
mod simulator;
mod slots;
mod stacks;
mod stat;
mod streams;
mod strobe;
mod strobe_targets;
mod sweep;
mod symbols;
mod targets;
mod top;
#[cfg(feature = "screen")]
mod top_screen;
mod tracefs;
mod usage;
mod versus;
mod views;
#[path = "../../../profile/tests/it/wait_file.rs"]
mod wait_file;
mod waits;
mod watch;
mod watch_guests;
mod watch_peers;
mod watch_report;
mod webdriver;
mod windows;
