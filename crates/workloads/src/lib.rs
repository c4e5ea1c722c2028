//! Programs under test with known behaviour: function mix, stencil.
