//! Symbols of addresses as bytes, in cache files and bundles.
//!
//! ```text
//!  header     magic, checksum, numbers of what follows
//!  addresses  ascending, 8 bytes each            ┐ same index
//!  which      number of the chain, 4 bytes each  ┘
//!  chains     where each begins in frames        a chain: function, then what is inlined in it;
//!  frames     name, signature, file, line        an empty one: no symbol here
//!  absent     texts                              files that would be better
//!  texts      where each ends, then their bytes
//!  key        what all this belongs to
//!  origin     identity of the file without names for some of these addresses
//! ```
//!
//! Numbers are little-endian. Everything is checked once, when it is opened; nothing is believed that
//! does not fit together.

use std::collections::hash_map::Entry;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::symbol::InternedNames;
use crate::{Frame, Line, Symbol};

/// The last byte is the version: another one is another format, or names are written otherwise.
const MAGIC: [u8; 8] = *b"pmusym\0\x05";
/// Magic, checksum, eight numbers.
const HEADER: usize = 8 + 4 + 8 * 4;
/// Addresses behind the last one among which the next is looked for first.
const NEAR: usize = 8;
/// Numbers of a frame.
const WORDS: usize = 4;
/// "No file", "no signature".
const NONE: u32 = u32::MAX;

/// Symbols by address, as [`encode`] wrote them.
#[derive(Debug)]
pub(crate) struct Stored {
    bytes: Vec<u8>,
    addresses: Range<usize>,
    which: Range<usize>,
    chains: Range<usize>,
    frames: Range<usize>,
    absent: Range<usize>,
    ends: Range<usize>,
    texts: Range<usize>,
    origin: Range<usize>,
}

/// Writes symbols; `addresses` ascend, and those without a symbol are remembered as such, for the file `origin`. `None`
/// if there is more than the format can count, or a path that is no text.
pub(crate) fn encode<'a>(
    key: &[u8],
    symbols: impl Iterator<Item = (u64, Option<&'a Symbol>)>,
    absent: &[PathBuf],
    origin: &[u8],
) -> Option<Vec<u8>> {
    let mut texts = Texts::default();
    let mut chains: FxHashMap<Vec<u32>, u32> = FxHashMap::default();
    let (mut addresses, mut which) = (Vec::new(), Vec::new());
    let (mut starts, mut frames): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for (address, symbol) in symbols {
        let chain = symbol.map_or_else(|| Some(Vec::new()), |symbol| texts.chain(symbol))?;
        let number = match chains.entry(chain) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                starts.push(u32::try_from(frames.len() / WORDS).ok()?);
                frames.extend(new.key());
                *new.insert(u32::try_from(starts.len() - 1).ok()?)
            }
        };
        addresses.extend(address.to_le_bytes());
        which.push(number);
    }
    starts.push(u32::try_from(frames.len() / WORDS).ok()?);
    let absent: Vec<u32> =
        absent.iter().map(|path| texts.number(path.to_str()?)).collect::<Option<_>>()?;
    let counts = [
        key.len(),
        which.len(),
        starts.len() - 1,
        frames.len() / WORDS,
        absent.len(),
        texts.ends.len(),
        texts.bytes.len(),
        origin.len(),
    ];
    let mut bytes = Vec::from(MAGIC);
    bytes.extend([0; 4]);
    for count in counts {
        bytes.extend(u32::try_from(count).ok()?.to_le_bytes());
    }
    bytes.extend(&addresses);
    for numbers in [&which, &starts, &frames, &absent, &texts.ends] {
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }
    bytes.extend(&texts.bytes);
    bytes.extend(key);
    bytes.extend(origin);
    let checksum = crc32fast::hash(&bytes[12..]);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    Some(bytes)
}

