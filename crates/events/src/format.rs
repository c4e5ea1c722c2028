//! Where the kernel says a term goes: `config:0-7,32-35`.

/// A configuration word of `perf_event_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// `config`.
    Config,
    /// `config1`.
    Config1,
    /// `config2`.
    Config2,
    /// `config3` (Linux 6.3).
    Config3,
    /// `config4` (Linux 6.18).
    Config4,
}

impl Word {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "config" => Self::Config,
            "config1" => Self::Config1,
            "config2" => Self::Config2,
            "config3" => Self::Config3,
            "config4" => Self::Config4,
            _ => return None,
        })
    }
}

/// The bits of a term: the lowest bits of its value go to the first range, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// The word.
    pub word: Word,
    /// First and last bit of each range, both inclusive, in the order of the value's bits.
    pub ranges: Vec<(u8, u8)>,
}

impl Format {
    /// Reads the text of `/sys/bus/event_source/devices/PMU/format/TERM`; `None` if it is not of the
    /// documented form (`Documentation/ABI/testing/sysfs-bus-event_source-devices-format`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (word, ranges) = text.trim().split_once(':')?;
        let word = Word::parse(word)?;
        let ranges: Vec<(u8, u8)> = ranges.split(',').map(range).collect::<Option<_>>()?;
        let bits: u32 = ranges.iter().map(|&range| width(range)).sum();
        (bits <= 64).then_some(Self { word, ranges })
    }

    /// How many bits there are in all.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.ranges.iter().map(|&range| width(range)).sum()
    }

    /// The largest value that fits.
    #[must_use]
    pub fn max(&self) -> u64 {
        low_mask(self.bits())
    }

    /// `word` with the term's bits replaced by `value`; `None` if the value has more bits.
    #[must_use]
    pub fn pack(&self, word: u64, value: u64) -> Option<u64> {
        if value > self.max() {
            return None;
        }
        let mut packed = word;
        let mut rest = value;
        for &(first, last) in &self.ranges {
            let mask = low_mask(width((first, last)));
            packed = packed & !(mask << first) | (rest & mask) << first;
            rest = rest.checked_shr(width((first, last))).unwrap_or(0);
        }
        Some(packed)
    }
}

fn range(text: &str) -> Option<(u8, u8)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < 64).then_some((first, last))
}

fn width((first, last): (u8, u8)) -> u32 {
    u32::from(last - first) + 1
}

fn low_mask(bits: u32) -> u64 {
    1_u64.checked_shl(bits).map_or(u64::MAX, |bit| bit - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amd_event_select_is_split() {
        let format = Format::parse("config:0-7,32-35").unwrap();
        assert_eq!((format.bits(), format.max()), (12, 0xfff));
        assert_eq!(format.pack(0, 0x28f), Some(0x2_0000_008f));
        assert_eq!(format.pack(u64::MAX, 0), Some(!0xf_0000_00ff));
        assert_eq!(format.pack(0, 0x1000), None);
    }

    #[test]
    fn one_bit_and_whole_words() {
        assert_eq!(Format::parse("config:23").unwrap().pack(1, 1), Some(1 << 23 | 1));
        assert_eq!(Format::parse("config1:0-63").unwrap().pack(7, u64::MAX), Some(u64::MAX));
        assert_eq!(Format::parse("config3:63").unwrap().word, Word::Config3);
        assert_eq!(Format::parse("config4:0-31").unwrap().word, Word::Config4);
    }

    #[test]
    fn what_the_kernel_never_writes_is_refused() {
        for text in
            ["", "config", "config:", "config:7-0", "config:64", "config9:1", "config:0-63,0"]
        {
            assert_eq!(Format::parse(text), None, "{text}");
        }
    }

    /// Disjoint ranges in any order.
    fn ranges() -> impl Strategy<Value = Vec<(u8, u8)>> {
        (proptest::collection::vec(0_u8..64, 2..12), any::<u64>()).prop_map(|(mut cuts, seed)| {
            cuts.sort_unstable();
            cuts.dedup();
            let mut ranges: Vec<(u8, u8)> =
                cuts.windows(2).map(|pair| (pair[0], pair[1] - 1)).step_by(2).collect();
            if ranges.is_empty() {
                ranges.push((cuts[0], cuts[0]));
            }
            let turn = seed as usize % ranges.len();
            ranges.rotate_left(turn);
            ranges
        })
    }

    proptest! {
        /// The oracle moves one bit at a time.
        #[test]
        fn packing_moves_each_bit_to_its_place(ranges in ranges(), word: u64, value: u64) {
            let text: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
            let format = Format::parse(&format!("config:{}", text.join(","))).unwrap();
            let value = value & format.max();
            let places: Vec<u8> = ranges.iter().flat_map(|&(a, b)| a..=b).collect();
            let mut expected = word;
            for (bit, place) in places.iter().enumerate() {
                let set = value >> bit & 1;
                expected = expected & !(1 << place) | set << place;
            }
            prop_assert_eq!(format.pack(word, value), Some(expected));
            if format.bits() < 64 {
                prop_assert_eq!(format.pack(word, format.max() + 1), None);
            }
        }
    }
}
