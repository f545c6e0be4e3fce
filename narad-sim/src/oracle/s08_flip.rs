//! S8, flip precondition. A normal flip implies: the source was frozen under that token from
//! before the capture until it applied the flip; the copy is contiguous [start, end), end is at
//! least the high watermark, digest equal, every file and directory entry durable.
//!
//! Judged when the flip is first applied: the capture under that token must have been seen and its
//! freeze not ended in the log; what the command says must be what was captured; and the copy, read
//! from what its disk holds durably, must have the very records of the source's disk. That the
//! source stays frozen until it applies the flip is judged whenever it appends (S9). No clock takes
//! part.

use narad_core::ids::{Attempt, Digest, NodeId, Offset, Token};

use super::part::{Hold, Part};
use super::sink::Cx;
use super::{Directory, LogView};

/// What a flip says of its copy.
#[derive(Clone, Copy)]
pub(super) struct Copy {
    pub(super) attempt: Attempt,
    pub(super) end: Offset,
    pub(super) hwm: Offset,
    pub(super) digest: Digest,
}

/// A normal flip took effect. Returns the capture that it rests on.
pub(super) fn normal(part: &Part, token: Token, copy: Copy, cx: &mut Cx<'_>) -> Option<Hold> {
    let Some(hold) = part.holds.iter().find(|hold| hold.capture.token == token) else {
        cx.breach("S8", part.id, || format!("a flip rests on {token:?}, under which nobody froze"));
        return None;
    };
    let listing = &hold.capture.listing;
    let said = (copy.end, copy.hwm, copy.digest);
    let captured = (listing.end, listing.hwm, hold.capture.digest);
    if hold.ended {
        cx.breach("S8", part.id, || format!("a flip rests on {token:?}, which was over"));
    }
    if said != captured {
        cx.breach("S8", part.id, || {
            format!("a flip says {said:?} of its copy, {captured:?} was captured")
        });
    }
    if let Some(log) = installed(part, copy, cx) {
        let source = part.last().map(|last| (last.owner, last.data));
        let theirs = source
            .filter(|(node, data)| !part.is_damaged(*node, *data))
            .and_then(|(node, data)| cx.look.log(node, part.id, Directory::Installed(data)));
        if let Some(theirs) = theirs {
            compare(part, copy, &log, &theirs, cx);
        }
        if log.start > listing.start {
            cx.breach("S8", part.id, || {
                format!("the copy begins at {:?}, not at {:?}", log.start, listing.start)
            });
        }
    }
    Some(hold.clone())
}

/// A forced flip took effect: its copy, too, is what it says, and whole.
pub(super) fn forced(part: &Part, copy: Copy, cx: &mut Cx<'_>) {
    installed(part, copy, cx);
}

/// Reads the copy, which must be there and be what the flip says of it.
fn installed(part: &Part, copy: Copy, cx: &mut Cx<'_>) -> Option<LogView> {
    let node: NodeId = copy.attempt.destination;
    let directory = Directory::Installed(copy.attempt);
    if part.is_damaged(node, copy.attempt) {
        return None;
    }
    let Some(log) = cx.look.log(node, part.id, directory) else {
        cx.breach("S8", part.id, || format!("{:?} is flipped to, and is not there", copy.attempt));
        return None;
    };
    if copy.end < copy.hwm || (log.end, log.hwm) != (copy.end, copy.hwm) {
        cx.breach("S8", part.id, || {
            let there = (log.end, log.hwm);
            format!(
                "a flip says end and high watermark {:?}, there is {there:?}",
                (copy.end, copy.hwm)
            )
        });
    }
    let offsets = (log.start.0..log.end.0).map(Offset);
    // A hole may be the source's own, which S1 knows of.
    if !part.has_holes() && !log.records.iter().map(|(offset, _)| *offset).eq(offsets) {
        cx.breach("S8", part.id, || {
            format!("the copy has gaps between {:?} and {:?}", log.start, log.end)
        });
    }
    Some(log)
}

/// The copy has the records that the source has, up to its end.
fn compare(part: &Part, copy: Copy, log: &LogView, theirs: &LogView, cx: &mut Cx<'_>) {
    let from = log.start.max(theirs.start);
    let within = |view: &LogView| -> Vec<(Offset, u64)> {
        let fits = |offset: Offset| offset >= from && offset < copy.end;
        view.records.iter().copied().filter(|(offset, _)| fits(*offset)).collect()
    };
    let (ours, theirs) = (within(log), within(theirs));
    if ours != theirs {
        let at = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        let at = at.unwrap_or(ours.len().min(theirs.len()));
        cx.breach("S8", part.id, || {
            let (ours, theirs) = (ours.get(at), theirs.get(at));
            format!("the copy has {ours:?} where the source has {theirs:?}")
        });
    }
}
