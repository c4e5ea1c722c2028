//! Colors of functions: the hue is the module's, the shade the function's. A module's hue follows from its name, so
//! that it is the same in every picture; where two of the ten largest would share one, the smaller takes the next
//! that is free.

use pmuscope_profile::export::Source;
use pmuscope_profile::{ModuleKind, ModuleSummary};

/// What is no function: commands, and all together.
pub(super) const NEUTRAL: &str = "#c3c9d4";
/// Code that no module is known of.
const UNKNOWN: &str = "#cfcac4";
/// The kernel, whatever it is called.
const KERNEL_HUE: f64 = 18.0;
/// Hues far enough apart to be told from each other, and from the kernel's.
const HUES: [f64; 9] = [48.0, 84.0, 136.0, 168.0, 196.0, 222.0, 258.0, 292.0, 334.0];

/// Hues of modules, by the numbers that frames have for them; `None` for code of no known module.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModuleHues(Vec<Option<f64>>);

impl ModuleHues {
    /// The modules with the most samples choose first.
    pub(crate) fn new(source: &Source<'_>) -> Self {
        let counts = source.counts;
        let mut samples = vec![0_u64; source.modules.len()];
        for cell in &counts.cells {
            let frame = counts.stacks.frame(cell.stack);
            let module = frame.and_then(|frame| counts.frames.get(frame as usize));
            if let Some(sum) = module.and_then(|frame| samples.get_mut(frame.module as usize)) {
                *sum += cell.samples;
            }
        }
        Self::of(source.modules, &samples)
    }

    fn of(modules: &[ModuleSummary], samples: &[u64]) -> Self {
        let mut order: Vec<usize> = (0..modules.len()).collect();
        order.sort_by_key(|&at| (std::cmp::Reverse(samples[at]), &modules[at].path));
        let mut is_taken = [false; HUES.len()];
        let mut hues = vec![None; modules.len()];
        for at in order {
            hues[at] = match modules[at].kind {
                ModuleKind::Kernel | ModuleKind::KernelLoaded => Some(KERNEL_HUE),
                ModuleKind::Other => None,
                _ => {
                    let home = (hash(modules[at].short_name()) % HUES.len() as u64) as usize;
                    let next = (0..HUES.len()).map(|step| (home + step) % HUES.len());
                    let hue = next.into_iter().find(|&hue| !is_taken[hue]).unwrap_or(home);
                    is_taken[hue] = true;
                    Some(HUES[hue])
                }
            };
        }
        Self(hues)
    }

    /// Color of a function as `#rrggbb`. Dark text is readable on all of them.
    pub(crate) fn function(&self, module: u32, function: Option<&str>, inlined: bool) -> String {
        let Some(hue) = self.hue(module) else { return UNKNOWN.into() };
        let shade = function.map_or(0, |name| hash(name) % 5) as f64;
        let lightness = 0.68 + shade * 0.022 + if inlined { 0.06 } else { 0.0 };
        let saturation = if function.is_some() { 0.62 } else { 0.25 };
        hex(hue, saturation, lightness)
    }

    /// Color that stands for all of a module.
    pub(crate) fn module(&self, module: u32) -> String {
        self.hue(module).map_or_else(|| UNKNOWN.into(), |hue| hex(hue, 0.62, 0.70))
    }

    fn hue(&self, module: u32) -> Option<f64> {
        self.0.get(module as usize).copied().flatten()
    }
}

/// FNV-1a: the same on every machine and in every version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Hue in degrees, saturation and lightness 0 to 1.
fn hex(hue: f64, saturation: f64, lightness: f64) -> String {
    let spread = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let k = (offset + hue / 30.0) % 12.0;
        let value = lightness - spread * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round().clamp(0.0, 255.0) as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_are_the_usual_ones() {
        assert_eq!(hex(0.0, 1.0, 0.5), "#ff0000");
        assert_eq!(hex(120.0, 1.0, 0.5), "#00ff00");
        assert_eq!(hex(240.0, 1.0, 0.25), "#000080");
        assert_eq!(hex(77.0, 0.0, 1.0), "#ffffff");
    }

    #[test]
    fn the_ten_largest_modules_have_a_hue_each() {
        let module = |kind, path: &str| ModuleSummary {
            kind,
            path: path.to_owned(),
            build_id: None,
            mapped: None,
            symbols: pmuscope_symbols::State::Found,
        };
        let mut modules: Vec<_> =
            (0..12).map(|at| module(ModuleKind::File, &format!("/lib/lib{at}.so"))).collect();
        modules.push(module(ModuleKind::Kernel, "[kernel.kallsyms]"));
        let samples: Vec<u64> = (0..13).map(|at| 1000 - at).collect();
        let hues = ModuleHues::of(&modules, &samples);
        let mut largest: Vec<String> = (0..9).chain([12]).map(|at| hues.module(at)).collect();
        largest.sort();
        largest.dedup();
        assert_eq!(largest.len(), 10);
        // The largest has the hue of its name, whatever else there is.
        let alone = ModuleHues::of(&modules[..1], &samples[..1]);
        assert_eq!(alone.module(0), hues.module(0));
        assert_eq!(hues.module(99), UNKNOWN);
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
