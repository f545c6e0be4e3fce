//! Making the disk fit what a listing says: first the manifest stops vouching for what must go,
//! then it goes. A crash between the two leaves bytes that nothing vouches for, never the reverse.

use super::cx::Cx;
use super::operation::{Fault, Operation, Outcome};
use crate::effects::OpId;

/// Waits for one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fit {
    Checkpoint(OpId),
    Trim(OpId),
}

impl Fit {
    /// Begins, if there is anything to do.
    pub(super) fn begin(cx: &mut Cx<'_>) -> Option<Self> {
        let stage = &cx.desk.stage;
        if stage.trim_due || !stage.header_is_durable() {
            Some(Self::Checkpoint(cx.checkpoint()))
        } else {
            None
        }
    }

    /// As [`Self::begin`], where every staged byte counts.
    pub(super) fn begin_for_promotion(cx: &mut Cx<'_>) -> Option<Self> {
        let stage = &cx.desk.stage;
        let due = stage.working().is_some() && (stage.trim_due || stage.is_dirty());
        due.then(|| Self::Checkpoint(cx.checkpoint()))
    }

    /// Goes on; `None` once the disk fits.
    pub(super) fn done(
        self,
        op: OpId,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Self>, Fault> {
        match (self, outcome) {
            (Self::Checkpoint(mine), Outcome::Checkpoint(result)) => {
                assert_eq!(op, mine, "a checkpoint is all that runs");
                result?;
                if !cx.desk.stage.trim_due {
                    return Ok(None);
                }
                let keep = cx.desk.stage.extents().to_vec();
                Ok(Some(Self::Trim(cx.run(Operation::Trim { keep }))))
            }
            (Self::Trim(mine), Outcome::Trim(result)) => {
                assert_eq!(op, mine, "a trim is all that runs");
                result?;
                Ok(None)
            }
            (fit, outcome) => unreachable!("{fit:?} was answered by {outcome:?}"),
        }
    }
}
