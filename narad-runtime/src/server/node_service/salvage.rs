//! Losses, receipts and quarantine, on this node and on others.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use narad_core::ids::{Name, PartitionId};
use narad_core::metastore::{Assignment, Reason, Reign, Residue, State};
use narad_core::node::{Ask, AskError, Node};

use super::{NodeService, blocking};
use crate::client::{Client, ClientError, ClientOptions};
use crate::clock::wall_ms;
use crate::service::{
    AcceptedView, LossCause, NewLoss, QuarantinedView, Read, ReceiptView, SalvageView, ServiceError,
};
use crate::store::{Receipt, StoreError, Trashed, What};
use crate::tls::ClientTls;

/// How long another member may take to show its quarantine.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// How long another member may take to work on it.
const PATIENCE_AT_WORK: Duration = Duration::from_mins(5);

impl NodeService {
    pub(super) async fn give_up(&self, loss: NewLoss) -> Result<ReceiptView, ServiceError> {
        let NewLoss { topic, partition, receipt, dry_run } = loss;
        let place = self.place(&topic, partition).await?;
        let partition = place.partition;
        // Also before it is done: who is alive is told by name.
        let preview = self.look(Read::Barrier, move |node| loss_view(node, partition)).await??;
        if dry_run {
            return Ok(preview);
        }
        self.ask(Ask::DeclareLost { partition, receipt }).await?;
        let last = move |node: &Node| {
            let state = node.state();
            let row = state.assignment(partition)?;
            let (old, new) = pairs(row).last()?;
            receipt_view(state, partition, old, new)
        };
        let receipt = self.look(Read::Stale, last).await?;
        receipt.ok_or(ServiceError::UnknownTopic(topic))
    }

    pub(super) async fn salvage_view(&self, read: Read) -> Result<SalvageView, ServiceError> {
        let look = |node: &Node| {
            let state = node.state();
            let topics = state.topics().map(|topic| (topic.id, topic.name.clone()));
            let others = state
                .members()
                .filter(|member| !member.retired && member.id != node.identity().node);
            let others = others.map(|member| (member.name.clone(), member.addrs.http.clone()));
            let me = node.identity().name.clone();
            (receipts(state), topics.collect::<BTreeMap<_, _>>(), others.collect::<Vec<_>>(), me)
        };
        let (receipts, topics, others, me) = self.look(read, look).await?;
        let store = self.store();
        let trash = blocking(move || store.trash()).await?.map_err(|error| store_error(&error))?;
        let mine = trash.into_iter().map(|trashed| {
            let topic = topics.get(&trashed.partition.topic).cloned();
            quarantined_view(me.clone(), topic, trashed)
        });
        let mut view = SalvageView { receipts, quarantine: mine.collect(), silent: Vec::new() };
        // A stale view is this node's own: so what another is asked ends there.
        if read == Read::Stale {
            view.silent = others.into_iter().map(|(name, _)| name).collect();
            return Ok(view);
        }
        let asked = others.into_iter().map(|(name, addr)| async move {
            let told = match client(&addr, PATIENCE, self.tls()) {
                Some(client) => client.salvage(Read::Stale).await.ok(),
                None => None,
            };
            (name, told)
        });
        for (name, told) in join_all(asked).await {
            match told {
                Some(told) => view.quarantine.extend(told.quarantine),
                None => view.silent.push(name),
            }
        }
        view.quarantine.sort_by_key(|one| one.set_aside_ms);
        Ok(view)
    }

    pub(super) async fn restore_from(
        &self,
        member: &str,
        id: &str,
    ) -> Result<AcceptedView, ServiceError> {
        if let Some(client) = self.elsewhere(member, PATIENCE_AT_WORK).await? {
            return client.restore(member, id).await.map_err(|error| passed_on(&error, id));
        }
        let (store, wanted) = (self.store(), id.to_owned());
        let found = blocking(move || store.trash()).await?.map_err(|error| store_error(&error))?;
        let found = found.into_iter().find(|trashed| trashed.name == wanted);
        let partition =
            found.ok_or_else(|| ServiceError::NotInQuarantine(id.to_owned()))?.partition;
        let exists = move |node: &Node| node.state().topic(partition.topic).is_some();
        if !self.look(Read::Barrier, exists).await? {
            let why = "the topic of these records is deleted".to_owned();
            return Err(ServiceError::Rejected(why));
        }
        let receipt = self.accept_trashed(partition, id.to_owned(), wall_ms()).await?;
        Ok(accepted_view(receipt))
    }

    pub(super) async fn drop_from(&self, member: &str, id: &str) -> Result<(), ServiceError> {
        if let Some(client) = self.elsewhere(member, PATIENCE_AT_WORK).await? {
            let dropped = client.drop_quarantined(member, id).await;
            return dropped.map_err(|error| passed_on(&error, id));
        }
        let (store, name) = (self.store(), id.to_owned());
        let dropped = blocking(move || store.drop_trash(&name)).await?;
        dropped.map(|_| ()).map_err(|error| store_error(&error))
    }

