//! Event names to attributes: generic, sysfs PMU, raw, tracepoint, breakpoint; modifiers and groups.

#![forbid(unsafe_code)]
