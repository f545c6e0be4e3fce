//! What holds after every entry of every log.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::{Incarnation, NodeId, PartitionId};
use crate::metastore::{Assignment, Changed, Member, State, Status};

/// Checks the state after an entry, by itself and against the one before.
pub(super) fn check(before: &State, after: &State, changed: &Changed) {
    check_rows(after);
    check_sets(after);
    check_members(after);
    check_monotone(before, after);
    check_changed(before, after, changed);
}

/// S15 (R87): owners and targets are members that stay, and never the same; R9: a stable row has
/// no target, so a target always means a move.
fn check_rows(state: &State) {
    for (partition, row) in state.assignments() {
        let topic = state.topic(partition.topic).expect("a row belongs to a topic");
        assert!(partition.index < topic.partitions, "{partition:?}");
        assert!(!state.member(row.owner).expect("the owner is a member").retired);
        if let Some(target) = row.target {
            assert!(!state.member(target).expect("the target is a member").retired);
            assert_ne!(target, row.owner, "{partition:?}");
        }
        let last = row.lineage.last().expect("there is a present reign");
        assert_eq!((last.epoch, last.owner, last.data), (row.epoch, row.owner, row.data));
        assert_eq!(last.start, row.min_end, "{partition:?}");
        assert!(row.lineage.len() <= Assignment::LINEAGE_MAX);
    }
}

/// Every set that a reader asks for is what a scan finds.
pub(super) fn check_sets(state: &State) {
    let scan = |keep: &dyn Fn(&Assignment) -> bool| -> Vec<PartitionId> {
        state.assignments().filter(|(_, row)| keep(row)).map(|(p, _)| p).collect()
    };
    assert_eq!(state.targeted().collect::<Vec<_>>(), scan(&|row| row.target.is_some()));
    let all = state.topics().flat_map(crate::metastore::Topic::partition_ids);
    let orphans: Vec<_> = all.filter(|&p| state.assignment(p).is_none()).collect();
    assert_eq!(state.unassigned().collect::<Vec<_>>(), orphans);
    for node in state.members().map(|member| member.id) {
        let owned = scan(&|row| row.owner == node);
        assert_eq!(state.owned_count(node), owned.len());
        assert_eq!(state.owned_by(node).collect::<Vec<_>>(), owned);
        let inbound = scan(&|row| row.target == Some(node));
        assert_eq!(state.inbound_count(node), inbound.len());
        assert_eq!(state.targets_of(node).collect::<Vec<_>>(), inbound);
        let outbound = scan(&|row| row.owner == node && row.target.is_some());
        assert_eq!(state.outbound_count(node), outbound.len());
        assert_eq!(state.outbound_of(node).collect::<Vec<_>>(), outbound);
    }
    let rebuilt = State::from_parts(state.to_parts()).expect("every reachable state is sound");
    assert_eq!(&rebuilt, state, "the index that is kept is the one that is rebuilt");
}

fn check_members(state: &State) {
    let mut names = BTreeSet::new();
    for member in state.members() {
        let holds = state.owned_count(member.id) + state.inbound_count(member.id);
        if member.retired || member.drained_out {
            assert_eq!(holds, 0, "{member:?}");
        }
        let fresh = member.retired || names.insert(member.name.clone());
        assert!(fresh, "{member:?} shares its name");
        if !member.retired {
            assert_eq!(state.member_named(member.name.as_str()), Some(member));
            check_timing(state, member);
        }
        assert_eq!(state.member_of_store(member.store_uuid), Some(member));
    }
}

/// H9: were it declared dead now, a promotion would wait until its lease has run out.
fn check_timing(state: &State, member: &Member) {
    let (policy, timing) = (state.policy(), member.timing);
    if member.incarnation == Incarnation(0) {
        assert_eq!(timing.reach, Duration::ZERO, "it has been given no lease: {member:?}");
        return;
    }
    if member.status != Status::Alive {
        return;
    }
    let wait = policy.promotion_wait(timing.reach, timing.silence);
    let slow = u128::from(100 - policy.clock_rate_error_percent);
    let death_ms = (timing.silence + wait).as_millis() * slow / 100;
    assert!(timing.reach.as_millis() < death_ms, "{member:?}");
    assert!(timing.reach >= policy.lease_reach() && timing.silence <= policy.dead_timeout);
}

/// S16: nothing that counts ever counts down.
fn check_monotone(before: &State, after: &State) {
    assert!(before.applied() < after.applied());
    assert!(before.version() <= after.version());
    for (partition, old) in before.assignments() {
        let Some(new) = after.assignment(partition) else { continue };
        assert!(old.epoch <= new.epoch && old.move_id <= new.move_id, "{partition:?}");
        assert!(old.min_end <= new.min_end, "{partition:?}");
        if old.move_id == new.move_id {
            assert!(old.burned <= new.burned, "{partition:?}");
            assert_eq!(old.target, new.target, "a plan has one target");
        }
        if old.epoch == new.epoch {
            assert!(old.revoked <= new.revoked, "{partition:?}");
            assert!(old.reported_hwm <= new.reported_hwm, "{partition:?}");
            assert_eq!((old.owner, old.data), (new.owner, new.data), "a reign has one owner");
        }
    }
    for old in before.members() {
        let new = after.member(old.id).expect("no member is forgotten");
        assert!(old.incarnation <= new.incarnation && old.deaths <= new.deaths, "{new:?}");
        assert!(old.retired <= new.retired, "{new:?}");
        assert_eq!(old.store_uuid, new.store_uuid, "a member is its disk");
    }
}

/// `Changed` names what differs: all of it, and nothing else.
pub(super) fn check_changed(before: &State, after: &State, changed: &Changed) {
    let partitions: BTreeSet<_> =
        before.assignments().chain(after.assignments()).map(|(p, _)| p).collect();
    let differ = partitions.into_iter().filter(|&p| before.assignment(p) != after.assignment(p));
    assert_eq!(changed.partitions, differ.collect::<Vec<_>>());
    let members: BTreeSet<NodeId> = after.members().map(|member| member.id).collect();
    let differ = members.into_iter().filter(|&node| before.member(node) != after.member(node));
    assert_eq!(changed.members, differ.collect::<Vec<_>>());
    let topics: BTreeSet<_> = before.topics().chain(after.topics()).map(|t| t.id).collect();
    let differ = topics.into_iter().filter(|&t| before.topic(t) != after.topic(t));
    assert_eq!(changed.topics, differ.collect::<Vec<_>>());
    assert_eq!(changed.policy, before.policy() != after.policy());
    assert_eq!(changed.version, before.version() != after.version());
}
