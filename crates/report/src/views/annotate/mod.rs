//! One function from inside: its samples by source line and by instruction.

mod delimited;
mod json;
mod missing;
#[cfg(test)]
mod tests;
mod text;

use pmuscope_profile::Listing;
use pmuscope_profile::views::Hit;
use rustc_hash::FxHashMap;

pub use json::{ANNOTATE_SCHEMA, AnnotateReport};
pub use text::annotate_text;

/// Hits by address.
fn by_address(hits: &[Hit<u64>]) -> FxHashMap<u64, &Hit<u64>> {
    hits.iter().map(|hit| (hit.key, hit)).collect()
}

/// Hits at addresses where no instruction of the listings begins: all, where there is no listing.
fn outside<'a>(hits: &'a [Hit<u64>], listings: &[Listing]) -> Vec<&'a Hit<u64>> {
    let begins_at = |listing: &Listing, address: u64| {
        listing.instructions.binary_search_by_key(&address, |one| one.at).is_ok()
    };
    hits.iter().filter(|hit| !listings.iter().any(|one| begins_at(one, hit.key))).collect()
}
