//! One file of a list, whatever its form.

use serde::{Deserialize, Serialize};

use super::arm;
use super::file::{number, text};
use super::intel::Entry;
use super::listed::Listed;

/// What one file says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct List {
    /// Its events; none where it is about something else (metrics, masks).
    pub events: Vec<Listed>,
    /// The product it is for, where the file itself says so.
    pub product: Option<Product>,
}

/// An Arm core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Product {
    /// Implementer, as in `/proc/cpuinfo`.
    pub implementer: u64,
    /// Part number, as there.
    pub part: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Whole {
    #[serde(rename = "Events")]
    intel: Vec<Entry>,
    events: Option<arm::Events>,
    product_configuration: Option<ProductConfiguration>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProductConfiguration {
    #[serde(deserialize_with = "text")]
    part_num: Option<String>,
    #[serde(deserialize_with = "text")]
    implementer: Option<String>,
}

/// Reads the text of one file.
///
/// # Errors
/// What is wrong with it, where it is no JSON or of none of the known forms.
pub fn read(bytes: &[u8]) -> Result<List, String> {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        Some(b'[') => {
            let entries: Vec<Entry> = serde_json::from_slice(bytes).map_err(why)?;
            Ok(List {
                events: entries.into_iter().filter_map(Entry::event).collect(),
                product: None,
            })
        }
        Some(b'{') => {
            let whole: Whole = serde_json::from_slice(bytes).map_err(why)?;
            let mut events: Vec<Listed> =
                whole.intel.into_iter().filter_map(Entry::event).collect();
            events.extend(whole.events.map(arm::Events::events).unwrap_or_default());
            let product = whole.product_configuration.and_then(|product| {
                let number = |text: Option<String>| text.as_deref().and_then(number);
                Some(Product {
                    implementer: number(product.implementer)?,
                    part: number(product.part_num)?,
                })
            });
            Ok(List { events, product })
        }
        _ => Err("it is neither a JSON list nor a JSON object".to_owned()),
    }
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn why(error: serde_json::Error) -> String {
    format!("line {}, character {}: {error}", error.line(), error.column())
}
