//! The only room that calls perf_event_open: targets, counting groups, sampling rings.
