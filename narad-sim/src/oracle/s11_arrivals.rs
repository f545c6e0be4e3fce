//! S11, the way of accepted records to their owners: each arrives, in the order of acceptance, and a
//! second time only at a seam.
//!
//! Judged when an owner acknowledges a batch. While neither the node that has accepted a record has
//! restarted nor the owner's log was opened anew, the record is not acknowledged there again, and in
//! one life of the accepting node it goes to one partition. What was asked for by number is appended
//! in the order of acceptance; so is what was asked for by key, unless a partition could not take its
//! records in that life (they may have gone to a sibling and come back), or a node died.

use narad_core::dispatch::{BatchNo, Route};
use narad_core::ids::{NodeId, PartitionId, Seq};

use super::ingress::{Ingress, Order, Taken};
use super::sink::Cx;

/// An owner has acknowledged a batch.
pub(super) fn taken(
    ingress: &mut Ingress,
    (partition, partitions): (PartitionId, u32),
    owner: (NodeId, u64),
    batch: BatchNo,
    seqs: &[Seq],
    cx: &mut Cx<'_>,
) {
    let death = ingress.death;
    let log = ingress.logs.entry(batch.ingress).or_default();
    log.sends_in(batch.life, cx.now);
    log.moved = cx.now;
    let calm = !log.disturbed.contains(&partition) && death < log.since;
    let fresh = Order { owner, numbered: None, keyed: None };
    let mut order = log.order.get(&partition).copied().filter(|it| it.owner == owner);
    let is_home = |hash: u64| hash % u64::from(partitions.max(1)) == u64::from(partition.index);
    let is_present = batch.life == log.life;
    let mut again = 0;
    for seq in seqs {
        let Some((root, record)) = log.find(*seq) else { continue };
        record.arrived = true;
        let now = Taken { life: batch.life, partition, owner };
        let before = record.taken.replace(now);
        let (id, route) = (record.id, record.route);
        again += u64::from(before.is_some());
        if let Some(before) = before.filter(|before| before.life == batch.life) {
            if before.partition != partition {
                cx.breach("S11", partition, || {
                    format!(
                        "record {id} was appended to {:?} before, in the same life",
                        before.partition
                    )
                });
            } else if before.owner == owner {
                cx.breach("S11", partition, || {
                    format!(
                        "record {id} is acknowledged twice by {:?}, where nothing has restarted",
                        owner.0
                    )
                });
            }
        }
        let order = order.get_or_insert(fresh);
        let last = match route {
            Route::Partition(index) if index == partition.index => &mut order.numbered,
            Route::Key(hash) if calm && is_home(hash) => &mut order.keyed,
            Route::Partition(_) | Route::Key(_) | Route::Any => continue,
        };
        if let Some(last) = last.filter(|last| is_present && *last > root) {
            cx.breach("S11", partition, || {
                format!("record {id}, accepted at {root:?}, is appended after the one at {last:?}")
            });
        }
        *last = Some(root);
    }
    if let Some(order) = order.filter(|_| is_present) {
        log.order.insert(partition, order);
    }
    ingress.again += again;
}