/// Each text once.
#[derive(Default)]
struct Texts {
    known: FxHashMap<Arc<str>, u32>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Texts {
    fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(&number) = self.known.get(text) {
            return Some(number);
        }
        self.bytes.extend(text.as_bytes());
        let number = u32::try_from(self.ends.len()).ok().filter(|&number| number < NONE)?;
        self.ends.push(u32::try_from(self.bytes.len()).ok()?);
        self.known.insert(text.into(), number);
        Some(number)
    }

    fn frame(
        &mut self,
        name: &str,
        signature: Option<&Arc<str>>,
        line: Option<&Line>,
    ) -> Option<[u32; WORDS]> {
        let name = self.number(name)?;
        let signature = signature.map_or(Some(NONE), |signature| self.number(signature))?;
        let Some(line) = line else { return Some([name, signature, NONE, 0]) };
        Some([name, signature, self.number(&line.file)?, line.number.unwrap_or(0)])
    }

    fn chain(&mut self, symbol: &Symbol) -> Option<Vec<u32>> {
        let mut chain = Vec::with_capacity(WORDS + WORDS * symbol.inlined.len());
        chain.extend(self.frame(&symbol.name, symbol.signature.as_ref(), symbol.line.as_ref())?);
        for frame in &symbol.inlined {
            chain.extend(self.frame(&frame.name, frame.signature.as_ref(), frame.line.as_ref())?);
        }
        Some(chain)
    }
}

impl Stored {
    /// Takes what [`encode`] wrote for `key`; `None` if it is anything else.
    pub(crate) fn open(bytes: Vec<u8>, key: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER)?;
        let checksum = u32_at(&bytes, 8..12, 0)?;
        if header[..8] != MAGIC || crc32fast::hash(&bytes[12..]) != checksum {
            return None;
        }
        let count = |index: usize| u32_at(&bytes, 12..HEADER, index).map(|count| count as usize);
        let mut at = HEADER;
        let mut part = |length: Option<usize>| {
            let start = at;
            at = at.checked_add(length?)?;
            Some(start..at)
        };
        let words = |count: usize| count.checked_mul(4);
        let addresses = part(count(1)?.checked_mul(8))?;
        let which = part(words(count(1)?))?;
        let chains = part(words(count(2)?.checked_add(1)?))?;
        let frames = part(count(3)?.checked_mul(4 * WORDS))?;
        let absent = part(words(count(4)?))?;
        let ends = part(words(count(5)?))?;
        let texts = part(Some(count(6)?))?;
        let own_key = part(Some(count(0)?))?;
        let origin = part(Some(count(7)?))?;
        if at != bytes.len() || bytes.get(own_key)? != key {
            return None;
        }
        let stored = Self { bytes, addresses, which, chains, frames, absent, ends, texts, origin };
        stored.fits().then_some(stored)
    }

    /// Whether every number points to something.
    fn fits(&self) -> bool {
        let below = |range: &Range<usize>, most: usize| {
            numbers(&self.bytes[range.clone()]).all(|number| (number as usize) < most)
        };
        let rising = |range: &Range<usize>, last: usize| {
            numbers(&self.bytes[range.clone()]).is_sorted()
                && numbers(&self.bytes[range.clone()])
                    .last()
                    .map_or(last == 0, |number| number as usize == last)
        };
        let texts = self.ends.len() / 4;
        let frames = numbers(&self.bytes[self.frames.clone()]).enumerate().all(
            |(index, number)| match index % WORDS {
                0 => (number as usize) < texts,
                1 | 2 => (number as usize) < texts || number == NONE,
                _ => true,
            },
        );
        let ascending = (1..self.len()).all(|index| self.address(index - 1) < self.address(index));
        let first = u32_at(&self.bytes, self.chains.clone(), 0) == Some(0);
        frames
            && ascending
            && first
            && below(&self.which, (self.chains.len() / 4).saturating_sub(1))
            && rising(&self.chains, self.frames.len() / (4 * WORDS))
            && below(&self.absent, texts)
            && rising(&self.ends, self.texts.len())
    }

    /// Number of addresses.
    pub(crate) fn len(&self) -> usize {
        self.which.len() / 4
    }

    fn address(&self, index: usize) -> u64 {
        let at = self.addresses.start + index * 8;
        self.bytes
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(u64::MAX, u64::from_le_bytes)
    }

    fn text(&self, number: u32) -> &str {
        let end = |number: Option<u32>| {
            number
                .and_then(|number| u32_at(&self.bytes, self.ends.clone(), number as usize))
                .unwrap_or(0)
        };
        let range = end(number.checked_sub(1)) as usize..end(Some(number)) as usize;
        let text = self.bytes[self.texts.clone()].get(range).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Files that would be better than those the symbols are from, were they there.
    pub(crate) fn absent(&self) -> impl Iterator<Item = PathBuf> + '_ {
        numbers(&self.bytes[self.absent.clone()]).map(|number| PathBuf::from(self.text(number)))
    }

    /// Identity of the file that has no names for the addresses without a symbol; empty if it is not known.
    pub(crate) fn origin(&self) -> &[u8] {
        self.bytes.get(self.origin.clone()).unwrap_or_default()
    }

    /// A reader of single addresses.
    pub(crate) fn reader(&self) -> StoredReader<'_> {
        let (chains, names) = (FxHashMap::default(), InternedNames::default());
        StoredReader { stored: self, chains, names, next: 0 }
    }

    /// What [`encode`] wrote.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All addresses, in order.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|index| self.address(index))
    }
}

