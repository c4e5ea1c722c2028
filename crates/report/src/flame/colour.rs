//! Colours of functions: the hue is the module's, the shade the function's. They follow from names
//! alone, so that the same function has the same colour in every picture.

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

/// Colour of a function as `#rrggbb`. Dark text is readable on all of them.
pub(crate) fn colour(
    source: &Source<'_>,
    module: u32,
    function: Option<&str>,
    inlined: bool,
) -> String {
    let Some(hue) = hue(source.modules, module) else { return UNKNOWN.into() };
    let shade = function.map_or(0, |name| hash(name) % 5) as f64;
    let lightness = 0.68 + shade * 0.022 + if inlined { 0.06 } else { 0.0 };
    let saturation = if function.is_some() { 0.62 } else { 0.25 };
    hex(hue, saturation, lightness)
}

/// Colour that stands for all of a module.
pub(crate) fn of_module(modules: &[ModuleSummary], module: u32) -> String {
    hue(modules, module).map_or_else(|| UNKNOWN.into(), |hue| hex(hue, 0.62, 0.70))
}

fn hue(modules: &[ModuleSummary], module: u32) -> Option<f64> {
    let module = modules.get(module as usize)?;
    match module.kind {
        ModuleKind::Kernel | ModuleKind::KernelLoaded => Some(KERNEL_HUE),
        ModuleKind::Other => None,
        _ => Some(HUES[(hash(module.short_name()) % HUES.len() as u64) as usize]),
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
    fn the_hash_is_fnv() {
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash("a"), 0xaf63_dc4c_8601_ec8c);
    }
}
