//! What an owner remembers of the batches that other nodes have brought it.

use alloc::collections::BTreeMap;

use super::interface::{BatchNo, SendFault};
use crate::ids::NodeId;
use crate::planted::{Bug, is_planted};

/// The owner's side of the dispatch to one partition: which batches were taken, so that one whose
/// answer was lost is answered again instead of being appended twice (R53).
///
/// Plain memory, kept beside the partition's log under the same mutex, and as old as the log's
/// opening: what was taken before a restart or a flip is taken again, which is where duplicates
/// come from.
///
/// # Examples
///
/// ```
/// use narad_core::dispatch::{BatchNo, Receiver, Receipt, SendFault};
/// use narad_core::ids::{Incarnation, NodeId};
///
/// let mut receiver = Receiver::default();
/// let batch = BatchNo { ingress: NodeId(3), life: Incarnation(1), n: 0 };
/// assert_eq!(receiver.begin(batch), Ok(Receipt::Append));
/// // The same batch again, while the first one waits for the disk:
/// assert_eq!(receiver.begin(batch), Err(SendFault::Busy));
/// receiver.end(batch, true);
/// assert_eq!(receiver.begin(batch), Ok(Receipt::Taken));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Receiver {
    from: BTreeMap<NodeId, Memory>,
}

/// What is to be done with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Receipt {
    /// It is new: append it, then say how that [ended](Receiver::end).
    Append,
    /// It was taken before: answer as if it had been appended just now.
    Taken,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Memory {
    taken: Option<BatchNo>,
    under_way: Option<BatchNo>,
}

impl Receiver {
    /// Judges a batch, before anything else about it is looked at.
    ///
    /// # Errors
    ///
    /// [`SendFault::Stale`] if a later one of that node was taken: it is a late copy.
    /// [`SendFault::Busy`] while another of that node is being appended.
    pub fn begin(&mut self, batch: BatchNo) -> Result<Receipt, SendFault> {
        let memory = self.from.entry(batch.ingress).or_default();
        if let Some(newest) = memory.taken {
            if newest == batch && !is_planted(Bug::ReceiverForgets) {
                return Ok(Receipt::Taken);
            }
            if newest > batch {
                return Err(SendFault::Stale { newest });
            }
        }
        if memory.under_way.is_some() {
            return Err(SendFault::Busy);
        }
        memory.under_way = Some(batch);
        Ok(Receipt::Append)
    }

    /// Takes note of how an append has ended: whether all of the batch is durable and acknowledged.
    pub fn end(&mut self, batch: BatchNo, taken: bool) {
        let memory = self.from.entry(batch.ingress).or_default();
        // An append that outlives the opening it began in says nothing of what has begun since.
        memory.under_way = memory.under_way.filter(|under_way| *under_way != batch);
        if taken {
            memory.taken = memory.taken.max(Some(batch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Incarnation;

    fn batch(life: u64, n: u64) -> BatchNo {
        BatchNo { ingress: NodeId(2), life: Incarnation(life), n }
    }

    fn take(receiver: &mut Receiver, batch: BatchNo) {
        assert_eq!(receiver.begin(batch), Ok(Receipt::Append));
        receiver.end(batch, true);
    }

    /// R53: a late copy of an earlier batch is told from the next one, and from a later life's first.
    #[test]
    fn a_late_copy_is_not_appended() {
        let mut receiver = Receiver::default();
        take(&mut receiver, batch(1, 7));
        take(&mut receiver, batch(1, 8));
        let newest = batch(1, 8);
        assert_eq!(receiver.begin(batch(1, 7)), Err(SendFault::Stale { newest }));
        assert_eq!(receiver.begin(batch(1, 8)), Ok(Receipt::Taken));
        take(&mut receiver, batch(2, 0));
        let newest = batch(2, 0);
        assert_eq!(receiver.begin(batch(1, 9)), Err(SendFault::Stale { newest }));
    }

    /// An append of an earlier opening of the log ends late: the one under way stays under way.
    #[test]
    fn a_late_end_frees_nobody_elses_place() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.begin(batch(1, 4)), Ok(Receipt::Append));
        receiver.end(batch(1, 3), false);
        assert_eq!(receiver.begin(batch(1, 4)), Err(SendFault::Busy));
        receiver.end(batch(1, 4), true);
        assert_eq!(receiver.begin(batch(1, 4)), Ok(Receipt::Taken));
    }

    /// R37: a batch that was not taken is appended when it comes again, and holds up nobody else's.
    #[test]
    fn a_batch_that_failed_may_come_again() {
        let mut receiver = Receiver::default();
        assert_eq!(receiver.begin(batch(1, 0)), Ok(Receipt::Append));
        assert_eq!(receiver.begin(batch(1, 0)), Err(SendFault::Busy));
        let other = BatchNo { ingress: NodeId(9), ..batch(1, 0) };
        take(&mut receiver, other);
        receiver.end(batch(1, 0), false);
        take(&mut receiver, batch(1, 0));
    }
}
