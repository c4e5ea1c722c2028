//! What `read(2)` on an event returns.

use pmuscope_abi::ReadFormat;

/// The readings of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Value {
    /// The count, in units of the event.
    pub value: u64,
    /// Nanoseconds enabled, if requested.
    pub enabled_ns: Option<u64>,
    /// Nanoseconds on a counter, if requested.
    pub running_ns: Option<u64>,
    /// ID of the event, if requested.
    pub id: Option<u64>,
    /// Records lost because the ring buffer was full, if the kernel reports them (Linux 6.0).
    pub lost: Option<u64>,
}

impl Value {
    /// Decodes the words of a read without [`ReadFormat::GROUP`]; `None` if there are too few.
    ///
    /// Layout: value, enabled, running, id, lost, each but the first only if asked for
    /// (`include/uapi/linux/perf_event.h`).
    #[must_use]
    pub fn decode(format: ReadFormat, words: &[u64]) -> Option<Self> {
        let mut words = words.iter().copied();
        let mut next_if = |wanted: ReadFormat| -> Option<Option<u64>> {
            if format.contains(wanted) { words.next().map(Some) } else { Some(None) }
        };
        let value = next_if(ReadFormat::empty())??;
        let enabled_ns = next_if(ReadFormat::TOTAL_TIME_ENABLED)?;
        let running_ns = next_if(ReadFormat::TOTAL_TIME_RUNNING)?;
        let id = next_if(ReadFormat::ID)?;
        let lost = next_if(ReadFormat::LOST)?;
        Some(Self { value, enabled_ns, running_ns, id, lost })
    }

    /// Decodes the words of a read with [`ReadFormat::GROUP`]: one entry per member, leader first.
    /// `None` if there are fewer words than the leading count says.
    #[must_use]
    pub fn decode_group(format: ReadFormat, words: &[u64]) -> Option<Vec<Self>> {
        let mut words = words.iter().copied();
        let members = words.next()?;
        let mut next_if =
            |wanted| if format.contains(wanted) { words.next().map(Some) } else { Some(None) };
        let enabled_ns = next_if(ReadFormat::TOTAL_TIME_ENABLED)?;
        let running_ns = next_if(ReadFormat::TOTAL_TIME_RUNNING)?;
        let mut values = Vec::new();
        for _ in 0..members {
            let value = next_if(ReadFormat::empty())??;
            let id = next_if(ReadFormat::ID)?;
            let lost = next_if(ReadFormat::LOST)?;
            values.push(Self { value, enabled_ns, running_ns, id, lost });
        }
        Some(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_has_its_place() {
        let all = ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING
            | ReadFormat::ID
            | ReadFormat::LOST;
        let value = Value::decode(all, &[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(
            value,
            Value {
                value: 1,
                enabled_ns: Some(2),
                running_ns: Some(3),
                id: Some(4),
                lost: Some(5)
            }
        );
        assert_eq!(Value::decode(all, &[1, 2, 3, 4]), None);
        let plain = Value::decode(ReadFormat::empty(), &[9]).unwrap();
        assert_eq!((plain.value, plain.lost), (9, None));
    }

    #[test]
    fn a_group_has_times_once_and_loss_per_member() {
        let format =
            ReadFormat::GROUP | ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::ID | ReadFormat::LOST;
        let values = Value::decode_group(format, &[2, 70, 1, 11, 0, 2, 12, 5]).unwrap();
        assert_eq!(
            values.iter().map(|v| (v.value, v.id, v.lost)).collect::<Vec<_>>(),
            [(1, Some(11), Some(0)), (2, Some(12), Some(5))]
        );
        assert_eq!(values[1].enabled_ns, Some(70));
        assert_eq!(Value::decode_group(format, &[u64::MAX, 0, 1]), None);
    }
}
