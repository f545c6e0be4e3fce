//! Arbitrary core values, for the round trips.

use std::collections::BTreeSet;
use std::time::Duration;

use narad_core::config::Policy;
use narad_core::cursor::{Acks, Span};
use narad_core::dispatch::{BatchNo, SendFault};
use narad_core::ids::{
    Attempt, AttemptNo, ByteCount, Digest, Drain, Epoch, FreezeNo, Generation, Incarnation,
    LogGeneration, LogIndex, MoveId, Name, NodeId, Offset, PartitionId, ProposalId, StoreUuid,
    Token, TopicId,
};
use narad_core::metastore::{
    Addresses, Assignment, Command, Configuration, Entry, Expect, Fence, Member, Parts, Reign,
    Residue, Status, Timing, Topic,
};
use narad_core::partition::{Capture, Checksum, Extent, Listing, Position, Staged};
use narad_core::peer::{Answer, Refusal, Request};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::deliver::{Delivered, Head, RECORDS_MAX};
use super::metastore::REASONS;

mod greetings;

pub(crate) use greetings::{hello, welcome};

/// Both ends of the range are as likely as what lies between.
fn int() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1000_u64, any::<u64>(), Just(u64::MAX)]
}

fn node() -> impl Strategy<Value = NodeId> {
    int().prop_map(NodeId)
}

fn offset() -> impl Strategy<Value = Offset> {
    int().prop_map(Offset)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    int().prop_map(Incarnation)
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..12).prop_map(String::from_iter)
}

fn name() -> impl Strategy<Value = Name> {
    "[A-Za-z0-9_-][A-Za-z0-9._-]{0,30}".prop_map(|text| Name::new(text).expect("allowed"))
}

fn span() -> impl Strategy<Value = Duration> {
    (int(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n))
}

pub(crate) fn partition() -> impl Strategy<Value = PartitionId> {
    (int(), any::<u32>()).prop_map(|(topic, index)| PartitionId { topic: TopicId(topic), index })
}

fn attempt_no() -> impl Strategy<Value = AttemptNo> {
    (incarnation(), any::<u32>()).prop_map(|(incarnation, n)| AttemptNo { incarnation, n })
}

pub(crate) fn attempt() -> impl Strategy<Value = Attempt> {
    (int(), node(), attempt_no()).prop_map(|(move_id, destination, no)| Attempt {
        move_id: MoveId(move_id),
        destination,
        no,
    })
}

fn freeze_no() -> impl Strategy<Value = FreezeNo> {
    (incarnation(), int()).prop_map(|(incarnation, counter)| FreezeNo { incarnation, counter })
}

fn token() -> impl Strategy<Value = Token> {
    (int(), freeze_no()).prop_map(|(epoch, no)| Token { epoch: Epoch(epoch), no })
}

fn expect() -> impl Strategy<Value = Expect> {
    (node(), int(), int()).prop_map(|(owner, epoch, move_id)| Expect {
        owner,
        epoch: Epoch(epoch),
        move_id: MoveId(move_id),
    })
}

fn addrs() -> impl Strategy<Value = Addresses> {
    (text(), text()).prop_map(|(peer, http)| Addresses { peer, http })
}

fn uuid() -> impl Strategy<Value = StoreUuid> {
    any::<u128>().prop_map(StoreUuid)
}

fn digest() -> impl Strategy<Value = Digest> {
    any::<u128>().prop_map(Digest)
}

pub(crate) fn policy() -> impl Strategy<Value = Policy> {
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    let spans = (span(), span(), span(), span());
    let rates = (int(), int(), int(), int());
    (counts, spans, any::<bool>(), rates, any::<u32>()).prop_map(
        |(counts, spans, paused, rates, clock_rate_error_percent)| Policy {
            max_in_flight: counts.0,
            moves_per_source: counts.1,
            moves_per_destination: counts.2,
            min_voters: counts.3,
            voters_max: counts.4,
            paused,
            copy_rate_bytes_per_second: rates.0,
            copy_in_bytes_per_second: rates.1,
            copy_out_bytes_per_second: rates.2,
            cluster_copy_rate_bytes_per_second: rates.3,
            clock_rate_error_percent,
            lease: spans.0,
            lease_margin: spans.1,
            dead_timeout: spans.2,
            force_promote_after: spans.3,
        },
    )
}

