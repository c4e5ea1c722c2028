//! Whether recordings of two sides were made in turn, or one side after the other.

use pmuscope_perfdata::info::RecordingInfo;

/// Seconds between two sides where all recordings of one were over before the first of the other began; `None`
/// where they were made in turn, or one does not have its time.
pub(crate) fn apart<'a>(
    before: impl Iterator<Item = Option<&'a RecordingInfo>>,
    after: impl Iterator<Item = Option<&'a RecordingInfo>>,
) -> Option<f64> {
    let ((a, b), (c, d)) = (span(before)?, span(after)?);
    Some(f64::max(a - d, c - b)).filter(|gap| *gap >= 0.0)
}

/// Seconds since 1970 of the first start and the last end.
fn span<'a>(side: impl Iterator<Item = Option<&'a RecordingInfo>>) -> Option<(f64, f64)> {
    let of = |info: Option<&RecordingInfo>| {
        let info = info.filter(|info| info.started_unix_ns > 0)?;
        let start = info.started_unix_ns as f64 / 1e9;
        Some((start, start + info.duration_s))
    };
    let all = side.map(of).collect::<Option<Vec<(f64, f64)>>>()?;
    all.into_iter().reduce(|(start, end), (a, b)| (start.min(a), end.max(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(start: u64) -> RecordingInfo {
        let started_unix_ns = start * 1_000_000_000;
        RecordingInfo { started_unix_ns, duration_s: 5.0, ..RecordingInfo::default() }
    }

    fn of(before: &[u64], after: &[u64]) -> Option<f64> {
        let side = |starts: &[u64]| starts.iter().map(|start| recording(*start)).collect();
        let (before, after): (Vec<_>, Vec<_>) = (side(before), side(after));
        apart(before.iter().map(Some), after.iter().map(Some))
    }

    #[test]
    fn sides_recorded_in_turn_are_not_apart() {
        assert_eq!(of(&[10, 30], &[20, 40]), None);
        assert_eq!(of(&[10, 20], &[30, 40]), Some(5.0));
        assert_eq!(of(&[30, 40], &[10, 20]), Some(5.0));
        assert_eq!(of(&[10, 0], &[30, 40]), None, "one without a time");
        assert_eq!(of(&[], &[30]), None);
    }
}
