//! An attribute in the words of `perf record -vv`.

use pmuscope_abi::{ATTR_SIZE_VER8, Attr, AttrFlags};

/// Flags below this bit are printed before `precise_ip`, which lies there, the others after it.
const PRECISE_BIT: AttrFlags = AttrFlags::MMAP_DATA;

/// The fields of `attr` that are not zero, in the order of the structure, with the names and forms that
/// `perf record -vv` prints. `size` is what the kernel is handed.
#[must_use]
pub fn describe(attr: &Attr) -> Vec<(String, String)> {
    let mut fields = FieldText(Vec::new());
    fields.number("type", attr.event_type.into());
    fields.number("size", attr.smallest_size().max(ATTR_SIZE_VER8) as u64);
    fields.hex("config", attr.config);
    fields.number("{ sample_period, sample_freq }", attr.sample);
    let sample_type = attr.sample_type;
    fields.set(
        "sample_type",
        sample_type.bits(),
        sample_type.iter_names().map(|(n, b)| (n, b.bits())),
    );
    let read_format = attr.read_format;
    fields.set(
        "read_format",
        read_format.bits(),
        read_format.iter_names().map(|(n, b)| (n, b.bits())),
    );
    fields.flags(attr.flags, |flag| flag < PRECISE_BIT.bits());
    fields.number("precise_ip", attr.precise_ip.into());
    fields.flags(attr.flags, |flag| flag >= PRECISE_BIT.bits());
    fields.number("{ wakeup_events, wakeup_watermark }", attr.wakeup.into());
    fields.number("bp_type", attr.bp_type.into());
    fields.hex("{ bp_addr, config1 }", attr.config1);
    fields.hex("{ bp_len, config2 }", attr.config2);
    let branches = attr.branch_sample_type;
    fields.set(
        "branch_sample_type",
        branches.bits(),
        branches.iter_names().map(|(n, b)| (n, b.bits())),
    );
    fields.hex("sample_regs_user", attr.sample_regs_user);
    fields.number("sample_stack_user", attr.sample_stack_user.into());
    if attr.flags.contains(AttrFlags::USE_CLOCKID) {
        // CLOCK_REALTIME is 0, and still worth a line.
        fields.push("clockid", attr.clockid.to_string());
    }
    fields.hex("sample_regs_intr", attr.sample_regs_intr);
    fields.number("aux_watermark", attr.aux_watermark.into());
    fields.number("sample_max_stack", attr.sample_max_stack.into());
    fields.number("aux_sample_size", attr.aux_sample_size.into());
    fields.number("sig_data", attr.sig_data);
    fields.hex("config3", attr.config3);
    fields.hex("config4", attr.config4);
    fields.0
}

struct FieldText(Vec<(String, String)>);

impl FieldText {
    fn push(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    fn number(&mut self, name: &str, value: u64) {
        if value != 0 {
            self.push(name, value.to_string());
        }
    }

    fn hex(&mut self, name: &str, value: u64) {
        if value != 0 {
            self.push(name, format!("{value:#x}"));
        }
    }

    /// Named bits joined by `|`; bits without a name as one number.
    fn set(&mut self, name: &str, bits: u64, names: impl Iterator<Item = (&'static str, u64)>) {
        let mut rest = bits;
        let mut words: Vec<String> = Vec::new();
        for (word, bit) in names {
            words.push(word.to_owned());
            rest &= !bit;
        }
        if rest != 0 {
            words.push(format!("{rest:#x}"));
        }
        if !words.is_empty() {
            self.push(name, words.join("|"));
        }
    }

    /// One line per flag that `here` takes.
    fn flags(&mut self, flags: AttrFlags, here: impl Fn(u64) -> bool) {
        for (name, flag) in flags.iter_names().filter(|(_, flag)| here(flag.bits())) {
            self.push(&name.to_lowercase(), u64::from(flags.contains(flag)).to_string());
        }
    }
}
