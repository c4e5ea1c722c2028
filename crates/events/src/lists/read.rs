//! One file of a list, whatever its form.

use serde::Deserialize;

use super::arm;
use super::file::{number, text};
use super::intel::IntelEntry;
use super::listed::Listed;
use super::made_for::{MadeFor, Product};

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct List {
    /// Its events; none where it is about something else (metrics, masks).
    pub events: Vec<Listed>,
    /// The CPUs it is for, as far as the file itself says so.
    pub made_for: MadeFor,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Whole {
    #[serde(rename = "Header")]
    header: Option<ListHeader>,
    #[serde(rename = "Events")]
    intel: Vec<IntelEntry>,
    events: Option<arm::Events>,
    product_configuration: Option<ProductConfiguration>,
    #[serde(deserialize_with = "text")]
    cpu: Option<String>,
    #[serde(deserialize_with = "text")]
    cpuid: Option<String>,
    cpuids: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ListHeader {
    #[serde(deserialize_with = "text")]
    info: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProductConfiguration {
    #[serde(deserialize_with = "text")]
    product_name: Option<String>,
    #[serde(deserialize_with = "text")]
    part_num: Option<String>,
    #[serde(deserialize_with = "text")]
    implementer: Option<String>,
    #[serde(deserialize_with = "text")]
    major_revision: Option<String>,
    #[serde(deserialize_with = "text")]
    minor_revision: Option<String>,
}

/// Reads the text of one file.
///
/// # Errors
/// What is wrong with it, where it is no JSON or of none of the known forms.
pub fn read(bytes: &[u8]) -> Result<List, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'[') => {
            let entries: Vec<IntelEntry> = serde_json::from_slice(bytes).map_err(why)?;
            let made_for = of_x86(&entries, None);
            let events = entries.into_iter().filter_map(IntelEntry::event).collect();
            Ok(List { events, made_for })
        }
        Some(b'{') => {
            let mut whole: Whole = serde_json::from_slice(bytes).map_err(why)?;
            let made_for = if whole.events.is_some() {
                whole.arm_cores()
            } else {
                let info = whole.header.as_ref().and_then(|header| header.info.as_deref());
                of_x86(&whole.intel, info)
            };
            let intel = std::mem::take(&mut whole.intel);
            let mut events: Vec<Listed> = intel.into_iter().filter_map(IntelEntry::event).collect();
            events.extend(whole.events.map(arm::Events::events).unwrap_or_default());
            Ok(List { events, made_for })
        }
        _ => Err("it is neither a JSON list nor a JSON object".to_owned()),
    }
}

/// Lists of entries as Intel has them; the kernel's source and `perf list -j` have the same for other
/// CPUs, without what only x86 has.
fn of_x86(entries: &[IntelEntry], info: Option<&str>) -> MadeFor {
    let is_intel = info.is_some_and(|info| info.contains("Intel"));
    if is_intel || entries.iter().any(IntelEntry::is_of_x86) {
        MadeFor::X86 { vendor: is_intel.then(|| "GenuineIntel".to_owned()) }
    } else {
        MadeFor::Any
    }
}

impl Whole {
    /// `events` by name or with numeric codes: nobody but Arm has these.
    fn arm_cores(&self) -> MadeFor {
        let number = |text: &Option<String>| text.as_deref().and_then(number);
        let mut products: Vec<Product> =
            self.cpuid.iter().chain(&self.cpuids).filter_map(|id| Product::of_cpu_id(id)).collect();
        let mut name = self.cpu.clone();
        if let Some(product) = &self.product_configuration {
            if let (Some(implementer), Some(part)) =
                (number(&product.implementer), number(&product.part_num))
            {
                let major = number(&product.major_revision);
                let revision =
                    major.map(|major| (major, number(&product.minor_revision).unwrap_or(0)));
                products.push(Product { implementer, part, revision });
            }
            name = product.product_name.clone().or(name);
        }
        products.dedup();
        MadeFor::Arm { name, products }
    }
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn why(error: serde_json::Error) -> String {
    format!("line {}, character {}: {error}", error.line(), error.column())
}
