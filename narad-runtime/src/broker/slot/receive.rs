//! What a slot remembers of batches that other nodes have accepted.

use narad_core::dispatch::{BatchNo, Receipt, SendFault};

use super::Slot;

impl Slot {
    /// Judges a batch that another node has accepted, before anything else about it is looked at.
    /// What is to be appended is followed by [`end_delivery`](Self::end_delivery).
    ///
    /// # Errors
    ///
    /// If it is a late copy, or another batch of that node is being appended.
    pub fn begin_delivery(&self, batch: BatchNo) -> Result<Receipt, SendFault> {
        self.lock().receiver.begin(batch)
    }

    /// Takes note of how the append of a batch has ended: whether all of it was acknowledged.
    pub fn end_delivery(&self, batch: BatchNo, taken: bool) {
        self.lock().receiver.end(batch, taken);
    }
}