pub(crate) fn member() -> impl Strategy<Value = Member> {
    let status = prop_oneof![
        Just(Status::Alive),
        int().prop_map(|generation| Status::Dead(Generation(generation)))
    ];
    let flags = any::<(bool, bool, bool)>();
    let timing = (span(), span(), span()).prop_map(|(reach, silence, promote_after)| Timing {
        reach,
        silence,
        promote_after,
    });
    let counts = (int(), int());
    (node(), name(), addrs(), uuid(), incarnation(), status, counts, flags, timing).prop_map(
        |(id, name, addrs, store_uuid, incarnation, status, counts, flags, timing)| Member {
            id,
            name,
            addrs,
            store_uuid,
            incarnation,
            status,
            deaths: Generation(counts.0),
            draining: flags.0,
            drains: Drain(counts.1),
            drained_out: flags.1,
            retired: flags.2,
            timing,
        },
    )
}

pub(crate) fn configuration() -> impl Strategy<Value = Configuration> {
    fn set() -> impl Strategy<Value = BTreeSet<NodeId>> {
        btree_set(node(), 0..5)
    }
    (set(), set(), set()).prop_map(|(voters, voters_outgoing, learners)| Configuration {
        voters,
        voters_outgoing,
        learners,
    })
}

pub(crate) fn topic() -> impl Strategy<Value = Topic> {
    (int(), name(), any::<u32>(), option::of(int()), proposal()).prop_map(
        |(id, name, partitions, parent, created_by)| Topic {
            id: TopicId(id),
            name,
            partitions,
            parent: parent.map(TopicId),
            created_by,
        },
    )
}

pub(crate) fn reign() -> impl Strategy<Value = Reign> {
    let residue =
        prop_oneof![Just(Residue::None), Just(Residue::Pending), Just(Residue::Reclaimed)];
    (int(), offset(), node(), attempt(), residue).prop_map(
        |(epoch, start, owner, data, residue)| Reign {
            epoch: Epoch(epoch),
            start,
            owner,
            data,
            residue,
        },
    )
}

pub(crate) fn parts() -> impl Strategy<Value = Parts> {
    let rows = vec((partition(), assignment()), 0..4);
    let tables = (vec(member(), 0..4), vec(topic(), 0..4), rows, vec(proposal(), 0..3));
    (int(), any::<u32>(), node(), policy(), configuration(), tables).prop_map(
        |(applied, version, newest_node, policy, configuration, tables)| Parts {
            applied: LogIndex(applied),
            version,
            newest_node,
            policy,
            configuration,
            members: tables.0,
            topics: tables.1,
            assignments: tables.2,
            remembered: tables.3,
        },
    )
}

pub(crate) fn assignment() -> impl Strategy<Value = Assignment> {
    let fences =
        (option::of(attempt_no()), option::of(freeze_no()), option::of(offset()), any::<bool>());
    let lineage = (vec(reign(), 0..4), any::<bool>());
    (expect(), attempt(), offset(), lineage, option::of(node()), fences).prop_map(
        |(row, data, min_end, lineage, target, fences)| Assignment {
            owner: row.owner,
            epoch: row.epoch,
            move_id: row.move_id,
            data,
            min_end,
            lineage: lineage.0,
            lineage_cut: lineage.1,
            target,
            burned: fences.0,
            revoked: fences.1,
            reported_hwm: fences.2,
            pinned: fences.3,
        },
    )
}

fn complete_move() -> impl Strategy<Value = Command> {
    let fence = prop_oneof![
        token().prop_map(|token| Fence::Normal { token }),
        int().prop_map(|generation| Fence::Forced { generation: Generation(generation) }),
    ];
    let ends = (offset(), offset(), option::of(offset()), digest());
    (partition(), expect(), attempt(), fence, ends).prop_map(
        |(partition, expect, attempt, fence, (end, hwm, committed, digest))| {
            Command::CompleteMove { partition, expect, attempt, fence, end, hwm, committed, digest }
        },
    )
}

fn declare_lost() -> impl Strategy<Value = Command> {
    (partition(), expect(), int(), node(), attempt(), offset(), text()).prop_map(
        |(partition, expect, generation, to, data, end, receipt)| Command::DeclareLost {
            partition,
            expect,
            generation: Generation(generation),
            to,
            data,
            end,
            receipt,
        },
    )
}