    /// Returns the way to another member; `None` if this node is meant.
    pub(super) async fn elsewhere(
        &self,
        member: &str,
        patience: Duration,
    ) -> Result<Option<Client>, ServiceError> {
        let wanted = member.to_owned();
        let find = move |node: &Node| {
            let is_me = node.identity().name.as_str() == wanted;
            let addr = node.state().member_named(&wanted).map(|found| found.addrs.http.clone());
            (is_me, addr)
        };
        match self.look(Read::Stale, find).await? {
            (true, _) => Ok(None),
            (false, None) => Err(ServiceError::UnknownMember(member.to_owned())),
            (false, Some(addr)) => client(&addr, patience, self.tls())
                .map(Some)
                .ok_or_else(|| ServiceError::Internal(format!("{addr} is no address"))),
        }
    }
}

pub(super) fn client(addr: &str, patience: Duration, tls: Option<&ClientTls>) -> Option<Client> {
    let options = ClientOptions {
        connect_timeout: PATIENCE,
        request_timeout: patience,
        token: crate::http::presented(),
        tls: tls.cloned(),
        ..ClientOptions::default()
    };
    Some(Client::new(vec![addr.parse().ok()?], options))
}

/// Returns each reign with the one before it.
fn pairs(row: &Assignment) -> impl DoubleEndedIterator<Item = (&Reign, &Reign)> {
    let lineage = &row.lineage;
    lineage.windows(2).map(|pair| (&pair[0], &pair[1]))
}

/// Tells what the receipt of a loss would say.
fn loss_view(node: &Node, partition: PartitionId) -> Result<ReceiptView, ServiceError> {
    let state = node.state();
    let topic = || state.topic(partition.topic).map(|topic| topic.name.clone());
    let name = |node| state.member(node).map(|member| member.name.clone());
    let loss = node.loss(partition).map_err(|error| {
        let owner = state.assignment(partition).and_then(|row| name(row.owner));
        match (error, topic(), owner) {
            (AskError::Rejected(Reason::NotDead), Some(topic), Some(owner)) => {
                let place = format!("{topic}/{}", partition.index);
                ServiceError::Rejected(format!(
                    "{owner} owns {place} and is not dead: nothing is lost"
                ))
            }
            (error, ..) => error.into(),
        }
    })?;
    let view = || {
        Some(ReceiptView {
            topic: topic()?,
            partition: partition.index,
            cause: LossCause::DeclaredLost,
            epoch: loss.epoch.next(),
            old_epoch: loss.epoch,
            old_owner: name(loss.from)?,
            new_owner: name(loss.to)?,
            at_risk_from: None,
            start: loss.end,
            salvaged: false,
        })
    };
    // A row's topic and its members are in the state.
    view().ok_or(ServiceError::NotServing)
}

fn receipts(state: &State) -> Vec<ReceiptView> {
    let rows = state.assignments();
    let all = rows.flat_map(|(partition, row)| pairs(row).map(move |pair| (partition, pair)));
    all.filter_map(|(partition, (old, new))| receipt_view(state, partition, old, new)).collect()
}

fn receipt_view(
    state: &State,
    partition: PartitionId,
    old: &Reign,
    new: &Reign,
) -> Option<ReceiptView> {
    let salvaged = match new.residue {
        Residue::None => return None,
        Residue::Pending => false,
        Residue::Reclaimed => true,
    };
    let began_empty = new.began_empty();
    let name = |node| state.member(node).map(|member| member.name.clone());
    Some(ReceiptView {
        topic: state.topic(partition.topic)?.name.clone(),
        partition: partition.index,
        cause: if began_empty { LossCause::DeclaredLost } else { LossCause::Promoted },
        epoch: new.epoch,
        old_epoch: old.epoch,
        old_owner: name(old.owner)?,
        new_owner: name(new.owner)?,
        at_risk_from: Some(new.start).filter(|_| !began_empty),
        start: new.start,
        salvaged,
    })
}

fn quarantined_view(member: Name, topic: Option<Name>, trashed: Trashed) -> QuarantinedView {
    let Trashed { name, partition, what, set_aside_ms, bytes, receipt } = trashed;
    QuarantinedView {
        member,
        id: name,
        topic,
        topic_id: partition.topic.0,
        partition: partition.index,
        copy: what == What::Staging,
        bytes,
        set_aside_ms,
        accepted: receipt.map(accepted_view),
    }
}

const fn accepted_view(receipt: Receipt) -> AcceptedView {
    let Receipt { from, end, records, bytes, .. } = receipt;
    AcceptedView { from, end, records, bytes }
}

pub(super) fn store_error(error: &StoreError) -> ServiceError {
    match error {
        StoreError::NoSuchTrash { name } => ServiceError::NotInQuarantine(name.clone()),
        error if error.is_full() => ServiceError::DiskFull,
        error => ServiceError::Internal(error.to_string()),
    }
}

/// What another member has answered, in the words of this one.
fn passed_on(error: &ClientError, id: &str) -> ServiceError {
    match error.code() {
        Some("not_in_quarantine") => ServiceError::NotInQuarantine(id.to_owned()),
        Some("rejected") => ServiceError::Rejected(error.to_string()),
        Some("busy") => ServiceError::Busy,
        Some("disk_full") => ServiceError::DiskFull,
        Some(_) => ServiceError::Internal(error.to_string()),
        None => ServiceError::OutcomeUnknown,
    }
}
