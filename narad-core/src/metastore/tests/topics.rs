//! Topics and first owners: H26, H40, `case_117`, `case_135`.

use super::{Entry, Vec, World, create, join, name};
use crate::ids::{NodeId, PartitionId, TopicId};
use crate::metastore::{Applied, Command, Reason, State, Topic};

fn assign(partition: PartitionId, node: u64) -> Command {
    Command::AssignPartition { partition, node: NodeId(node) }
}

/// H26: a topic is the index of its creation, so a name that is created again is another one.
#[test]
fn a_topic_is_named_by_its_entry() {
    let mut world = World::cluster(2);
    let first = world.create("a", 2);
    assert_eq!(first.0, world.state.applied().0);
    assert_eq!(world.refuses(1, create("a", 2)), Reason::NameTaken);
    world.applies(1, Command::DeleteTopic { topic: first });
    assert_eq!(world.refuses(1, Command::DeleteTopic { topic: first }), Reason::Gone);
    assert_ne!(world.create("a", 2), first);
    assert_eq!(world.state.topic_named("not a name"), None);
}

/// H3: a late copy of a creation finds its topic, and does not bring a deleted one back.
#[test]
fn a_duplicate_of_a_creation_creates_nothing() {
    let mut world = World::cluster(1);
    let proposal = world.proposal(1);
    let entry = Entry { proposal, by: NodeId(1), command: create("a", 2) };
    let (first, _) = world.append(&entry);
    let (second, changed) = world.append(&entry);
    assert_eq!(first, second);
    assert!(changed.is_empty());
    let topic = world.state.topic_named("a").expect("it was created").id;
    world.applies(1, Command::DeleteTopic { topic });
    assert_eq!(world.append(&entry).0, super::Reply::Rejected(Reason::Gone));
    assert_eq!(world.state.topic_named("a"), None);
}

/// Sizes and parents are checked before anything is made.
#[test]
fn a_topic_is_of_a_sensible_size_and_has_an_existing_parent() {
    let mut world = World::cluster(1);
    for partitions in [0, Topic::PARTITIONS_MAX + 1, u32::MAX] {
        assert_eq!(world.refuses(1, create("a", partitions)), Reason::OutOfRange);
    }
    let child = |parent| Command::CreateTopic { name: name("b"), partitions: 1, parent };
    assert_eq!(world.refuses(1, child(Some(TopicId(999)))), Reason::UnknownTopic);
    let parent = world.topic;
    world.applies(1, child(Some(parent)));
    // The parent goes; the child stays, an orphan.
    world.applies(1, Command::DeleteTopic { topic: parent });
    assert_eq!(world.state.topic_named("b").expect("it stays").parent, None);
}

/// Rule 8: all topics together are bounded.
#[test]
fn the_partitions_of_all_topics_are_bounded() {
    let mut state = State::new();
    let mut sequence = 0;
    let mut ask = |text: &str, partitions| {
        sequence += 1;
        let proposal =
            super::ProposalId { node: NodeId(1), incarnation: super::Incarnation(1), sequence };
        let entry = Entry { proposal, by: NodeId(1), command: create(text, partitions) };
        state.apply(super::LogIndex(sequence), &entry).expect("the command is known").reply
    };
    for text in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        assert!(matches!(ask(text, Topic::PARTITIONS_MAX), super::Reply::Applied(_)));
    }
    assert!(matches!(ask("j", Topic::PARTITIONS_MAX - 1), super::Reply::Applied(_)));
    assert_eq!(ask("k", 2), super::Reply::Rejected(Reason::OutOfRange));
    assert!(matches!(ask("k", 1), super::Reply::Applied(_)));
}

/// `case_135`: what has an owner is never given another one in this way.
#[test]
fn an_owner_is_never_replaced_by_an_assignment() {
    let mut world = World::cluster(3);
    let p = world.p(0);
    assert_eq!(world.applies(9, assign(p, 1)), Applied::Done);
    assert_eq!(world.refuses(9, assign(p, 2)), Reason::AlreadyAssigned);
    world.relocate(0, 2, 10);
    assert_eq!(world.refuses(9, assign(p, 1)), Reason::AlreadyAssigned);
    assert_eq!(world.refuses(9, assign(p, 2)), Reason::AlreadyAssigned);
    assert_eq!(world.refuses(9, assign(world.p(4), 1)), Reason::OutOfRange);
    let nowhere = PartitionId { topic: TopicId(77), index: 0 };
    assert_eq!(world.refuses(9, assign(nowhere, 1)), Reason::UnknownTopic);
}

/// H40, `case_115`, `case_117`: the first owner must be a receiver when the entry applies.
#[test]
fn a_first_owner_is_a_receiver() {
    let mut world = World::cluster(5);
    world.applies(0, join("new", 6));
    world.kill(3);
    world.drain(4, true);
    world.drain(5, true);
    world.drained_out(5);
    world.applies(9, Command::Retire { node: NodeId(5), receipt: None });
    let p = world.p(1);
    for (node, reason) in [
        (3, Reason::NodeDead),
        (4, Reason::NodeDraining),
        (5, Reason::NodeRetired),
        (6, Reason::NodeUnregistered),
        (7, Reason::UnknownMember),
    ] {
        assert_eq!(world.refuses(9, assign(p, node)), reason, "n{node}");
    }
    assert_eq!(world.applies(9, assign(p, 2)), Applied::Done);
}

/// H26, H47, R7: the rows go with the topic, the ones under way too, and no set keeps them.
#[test]
fn a_deleted_topic_leaves_nothing_behind() {
    let mut world = World::moving(3);
    world.assign(1, 2);
    let topic = world.topic;
    let other = world.create("other", 1);
    let proposal = world.proposal(1);
    let entry = Entry { proposal, by: NodeId(1), command: Command::DeleteTopic { topic } };
    let (_, changed) = world.append(&entry);
    assert_eq!(changed.partitions, [world.p(0), world.p(1)]);
    assert_eq!(changed.topics, [topic]);
    assert_eq!(world.state.assignments().len(), 0);
    let left: Vec<_> = world.state.unassigned().map(|p| p.topic).collect();
    assert_eq!(left, [other]);
    assert_eq!(world.state.topics().len(), 1);
}
