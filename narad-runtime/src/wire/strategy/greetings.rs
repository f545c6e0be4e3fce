//! Handshakes.

use proptest::option;
use proptest::prelude::*;

use super::{node, text, uuid};
use crate::wire::handshake::{Accepted, ClusterId, Hello, Purpose, Refused, Welcome, Why};

pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let purpose = proptest::sample::select(
        &[Purpose::Control, Purpose::Snapshot, Purpose::Bulk, Purpose::Join, Purpose::Delivery][..],
    );
    let versions = any::<(u32, u32)>();
    let listens_at = option::of("[a-z]{1,9}:[0-9]{1,5}");
    (versions, option::of(any::<u128>()), option::of(node()), uuid(), purpose, listens_at).prop_map(
        |(versions, cluster, node, store_uuid, purpose, listens_at)| Hello {
            versions,
            cluster: cluster.map(ClusterId),
            node,
            store_uuid,
            purpose,
            listens_at,
        },
    )
}

pub(crate) fn welcome() -> impl Strategy<Value = Welcome> {
    let whys = &[
        Why::WrongCluster,
        Why::UnknownNode,
        Why::VersionMismatch,
        Why::UnknownPurpose,
        Why::Busy,
        Why::NotServing,
        Why::WrongIdentity,
        Why::Other,
    ][..];
    let accepted = (any::<u8>(), node(), any::<u128>(), uuid()).prop_map(
        |(version, node, cluster, store_uuid)| {
            Welcome::Accepted(Accepted { version, node, cluster: ClusterId(cluster), store_uuid })
        },
    );
    prop_oneof![
        accepted,
        (proptest::sample::select(whys), text())
            .prop_map(|(why, message)| Welcome::Refused(Refused { why, message })),
    ]
}
