//! The consumers' side of the cluster in memory, over the real cursor.

use narad_core::cursor::{Cursor, Found, Handle, Limits, Lineage, Refused};
use narad_core::ids::{Attempt, Epoch, MoveId, NodeId, Offset};
use narad_core::metastore::{Assignment, Reign, Residue};
use narad_core::partition::Position;
use narad_core::time::Instant;
use narad_runtime::service::{
    Handed, HandedRecord, OffsetsOf, OffsetsView, Read, Reserve, ServiceError, Settle, Settled,
    Skip, Skipped, Ticket,
};

use super::{Node, Partition, State, name};

impl Partition {
    /// The cursor of the present reign, which goes on where the one before stood.
    pub(crate) fn cursor(&mut self) -> &mut Cursor {
        let end = self.records.len() as u64;
        let epoch = Epoch(self.epoch);
        if self.cursor.as_ref().is_none_or(|cursor| cursor.epoch() != epoch) {
            let reigns = (1..=self.epoch).map(|epoch| Reign {
                epoch: Epoch(epoch),
                start: Offset(self.reign_starts.get(&epoch).copied().unwrap_or(0)),
                owner: NodeId(1),
                data: Attempt::birth(NodeId(1)),
                residue: Residue::None,
            });
            let row = Assignment {
                owner: NodeId(1),
                epoch,
                data: Attempt::birth(NodeId(1)),
                min_end: Offset(0),
                lineage: reigns.collect(),
                lineage_cut: false,
                target: None,
                move_id: MoveId(1),
                burned: None,
                revoked: None,
                reported_hwm: None,
                pinned: false,
            };
            let before = self.cursor.take();
            let position = before.as_ref().map(|cursor| cursor.position().clone());
            let position = position.unwrap_or_else(|| Position {
                committed: self.committed.map(Offset),
                acked_ahead: Vec::new(),
            });
            let of = before.map_or(epoch, |cursor| cursor.epoch());
            let found = Found { position, of, start: Offset(0), hwm: Offset(end) };
            let limits = Limits { in_flight_max: 8, ..Limits::default() };
            self.cursor = Some(Cursor::resume(limits, Lineage::of(&row), found));
        }
        let cursor = self.cursor.as_mut().expect("just made");
        cursor.advance(Offset(end));
        cursor
    }
}

impl Node {
    pub(super) async fn hand_out(
        &self,
        topic: &str,
        wanted: Reserve,
    ) -> Result<Handed, ServiceError> {
        self.cluster.change(|state| {
            let rows = state.topics.get_mut(topic).map(|(_, rows)| rows).into_iter().flatten();
            let asked =
                (0..).zip(rows).filter(|(n, _)| wanted.partition.is_none_or(|one| one == *n));
            asked.for_each(|(_, row)| row.fetches += 1);
        });
        let try_now = || {
            let partitions = match wanted.partition {
                Some(partition) => vec![partition],
                None => self.owned_partitions(topic)?,
            };
            let mut last = Err(ServiceError::NotServing);
            for partition in partitions {
                last = self.hand_out_of(topic, partition, &wanted);
                if !matches!(&last, Ok(handed) if handed.records.is_empty()) {
                    break;
                }
            }
            last
        };
        let some = async {
            loop {
                let changed = self.cluster.changed.notified();
                match try_now() {
                    Ok(handed) if handed.records.is_empty() => changed.await,
                    other => return other,
                }
            }
        };
        match tokio::time::timeout(wanted.wait, some).await {
            Ok(answer) => answer,
            Err(_) => try_now(),
        }
    }

    fn owned_partitions(&self, topic: &str) -> Result<Vec<u32>, ServiceError> {
        let state = self.cluster.state();
        let unknown = || ServiceError::UnknownTopic(topic.into());
        let (_, partitions) = state.topics.get(topic).ok_or_else(unknown)?;
        let own = (0..).zip(partitions).filter(|(_, row)| row.owner == self.name);
        let own: Vec<u32> = own.map(|(partition, _)| partition).collect();
        if own.is_empty() {
            let owner = state.addrs.get(&partitions[0].owner).cloned();
            return Err(ServiceError::NotOwner { owner });
        }
        Ok(own)
    }

    fn hand_out_of(
        &self,
        topic: &str,
        partition: u32,
        wanted: &Reserve,
    ) -> Result<Handed, ServiceError> {
        let (now, id) = {
            let state = self.cluster.state();
            let id = state.topics.get(topic).map(|(view, _)| view.id);
            (
                Instant::from_origin(state.clock),
                id.ok_or_else(|| ServiceError::UnknownTopic(topic.into()))?,
            )
        };
        let handed = self.owned(topic, partition, |row| {
            if let Some((from, to)) = row.damaged {
                let (topic, from, to) = (topic.to_owned(), Offset(from), Offset(to));
                return Err(ServiceError::Damaged { topic, partition, from, to });
            }
            let reserved = row.cursor().reserve(now, wanted.records_max, wanted.visibility);
            let reserved = reserved.map_err(|refused| match refused {
                Refused::TooManyInFlight { max } => ServiceError::TooManyInFlight { max },
                Refused::TooFarAhead { frontier } => ServiceError::TooFarAhead { frontier },
                other => ServiceError::Internal(other.to_string()),
            })?;
            let records = reserved.handles().map(|handle| HandedRecord {
                offset: handle.offset,
                record: row.records[usize::try_from(handle.offset.0).expect("small")].clone(),
                delivery: handle.delivery,
                ticket: Ticket { topic: id, partition, handle },
            });
            Ok(Handed {
                partition,
                epoch: Epoch(row.epoch),
                visibility: wanted.visibility,
                records: records.collect(),
            })
        })?;
        Ok(handed)
    }