fn membership() -> impl Strategy<Value = Command> {
    let hwm = (partition(), int().prop_map(Epoch), offset());
    prop_oneof![
        (name(), uuid(), addrs()).prop_map(|(name, store_uuid, addrs)| Command::Join {
            name,
            store_uuid,
            addrs
        }),
        (node(), uuid(), incarnation(), addrs()).prop_map(
            |(node, store_uuid, incarnation, addrs)| Command::Register {
                node,
                store_uuid,
                incarnation,
                addrs
            }
        ),
        (node(), incarnation())
            .prop_map(|(node, incarnation)| Command::MarkDead { node, incarnation }),
        (node(), incarnation(), vec(hwm, 0..5))
            .prop_map(|(node, incarnation, hwms)| Command::Report { node, incarnation, hwms }),
        (node(), any::<bool>()).prop_map(|(node, on)| Command::SetDraining { node, on }),
        (node(), incarnation(), int().prop_map(Drain)).prop_map(|(node, incarnation, drain)| {
            Command::DrainedOut { node, incarnation, drain }
        }),
        (node(), option::of(text())).prop_map(|(node, receipt)| Command::Retire { node, receipt }),
        policy().prop_map(Command::SetPolicy),
        any::<u32>().prop_map(|to| Command::RaiseVersion { to }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        9 => membership(),
        2 => complete_move(),
        2 => declare_lost(),
        1 => topic().prop_map(|topic| Command::CreateTopic {
            name: topic.name,
            partitions: topic.partitions,
            parent: topic.parent,
        }),
        1 => int().prop_map(|topic| Command::DeleteTopic { topic: TopicId(topic) }),
        1 => (partition(), node())
            .prop_map(|(partition, node)| Command::AssignPartition { partition, node }),
        1 => (partition(), expect(), node())
            .prop_map(|(partition, expect, to)| Command::SetTarget { partition, expect, to }),
        1 => (partition(), int()).prop_map(|(partition, move_id)| Command::ClearTarget {
            partition,
            move_id: MoveId(move_id),
        }),
        1 => (partition(), attempt())
            .prop_map(|(partition, attempt)| Command::Resolve { partition, attempt }),
        1 => (partition(), token())
            .prop_map(|(partition, token)| Command::Revoke { partition, token }),
        1 => (partition(), node(), int()).prop_map(|(partition, node, epoch)| {
            Command::ReclaimReady { partition, node, epoch: Epoch(epoch) }
        }),
        1 => (partition(), any::<bool>())
            .prop_map(|(partition, on)| Command::SetPin { partition, on }),
    ]
}

fn proposal() -> impl Strategy<Value = ProposalId> {
    (node(), incarnation(), int()).prop_map(|(node, incarnation, sequence)| ProposalId {
        node,
        incarnation,
        sequence,
    })
}

pub(crate) fn entry() -> impl Strategy<Value = Entry> {
    (proposal(), node(), command()).prop_map(|(proposal, by, command)| Entry {
        proposal,
        by,
        command,
    })
}

fn staged() -> impl Strategy<Value = Staged> {
    (offset(), int(), any::<u32>()).prop_map(|(base, bytes, checksum)| Staged {
        base,
        bytes: ByteCount(bytes),
        checksum: Checksum(checksum),
    })
}

fn listing() -> impl Strategy<Value = Listing> {
    let extent = (offset(), offset(), int(), any::<u32>(), any::<bool>()).prop_map(
        |(base, end, bytes, checksum, sealed)| Extent {
            base,
            end,
            bytes: ByteCount(bytes),
            checksum: Checksum(checksum),
            sealed,
        },
    );
    let lives = (incarnation(), int(), int());
    let offsets = (offset(), offset(), offset());
    (lives, offsets, vec(extent, 0..5), vec(offset(), 0..5)).prop_map(
        |(lives, offsets, extents, agreed)| Listing {
            incarnation: lives.0,
            generation: LogGeneration(lives.1),
            epoch: Epoch(lives.2),
            start: offsets.0,
            end: offsets.1,
            hwm: offsets.2,
            extents,
            agreed,
        },
    )
}

fn capture() -> impl Strategy<Value = Capture> {
    let position = (option::of(offset()), vec(offset(), 0..5))
        .prop_map(|(committed, acked_ahead)| Position { committed, acked_ahead });
    (token(), listing(), position, digest())
        .prop_map(|(token, listing, position, digest)| Capture { token, listing, position, digest })
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (incarnation(), vec((partition(), int().prop_map(MoveId)), 0..3))
            .prop_map(|(incarnation, stuck)| Request::Heartbeat { incarnation, stuck }),
        entry().prop_map(Request::Propose),
        (name(), uuid(), addrs()).prop_map(|(name, store_uuid, addrs)| Request::Join {
            name,
            store_uuid,
            addrs
        }),
        (partition(), int(), vec(staged(), 0..5)).prop_map(|(partition, move_id, check)| {
            Request::List { partition, move_id: MoveId(move_id), check }
        }),
        (partition(), attempt(), int()).prop_map(|(partition, attempt, tail_bytes_max)| {
            Request::Prepare { partition, attempt, tail_bytes_max }
        }),
        (partition(), token(), int()).prop_map(|(partition, token, staged_bytes)| {
            Request::Renew { partition, token, staged_bytes }
        }),
        (partition(), token()).prop_map(|(partition, token)| Request::Release { partition, token }),
        (partition(), int(), vec((int(), int()), 0..4)).prop_map(|(partition, epoch, spans)| {
            let span = |(first, end)| Span { first: Offset(first), end: Offset(end) };
            let spans = spans.into_iter().map(span).collect();
            Request::TakeAcks { partition, acks: Acks { epoch: Epoch(epoch), spans } }
        }),
    ]
}

