//! How many pages lie on which node, from some of them.
//!
//! `numa_maps` walks every page table of a process under its memory map's lock: seconds for a large one,
//! in which it cannot map anything. Here only as many pages are asked for as are paid for:
//!
//! ```text
//! region   |------ 1 ------|-- 2 --|--------------------------- 3 ---------------------------|
//! asked      x  x  x  x  x  xxxxxxx   x     x     x    x    x     x  x      x   x      x   x
//!           one page, by chance,      all of a          fewer where hardly anything was found
//!           of each stretch           small region      when it was looked at last
//! ```
//!
//! A page by chance in each of equal stretches gives every page of a region the same chance, cannot fall in
//! step with pages that are interleaved, and meets every huge page once before any twice.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use pmuscope_machine::pages::PageState;

use crate::Nodes;
use crate::placement::ByNode;

/// The quantile of the normal distribution for intervals of 95 %.
const NORMAL_95: f64 = 1.959_963_985;

/// What was found in one region of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RegionPages {
    /// Pages of the region, whether present or not.
    pub pages: u64,
    /// Pages asked for.
    pub asked: u64,
    /// Of these, how many lie on each node.
    pub on: Vec<u64>,
    /// Of these, how many the kernel would not tell.
    pub refused: u64,
}

impl RegionPages {
    /// Whether every page was asked for.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.asked == self.pages
    }

    /// Pages of the region for each that was asked for.
    fn weight(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { self.pages as f64 / self.asked as f64 }
    }

    /// Of those asked for, the share that is present.
    fn density(&self) -> f64 {
        if self.asked == 0 { 0.0 } else { self.on.iter().sum::<u64>() as f64 / self.asked as f64 }
    }
}

/// Pages on each node, in all regions together: estimates, unless all are exact.
#[must_use]
pub fn by_node(found: &[RegionPages], nodes: &Nodes) -> ByNode {
    let mut sum = nodes.zeroes();
    for region in found {
        for (sum, &on) in sum.iter_mut().zip(&region.on) {
            *sum += on as f64 * region.weight();
        }
    }
    sum
}

/// Half of the 95 % interval of a mean over all present pages, where a page on node `n` has the value
/// `of_node[n]`: shares of running time give locality, 1 for one node and 0 for the others its share of
/// pages. 0 where every page was asked for; `None` where no page is present.
///
/// The estimate is a ratio (sum of values over number of pages); its variance is that of the residuals,
/// region by region, as for random samples without stretches, which is rather too wide than too narrow
/// (W. G. Cochran, Sampling Techniques, 3rd ed., 5.3 and 6.4).
#[must_use]
pub fn margin(found: &[RegionPages], of_node: &[f64]) -> Option<f64> {
    let present: f64 =
        found.iter().map(|region| region.on.iter().sum::<u64>() as f64 * region.weight()).sum();
    if present <= 0.0 {
        return None;
    }
    let value = |region: &RegionPages| -> f64 {
        region.on.iter().zip(of_node).map(|(&on, value)| on as f64 * value).sum::<f64>()
            * region.weight()
    };
    let mean = found.iter().map(value).sum::<f64>() / present;
    let mut variance = 0.0;
    for region in found.iter().filter(|region| region.asked > 1) {
        let n = region.asked as f64;
        // A page that is not present has no residual.
        let residuals =
            || region.on.iter().zip(of_node).map(|(&on, value)| (on as f64, value - mean));
        let sum: f64 = residuals().map(|(on, residual)| on * residual).sum();
        let squares: f64 = residuals().map(|(on, residual)| on * residual * residual).sum();
        let of_one = (squares - sum * sum / n).max(0.0) / (n - 1.0);
        let pages = region.pages as f64;
        variance += pages * pages * (1.0 - n / pages) * of_one / n;
    }
    Some(NORMAL_95 * variance.sqrt() / present)
}

/// Asks for pages, and remembers where it found any.
#[derive(Debug)]
pub struct PageSampler {
    page: u64,
    /// Pages to ask for at a time.
    budget: u64,
    random: fastrand::Rng,
    /// By process and start of region: which share of its pages was present.
    density: BTreeMap<(u32, u64), f64>,
}

impl PageSampler {
    /// One that asks for `budget` pages of `page` bytes at a time, about: small regions get a few at least.
    #[must_use]
    pub fn new(page: usize, budget: u64, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { page: page as u64, budget, random, density: BTreeMap::new() }
    }

    /// Asks for so many pages at a time from now on.
    pub fn set_budget(&mut self, budget: u64) {
        self.budget = budget;
    }

