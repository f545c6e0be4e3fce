//! The names of a node's logs in its store.

use narad_core::ids::{Attempt, AttemptNo, Incarnation, MoveId, NodeId, PartitionId, TopicId};

/// Who the node is.
pub(super) const NODE: &str = "node";

/// The copy of a partition that grows.
pub(super) fn staging(partition: PartitionId) -> String {
    format!("s/{}-{}", partition.topic.0, partition.index)
}

/// A log of a partition, named by the attempt that installed it.
pub(super) fn log(partition: PartitionId, attempt: Attempt) -> String {
    let Attempt { move_id, destination, no } = attempt;
    format!(
        "p/{}-{}/m{}-n{}-i{}-a{}",
        partition.topic.0, partition.index, move_id.0, destination.0, no.incarnation.0, no.n
    )
}

/// What was set aside at a time.
pub(super) fn trash(at_ms: i64, log: &str) -> String {
    format!("t/{}/{}", at_ms.max(0), log.replace('/', "-"))
}

/// Reads back when something was set aside.
pub(super) fn trashed_at(log: &str) -> Option<i64> {
    log.strip_prefix("t/")?.split_once('/')?.0.parse().ok()
}

/// Reads back whose copy it is.
pub(super) fn partition_of_staging(log: &str) -> Option<PartitionId> {
    partition(log.strip_prefix("s/")?)
}

/// Reads back which log it is.
pub(super) fn attempt_of(log: &str) -> Option<(PartitionId, Attempt)> {
    let (of, attempt) = log.strip_prefix("p/")?.split_once('/')?;
    let mut numbers = ['m', 'n', 'i', 'a']
        .into_iter()
        .zip(attempt.split('-'))
        .map(|(mark, part)| part.strip_prefix(mark)?.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    let attempt = Attempt {
        move_id: MoveId(next()?),
        destination: NodeId(next()?),
        no: AttemptNo { incarnation: Incarnation(next()?), n: u32::try_from(next()?).ok()? },
    };
    let partition = partition(of)?;
    (self::log(partition, attempt) == log).then_some((partition, attempt))
}

fn partition(text: &str) -> Option<PartitionId> {
    let (topic, index) = text.split_once('-')?;
    Some(PartitionId { topic: TopicId(topic.parse().ok()?), index: index.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::{LOG_NAME_BYTES_MAX, is_own};

    #[test]
    fn names_are_read_back_and_stay_short() {
        let p = PartitionId { topic: TopicId(u64::MAX), index: u32::MAX };
        let no = AttemptNo { incarnation: Incarnation(u64::MAX), n: u32::MAX };
        let attempt = Attempt { move_id: MoveId(u64::MAX), destination: NodeId(u64::MAX), no };
        assert_eq!(attempt_of(&log(p, attempt)), Some((p, attempt)));
        assert_eq!(partition_of_staging(&staging(p)), Some(p));
        let trashed = trash(i64::MAX, &log(p, attempt));
        assert_eq!(trashed_at(&trashed), Some(i64::MAX));
        assert!(trashed.len() <= LOG_NAME_BYTES_MAX, "{}", trashed.len());
        assert!([NODE, &trashed, &log(p, attempt), &staging(p)].into_iter().all(is_own));
        for foreign in ["p/1-2/m1-n2-i3", "p/1-2/m1-n2-i3-a04", "q/1-2/m1-n2-i3-a4", "p/x"] {
            assert_eq!(attempt_of(foreign), None);
        }
    }
}
