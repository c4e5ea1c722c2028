//! A list that grows while other threads read what it held before.

use std::sync::Arc;

/// Items of a page.
const PAGE: usize = 1024;

/// Items by number. A clone keeps what is there at the time; only its last page, if that is not full, is copied once
/// the list grows.
#[derive(Debug, Clone)]
pub(super) struct Pages<T> {
    pages: Vec<Arc<Vec<T>>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Clone> Pages<T> {
    pub(super) fn len(&self) -> usize {
        // All pages but the last are full.
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    pub(super) fn push(&mut self, item: T) {
        match self.pages.last_mut().filter(|last| last.len() < PAGE) {
            Some(last) => Arc::make_mut(last).push(item),
            None => self.pages.push(Arc::new(vec![item])),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let number = number as usize;
        self.pages.get(number / PAGE)?.get(number % PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_what_was_there() {
        let mut pages = Pages::default();
        let mut clones = Vec::new();
        for number in 0..3000_u32 {
            assert_eq!(pages.len(), number as usize);
            pages.push(number);
            clones.push(pages.clone());
        }
        for (length, clone) in (1..).zip(&clones) {
            assert_eq!(clone.len(), length as usize);
            assert_eq!((clone.get(length - 1), clone.get(length)), (Some(&(length - 1)), None));
        }
        assert!((0..3000).all(|number| pages.get(number) == Some(&number)));
    }
}
