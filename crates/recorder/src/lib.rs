//! Rings to perf.data: readers, affinity, asynchronous writes, compression, loss and own cost.