    /// Asks for pages of these regions of a process, by `ask`. Regions begin and end at pages.
    ///
    /// # Errors
    /// What `ask` says.
    pub fn sample(
        &mut self,
        pid: u32,
        regions: &[Range<u64>],
        nodes: &Nodes,
        mut ask: impl FnMut(&[u64]) -> io::Result<Vec<PageState>>,
    ) -> io::Result<Vec<RegionPages>> {
        let pages: Vec<u64> = regions.iter().map(|r| (r.end - r.start) / self.page).collect();
        let counts = self.allot(pid, regions, &pages);
        let mut addresses = Vec::with_capacity(counts.iter().sum::<u64>() as usize);
        for ((region, &pages), &asked) in regions.iter().zip(&pages).zip(&counts) {
            self.choose(region.start, pages, asked, &mut addresses);
        }
        let states = ask(&addresses)?;
        let mut states = states.into_iter();
        let mut found = Vec::with_capacity(regions.len());
        for (&pages, &asked) in pages.iter().zip(&counts) {
            found.push(count(pages, states.by_ref().take(asked as usize), nodes));
        }
        for (region, found) in regions.iter().zip(&found) {
            self.density.insert((pid, region.start), found.density());
        }
        Ok(found)
    }

    /// Forgets a process.
    pub fn forget(&mut self, pid: u32) {
        self.density.retain(|&(of, _), _| of != pid);
    }

    /// How many pages to ask for in each region: in proportion to those that are thought to be present. Of
    /// a region that was never seen the root of its size is: most address space is reserved, not used.
    fn allot(&self, pid: u32, regions: &[Range<u64>], pages: &[u64]) -> Vec<u64> {
        if pages.iter().sum::<u64>() <= self.budget {
            return pages.to_vec();
        }
        let weight = |(region, &pages): (&Range<u64>, &u64)| {
            let pages = pages as f64;
            match self.density.get(&(pid, region.start)) {
                // It may have been filled since: never quite nothing.
                Some(density) => (pages * density).max(pages.sqrt()),
                None => pages.sqrt(),
            }
        };
        let weights: Vec<f64> = regions.iter().zip(pages).map(weight).collect();
        let all: f64 = weights.iter().sum();
        let share = |(&pages, weight): (&u64, &f64)| {
            let asked = (self.budget as f64 * weight / all).ceil() as u64;
            // Two at least, or there is no variance.
            asked.max(2).min(pages)
        };
        pages.iter().zip(&weights).map(share).collect()
    }

    /// One page by chance of each of `asked` stretches that are as equal as whole pages allow.
    fn choose(&mut self, start: u64, pages: u64, asked: u64, addresses: &mut Vec<u64>) {
        for stretch in 0..asked {
            let border =
                |stretch: u64| (u128::from(stretch) * u128::from(pages) / u128::from(asked)) as u64;
            let page = self.random.u64(border(stretch)..border(stretch + 1));
            addresses.push(start + page * self.page);
        }
    }
}