/// Reads symbols, each text and chain once.
pub(crate) struct StoredReader<'a> {
    stored: &'a Stored,
    chains: FxHashMap<u32, Option<Arc<Symbol>>>,
    names: InternedNames,
    /// Behind the last one that was found: addresses are mostly asked for in their order.
    next: usize,
}

impl StoredReader<'_> {
    /// What is known of `address`: nothing, that there is no symbol, or the symbol.
    pub(crate) fn get(&mut self, address: u64) -> Option<Option<Arc<Symbol>>> {
        let (mut low, mut high) = (0, self.stored.len());
        if self.next < high && self.stored.address(self.next) <= address {
            low = self.next;
            let near = (low + NEAR).min(high);
            high = if self.stored.address(near - 1) >= address { near } else { high };
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.stored.address(middle) < address { low = middle + 1 } else { high = middle }
        }
        if low == self.stored.len() || self.stored.address(low) != address {
            return None;
        }
        self.next = low + 1;
        let chain = u32_at(&self.stored.bytes, self.stored.which.clone(), low)?;
        if let Some(known) = self.chains.get(&chain) {
            return Some(known.clone());
        }
        let symbol = self.symbol(chain).map(Arc::new);
        self.chains.insert(chain, symbol.clone());
        Some(symbol)
    }

    fn symbol(&mut self, chain: u32) -> Option<Symbol> {
        let stored = self.stored;
        let start = |chain: usize| u32_at(&stored.bytes, stored.chains.clone(), chain);
        let (from, to) = (start(chain as usize)?, start(chain as usize + 1)?);
        let mut frames =
            (from..to).filter_map(|frame| self.frame(frame as usize)).collect::<Vec<_>>();
        if frames.is_empty() {
            return None;
        }
        let Frame { name, signature, line } = frames.remove(0);
        Some(Symbol { name, signature, line, inlined: frames.into() })
    }

    fn frame(&mut self, frame: usize) -> Option<Frame> {
        let part =
            |index| u32_at(&self.stored.bytes, self.stored.frames.clone(), WORDS * frame + index);
        let (name, signature, file, number) = (part(0)?, part(1)?, part(2)?, part(3)?);
        let name = self.names.intern(self.stored.text(name));
        let signature = (signature != NONE).then(|| self.names.intern(self.stored.text(signature)));
        let line = (file != NONE).then(|| Line {
            file: self.names.intern(self.stored.text(file)),
            number: Some(number).filter(|&number| number > 0),
        });
        Some(Frame { name, signature, line })
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

/// Number `index` of those in `range`.
fn u32_at(bytes: &[u8], range: Range<usize>, index: usize) -> Option<u32> {
    let word = bytes.get(range)?.get(index.checked_mul(4)?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line() -> impl Strategy<Value = Option<Line>> {
        let number = proptest::option::of(1_u32..5000);
        proptest::option::of(
            ("[a-c]{1,3}", number).prop_map(|(file, number)| Line { file: file.into(), number }),
        )
    }

    fn signature() -> impl Strategy<Value = Option<Arc<str>>> {
        proptest::option::of("[a-d]{1,3}".prop_map(Into::into))
    }

    fn symbol() -> impl Strategy<Value = Symbol> {
        let frame = ("[a-d]{0,3}", signature(), line()).prop_map(|(name, signature, line)| Frame {
            name: name.into(),
            signature,
            line,
        });
        let function = ("[a-d]{1,3}", signature(), line());
        (function, proptest::collection::vec(frame, 0..4)).prop_map(
            |((name, signature, line), inlined)| {
                let (name, inlined) = (name.into(), inlined.into());
                Symbol { name, signature, line, inlined }
            },
        )
    }

    type Symbols = std::collections::BTreeMap<u64, Option<Symbol>>;

    fn plain(symbol: Option<Arc<Symbol>>) -> Option<Symbol> {
        symbol.map(Arc::unwrap_or_clone)
    }

    fn symbols() -> impl Strategy<Value = Symbols> {
        proptest::collection::btree_map(any::<u64>(), proptest::option::of(symbol()), 0..40)
    }

    fn written(symbols: &Symbols, absent: &[PathBuf]) -> Vec<u8> {
        let all = symbols.iter().map(|(address, symbol)| (*address, symbol.as_ref()));
        encode(b"key", all, absent, b"origin").unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(symbols in symbols(), probe in any::<u64>()) {
            let absent = [PathBuf::from("/no/such"), PathBuf::from("/file")];
            let stored = Stored::open(written(&symbols, &absent), b"key").unwrap();
            prop_assert_eq!(stored.len(), symbols.len());
            prop_assert_eq!(stored.absent().collect::<Vec<_>>(), absent);
            prop_assert!(stored.addresses().eq(symbols.keys().copied()));
            let mut reader = stored.reader();
            for (address, symbol) in &symbols {
                prop_assert_eq!(reader.get(*address).map(plain), Some(symbol.clone()));
            }
            prop_assert_eq!(reader.get(probe).map(plain), symbols.get(&probe).cloned());
        }

        /// Of files with a right checksum, too: whoever writes one can compute it.
        #[test]
        fn damaged_bytes_are_refused_or_harmless(
            symbols in symbols(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
            cut in 0_usize..20,
            honest in any::<bool>(),
        ) {
            let mut bytes = written(&symbols, &["/a".into()]);
            let whole = bytes.clone();
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len() - 12));
            if !honest {
                let checksum = crc32fast::hash(&bytes[12..]);
                bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
            }
            let changed = bytes != whole;
            match Stored::open(bytes, b"key") {
                None => prop_assert!(changed),
                Some(stored) => {
                    prop_assert!(!honest || !changed, "a wrong checksum was believed");
                    let mut reader = stored.reader();
                    for address in stored.addresses() {
                        let _ = reader.get(address);
                    }
                    let _ = stored.absent().count();
                }
            }
        }

        #[test]
        fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Stored::open(bytes, b"key").is_none());
        }
    }

    #[test]
    fn what_belongs_to_another_key_is_refused() {
        let bytes = written(&Symbols::default(), &[]);
        assert!(Stored::open(bytes.clone(), b"key").is_some());
        assert!(Stored::open(bytes, b"kez").is_none());
    }
}