pub(crate) fn answer() -> impl Strategy<Value = Answer> {
    let refusal = prop_oneof![
        option::of(node()).prop_map(|leader| Refusal::NotLeader { leader }),
        Just(Refusal::AskerDead),
        Just(Refusal::NotOwner),
        Just(Refusal::NoSuchMove),
        Just(Refusal::NotYet),
        Just(Refusal::NotServing),
        Just(Refusal::FrozenElsewhere),
        int().prop_map(|retry_after_ms| Refusal::FrozenTooOften { retry_after_ms }),
        Just(Refusal::AppendStuck),
        Just(Refusal::NoSuchFreeze),
        Just(Refusal::Disk),
        proptest::sample::select(REASONS).prop_map(Refusal::NotAdmitted),
        Just(Refusal::Unknown),
    ];
    prop_oneof![
        int().prop_map(|index| Answer::Heartbeat { index: LogIndex(index) }),
        Just(Answer::Accepted),
        (node(), vec((node(), addrs()), 0..4), policy())
            .prop_map(|(node, peers, policy)| Answer::Joined { node, peers, policy }),
        listing().prop_map(Answer::Listing),
        capture().prop_map(Answer::Capture),
        Just(Answer::Noted),
        refusal.prop_map(Answer::Refused),
    ]
}

pub(crate) fn delivery_head() -> impl Strategy<Value = Head> {
    let batch = (incarnation(), int(), 0..=RECORDS_MAX, int());
    (int(), partition(), int().prop_map(Epoch), batch).prop_map(
        |(id, partition, epoch, (life, n, records, bytes))| Head {
            id,
            partition,
            epoch,
            life,
            n,
            records,
            bytes,
        },
    )
}

pub(crate) fn delivered() -> impl Strategy<Value = Delivered> {
    let stale = (node(), incarnation(), int()).prop_map(|(ingress, life, n)| {
        let newest = BatchNo { ingress, life, n };
        SendFault::Stale { newest }
    });
    let fault = prop_oneof![
        Just(SendFault::TimedOut),
        Just(SendFault::Frozen),
        Just(SendFault::NotServing),
        int().prop_map(|current| SendFault::OtherEpoch { current: Epoch(current) }),
        Just(SendFault::NoLease),
        Just(SendFault::DiskFull),
        Just(SendFault::Disk),
        Just(SendFault::Busy),
        stale,
        Just(SendFault::NoSuchPartition),
        Just(SendFault::TooLarge),
    ];
    let result = prop_oneof![Just(Ok(())), fault.prop_map(Err)];
    (int(), result).prop_map(|(id, result)| Delivered { id, result })
}