    /// Whether a ticket may be of this node.
    fn reigned(&self, topic: &str, ticket: Ticket) -> bool {
        self.cluster.partition(topic, ticket.partition as usize, |row| {
            row.reigned.get(&ticket.handle.epoch.0) == Some(&self.name)
        })
    }

    /// Gives up two records at a time.
    pub(super) fn give_up_damaged(
        &self,
        topic: &str,
        partition: u32,
        skip: Skip,
    ) -> Result<Skipped, ServiceError> {
        self.owned(topic, partition, |row| {
            if skip.epoch.0 != row.epoch {
                return Err(ServiceError::StaleEpoch);
            }
            let is_damaged = |&(from, to): &(u64, u64)| from <= skip.from.0 && skip.to.0 <= to;
            let Some((_, to)) = row.damaged.filter(is_damaged) else {
                let first = skip.from;
                return Err(ServiceError::Invalid(format!("the record at {first} can be read")));
            };
            let next = skip.to.0.min(skip.from.0 + 2);
            row.damaged = (next < to).then_some((next, to));
            Ok(Skipped { records: next - skip.from.0, next: Offset(next) })
        })
    }

    pub(super) fn settle_all(
        &self,
        topic: &str,
        tickets: Vec<Ticket>,
        how: Settle,
    ) -> Result<Vec<Settled>, ServiceError> {
        let (now, id) = {
            let state = self.cluster.state();
            let unknown = || ServiceError::UnknownTopic(topic.into());
            let id = state.topics.get(topic).ok_or_else(unknown)?.0.id;
            (Instant::from_origin(state.clock), id)
        };
        let settle = |ticket: Ticket| {
            if ticket.topic != id {
                return Settled::OtherTopic;
            }
            let settled = self.owned(topic, ticket.partition, |row| {
                let settled = settle_one(row.cursor(), now, ticket.handle, how);
                row.committed = row.cursor().position().committed.map(|offset| offset.0);
                Ok(settled)
            });
            match settled {
                Ok(Ok(settled)) => settled,
                Ok(Err(refused)) => Settled::Refused(refused),
                Err(ServiceError::NotOwner { owner }) if self.reigned(topic, ticket) => {
                    Settled::Moved { owner }
                }
                Err(error) => Settled::Unavailable(error),
            }
        };
        let settled = tickets.into_iter().map(settle).collect();
        if let Settle::Extend { .. } = how {
            self.cluster.state().extended += 1;
        }
        self.cluster.changed.notify_waiters();
        Ok(settled)
    }

    pub(super) fn offsets_of(
        &self,
        topic: &str,
        read: Read,
    ) -> Result<Vec<OffsetsView>, ServiceError> {
        let mut state = self.cluster.state();
        let State { topics, addrs, .. } = &mut *state;
        let unknown = || ServiceError::UnknownTopic(topic.into());
        let (_, partitions) = topics.get_mut(topic).ok_or_else(unknown)?;
        let views = (0..).zip(partitions).map(|(partition, row)| {
            let (epoch, hwm) = (Epoch(row.epoch), Offset(row.records.len() as u64));
            let is_told = row.owner == self.name || read == Read::Barrier;
            let cursor = row.cursor();
            let offsets = OffsetsOf {
                epoch,
                start: Offset(0),
                hwm,
                committed: cursor.position().committed,
                acked_ahead: cursor.position().acked_ahead.len() as u64,
                in_flight: cursor.in_flight() as u64,
                backlog: cursor.backlog(),
            };
            OffsetsView {
                partition,
                owner: name(&row.owner),
                addr: addrs.get(&row.owner).cloned().unwrap_or_default(),
                offsets: is_told.then_some(offsets),
                unknown: (!is_told).then(|| "another node owns this partition".to_owned()),
            }
        });
        Ok(views.collect())
    }
}

fn settle_one(
    cursor: &mut Cursor,
    now: Instant,
    handle: Handle,
    how: Settle,
) -> Result<Settled, Refused> {
    match how {
        Settle::Ack => cursor.ack(now, handle).map(Settled::from),
        Settle::Nack { delay } => cursor.nack(now, handle, delay).map(|()| Settled::Nacked),
        Settle::Extend { visibility } => {
            let until = cursor.extend(now, handle, visibility)?;
            Ok(Settled::Extended { visibility: until.since(now) })
        }
    }
}
