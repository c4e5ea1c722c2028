//! Build ids; address to function, line and inlined frames.
