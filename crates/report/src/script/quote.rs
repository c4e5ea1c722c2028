//! Foreign text for where it goes.

use crate::escape;

/// Appends a JSON string that is harmless when printed, too.
pub(super) fn json(out: &mut String, text: &str) {
    // Strings cannot fail to serialise.
    out.push_str(&serde_json::to_string(&escape(text)).unwrap_or_default());
}
