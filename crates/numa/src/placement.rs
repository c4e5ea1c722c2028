//! Where memory lies and where the threads run that use it; how local and how even that is.
//!
//! ```text
//!            pages on node        running time on node
//!             0    1    2    3      0    1    2    3      locality          evenness
//! compact   100    .    .    .      1    .    .    .      1.00              0.25
//! inverse   100    .    .    .      .    1    .    .      0.00              0.25
//! interleave 25   25   25   25      1    .    .    .      0.25              1.00
//! spread     25   25   25   25     1/4  1/4  1/4  1/4     0.25              1.00
//! ```
//!
//! The last two lines differ in nothing that locality says: threads that all use all of the memory reach a
//! quarter of it nearby wherever they are. What tells them apart is whether the memory is shared; so
//! memory comes in [`Area`]s, each with the threads that use it.

use serde::{Deserialize, Serialize};

/// An amount on each node, in the order of the machine's nodes.
pub type ByNode = Vec<f64>;

/// Memory, and the threads that use it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Area {
    /// Pages on each node.
    pub pages: ByNode,
    /// How much its threads ran on each node: time on a CPU, or a number of threads.
    pub threads: ByNode,
}

impl Area {
    /// The share, 0 to 1, of accesses that would be local if all of its threads used all of its pages
    /// evenly: over nodes, share of pages times share of running time. `None` without pages or threads.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        let pages = shares(&self.pages)?;
        let threads = shares(&self.threads)?;
        Some(pages.iter().zip(&threads).map(|(pages, threads)| pages * threads).sum())
    }
}

/// Where memory lies and who uses it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Memory that different threads use. All of a process's, where nothing more is known.
    pub areas: Vec<Area>,
}

impl Placement {
    /// [`Area::locality`] of all areas, each counting by its pages. `None` if no area has both pages and
    /// threads.
    #[must_use]
    pub fn locality(&self) -> Option<f64> {
        let mut local = 0.0;
        let mut all = 0.0;
        for area in &self.areas {
            let Some(locality) = area.locality() else { continue };
            let pages: f64 = area.pages.iter().sum();
            local += locality * pages;
            all += pages;
        }
        (all > 0.0).then(|| local / all)
    }

    /// Pages on each node, of all areas.
    #[must_use]
    pub fn pages(&self) -> ByNode {
        self.sum(|area| &area.pages)
    }

    /// Running time on each node, of all areas.
    #[must_use]
    pub fn threads(&self) -> ByNode {
        self.sum(|area| &area.threads)
    }

    fn sum(&self, amounts: impl Fn(&Area) -> &ByNode) -> ByNode {
        let nodes = self.areas.iter().map(|area| amounts(area).len()).max().unwrap_or(0);
        let mut sum = vec![0.0; nodes];
        for area in &self.areas {
            for (sum, amount) in sum.iter_mut().zip(amounts(area)) {
                *sum += amount;
            }
        }
        sum
    }
}

/// Each node's share of the whole, 0 to 1; `None` if there is nothing.
#[must_use]
pub fn shares(amounts: &[f64]) -> Option<ByNode> {
    let whole: f64 = amounts.iter().sum();
    (whole > 0.0).then(|| amounts.iter().map(|amount| amount / whole).collect())
}

/// How evenly the nodes are used, 1 at best: the mean over the fullest. If nodes are equally fast and
/// pages equally wanted, it is the share of all nodes' bandwidth that can be reached, as the fullest is
/// the last to be done. All on one of N nodes is 1/N. `None` if there is nothing.
#[must_use]
pub fn evenness(amounts: &[f64]) -> Option<f64> {
    let whole: f64 = amounts.iter().sum();
    let fullest = amounts.iter().copied().fold(0.0, f64::max);
    (whole > 0.0).then(|| whole / amounts.len() as f64 / fullest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn area(pages: &[f64], threads: &[f64]) -> Area {
        Area { pages: pages.to_vec(), threads: threads.to_vec() }
    }

    /// The drawing above.
    #[test]
    fn the_drawing_is_right() {
        let all = [100.0, 0.0, 0.0, 0.0];
        let even = [25.0; 4];
        let first = [1.0, 0.0, 0.0, 0.0];
        let second = [0.0, 1.0, 0.0, 0.0];
        let quarter = [0.25; 4];
        for (pages, threads, locality, even_pages) in [
            (all, first, 1.0, 0.25),
            (all, second, 0.0, 0.25),
            (even, first, 0.25, 1.0),
            (even, quarter, 0.25, 1.0),
        ] {
            assert_eq!(area(&pages, &threads).locality(), Some(locality));
            assert_eq!(evenness(&pages), Some(even_pages));
        }
    }

    #[test]
    fn private_memory_counts_by_its_own_thread() {
        let private = Placement {
            areas: vec![area(&[10.0, 0.0], &[1.0, 0.0]), area(&[0.0, 30.0], &[0.0, 1.0])],
        };
        assert_eq!(private.locality(), Some(1.0));
        let crossed = Placement {
            areas: vec![area(&[10.0, 0.0], &[0.0, 1.0]), area(&[0.0, 30.0], &[0.0, 1.0])],
        };
        assert_eq!(crossed.locality(), Some(0.75));
        assert_eq!(crossed.pages(), [10.0, 30.0]);
        assert_eq!(crossed.threads(), [0.0, 2.0]);
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        assert_eq!(Placement::default().locality(), None);
        assert_eq!(area(&[0.0, 0.0], &[1.0, 0.0]).locality(), None);
        assert_eq!(area(&[1.0, 0.0], &[0.0, 0.0]).locality(), None);
        assert_eq!(evenness(&[]), None);
        assert_eq!(evenness(&[0.0]), None);
        let idle = Placement { areas: vec![area(&[5.0], &[0.0]), area(&[1.0], &[1.0])] };
        assert_eq!(idle.locality(), Some(1.0));
    }

    proptest! {
        #[test]
        fn locality_is_a_share_and_does_not_depend_on_the_unit(
            amounts in prop::collection::vec((0.0..1e6f64, 0.0..8.0f64), 1..9),
            factor in 0.5..100.0f64,
        ) {
            let pages: Vec<f64> = amounts.iter().map(|&(pages, _)| pages).collect();
            let threads: Vec<f64> = amounts.iter().map(|&(_, threads)| threads).collect();
            let scaled: Vec<f64> = pages.iter().map(|pages| pages * factor).collect();
            let locality = area(&pages, &threads).locality();
            if let Some(locality) = locality {
                prop_assert!((-1e-9..=1.0 + 1e-9).contains(&locality));
                let again = area(&scaled, &threads).locality().unwrap();
                prop_assert!((again - locality).abs() < 1e-9);
            }
            if let Some(evenness) = evenness(&pages) {
                prop_assert!(evenness <= 1.0 + 1e-9);
                prop_assert!(evenness >= 1.0 / pages.len() as f64 - 1e-9);
            }
        }
    }
}
