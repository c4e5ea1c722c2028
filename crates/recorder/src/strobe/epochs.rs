//! The epochs of a recording, and what of them is not in the stream yet.

use pmuscope_perfdata::strobe::{Epoch, EpochUpdate, OpenedId};

/// All epochs, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    all: Vec<Epoch>,
    unreported: EpochUpdate,
}

/// An epoch that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartedEpoch(usize);

impl Epochs {
    pub(crate) fn begin(&mut self, epoch: Epoch) -> StartedEpoch {
        self.unreported.epochs.push(epoch.clone());
        self.all.push(epoch);
        StartedEpoch(self.all.len() - 1)
    }

    pub(crate) fn end(&mut self, epoch: StartedEpoch, now_ns: u64) {
        if let Some(epoch) = self.all.get_mut(epoch.0) {
            epoch.until_ns = Some(now_ns);
            self.unreported.epochs.push(epoch.clone());
        }
    }

    pub(crate) fn opened(&mut self, id: OpenedId) {
        self.unreported.opened.push(id);
    }

    /// What became known since the last call.
    pub(crate) fn take_unreported(&mut self) -> EpochUpdate {
        std::mem::take(&mut self.unreported)
    }

    /// By CPU and time.
    pub(crate) fn sorted(&self) -> Vec<Epoch> {
        let mut all = self.all.clone();
        all.sort_by_key(|epoch| (epoch.cpu, epoch.from_ns));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmuscope_perfdata::strobe::StrobeInfo;

    #[test]
    fn what_is_told_piece_by_piece_is_what_there_is() {
        let mut epochs = Epochs::default();
        let mut reported = StrobeInfo::default();
        let epoch = |cpu, from_ns| Epoch { cpu, from_ns, ..Epoch::default() };
        let first = epochs.begin(epoch(1, 10));
        let other = epochs.begin(epoch(0, 11));
        reported.take(&epochs.take_unreported());
        epochs.end(first, 20);
        epochs.begin(epoch(1, 21));
        reported.take(&epochs.take_unreported());
        epochs.end(other, 30);
        reported.take(&epochs.take_unreported());
        assert_eq!(reported.epochs, epochs.sorted());
        assert_eq!(
            reported.epochs.iter().map(|e| e.until_ns).collect::<Vec<_>>(),
            [Some(30), Some(20), None]
        );
        assert_eq!(epochs.take_unreported(), EpochUpdate::default());
    }
}