fn count(pages: u64, states: impl Iterator<Item = PageState>, nodes: &Nodes) -> RegionPages {
    let mut found = RegionPages { pages, asked: 0, on: vec![0; nodes.len()], refused: 0 };
    for state in states {
        found.asked += 1;
        match state {
            PageState::On(node) => match nodes.place(node) {
                Some(place) => found.on[place] += 1,
                // A node that came online later.
                None => found.refused += 1,
            },
            PageState::Absent => {}
            PageState::Refused(_) => found.refused += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::topology;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn two_nodes() -> Nodes {
        Nodes::new(&topology(&[(0, &[0]), (1, &[1])]))
    }

    /// Memory whose pages lie as `state` says, by their number.
    fn ask(state: impl Fn(u64) -> PageState) -> impl FnMut(&[u64]) -> io::Result<Vec<PageState>> {
        move |addresses| Ok(addresses.iter().map(|address| state(address / PAGE)).collect())
    }

    fn region(first: u64, pages: u64) -> Range<u64> {
        first * PAGE..(first + pages) * PAGE
    }

    #[test]
    fn what_fits_the_budget_is_counted_exactly() {
        let mut sampler = PageSampler::new(PAGE as usize, 100, 1);
        let state = |page| match page {
            10..16 => PageState::On(0),
            16..18 => PageState::On(1),
            18 => PageState::Refused(13),
            _ => PageState::Absent,
        };
        let nodes = two_nodes();
        let regions = [region(10, 10), region(1000, 3)];
        let found = sampler.sample(1, &regions, &nodes, ask(state)).unwrap();
        assert_eq!(found[0], RegionPages { pages: 10, asked: 10, on: vec![6, 2], refused: 1 });
        assert_eq!(found[1], RegionPages { pages: 3, asked: 3, on: vec![0, 0], refused: 0 });
        assert_eq!(by_node(&found, &nodes), [6.0, 2.0]);
        assert_eq!(margin(&found, &[1.0, 0.0]), Some(0.0));
        assert_eq!(margin(&found[1..], &[1.0, 0.0]), None);
    }

    #[test]
    fn a_step_of_the_sample_does_not_meet_the_step_of_interleaving() {
        let mut sampler = PageSampler::new(PAGE as usize, 4096, 1);
        let nodes = two_nodes();
        // 16 pages a stretch: were it always the first, all would lie on node 0.
        let interleaved = |page: u64| PageState::On((page % 2) as u32);
        let found = sampler.sample(1, &[region(0, 1 << 16)], &nodes, ask(interleaved)).unwrap();
        let [on_0, on_1] = by_node(&found, &nodes)[..] else { panic!("two nodes") };
        assert_eq!(on_0 + on_1, 65536.0);
        let share = on_0 / 65536.0;
        assert!((share - 0.5).abs() < 0.05, "{share}");
    }

    #[test]
    fn reserved_space_gets_few_questions_once_it_is_known() {
        let mut sampler = PageSampler::new(PAGE as usize, 4096, 1);
        let nodes = two_nodes();
        // 64 GiB reserved, nothing there; 256 MiB on node 1.
        let regions = [region(1 << 30, 1 << 24), region(0, 1 << 16)];
        let state = |page| if page < 1 << 16 { PageState::On(1) } else { PageState::Absent };
        let first = sampler.sample(1, &regions, &nodes, ask(state)).unwrap();
        let second = sampler.sample(1, &regions, &nodes, ask(state)).unwrap();
        assert!(first[0].asked > 3000 && second[0].asked < 500, "{first:?} {second:?}");
        assert_eq!(by_node(&second, &nodes), [0.0, 65536.0]);
        sampler.forget(1);
        assert!(sampler.density.is_empty());
    }

    proptest! {
        /// Against all pages counted one by one.
        #[test]
        fn the_interval_holds_the_truth(
            seed in 0..u64::MAX,
            blocks in prop::collection::vec((0..3u32, 1..2000u64), 2..20),
        ) {
            let nodes = two_nodes();
            let mut node_of = Vec::new();
            let mut regions = Vec::new();
            for (kind, pages) in blocks {
                regions.push(region(node_of.len() as u64, pages));
                node_of.extend(std::iter::repeat_n(kind, pages as usize));
            }
            let state = |page: u64| match node_of[page as usize] {
                2 => PageState::Absent,
                node => PageState::On(node),
            };
            let truth = |node| node_of.iter().filter(|&&on| on == node).count() as f64;
            let mut sampler = PageSampler::new(PAGE as usize, 512, seed);
            let found = sampler.sample(1, &regions, &nodes, ask(state)).unwrap();
            for region in &found {
                prop_assert!(region.asked <= region.pages && region.asked >= region.pages.min(2));
            }
            // Each region is of one kind, so what is estimated is exact, however few were asked.
            let pages = by_node(&found, &nodes);
            prop_assert!((pages[0] - truth(0)).abs() < 1e-6 && (pages[1] - truth(1)).abs() < 1e-6);
        }
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let nodes = two_nodes();
        // A third absent; of the others, the beginning of each region on node 0.
        let state = |page: u64| match page % 10_000 {
            0..3000 => PageState::On(0),
            3000..6500 => PageState::On(1),
            _ => PageState::Absent,
        };
        let regions = [region(0, 10_000), region(10_000, 20_000), region(30_000, 500)];
        let all = (0..30_500).map(state).filter_map(PageState::node);
        let (on_0, present) = all
            .fold((0.0, 0.0), |(on_0, n), node| (on_0 + f64::from(u8::from(node == 0)), n + 1.0));
        let truth: f64 = on_0 / present;
        let inside = (0..500).filter(|&seed| {
            let mut sampler = PageSampler::new(PAGE as usize, 300, seed);
            let found = sampler.sample(1, &regions, &nodes, ask(state)).unwrap();
            let pages = by_node(&found, &nodes);
            let share = pages[0] / (pages[0] + pages[1]);
            (share - truth).abs() <= margin(&found, &[1.0, 0.0]).unwrap()
        });
        // Stretches make it better than the formula says: more than 95 %.
        let inside = inside.count();
        assert!(inside >= 465, "{inside} of 500");
    }
}
