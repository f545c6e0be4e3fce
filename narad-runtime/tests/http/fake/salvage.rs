//! What the made-up cluster has lost, and what it keeps.

use narad_core::ids::{ByteCount, Epoch, Offset};
use narad_runtime::service::{AcceptedView, LossCause, NewLoss, Read, ReceiptView, ServiceError};

use super::{Node, name};

impl Node {
    pub(super) fn give_up(&self, loss: NewLoss) -> Result<ReceiptView, ServiceError> {
        self.barrier(Read::Barrier)?;
        let mut state = self.cluster.state();
        let unknown = || ServiceError::UnknownTopic(loss.topic.clone());
        let dead = state.dead.clone();
        let (view, partitions) = state.topics.get_mut(&loss.topic).ok_or_else(unknown)?;
        let (topic, partition) = (loss.topic.clone(), loss.partition);
        let unknown = || ServiceError::UnknownPartition { topic, partition };
        let row = partitions.get_mut(partition as usize).ok_or_else(unknown)?;
        if !dead.contains(&row.owner) {
            let why = format!("{} owns it and is not dead: nothing is lost", row.owner);
            return Err(ServiceError::Rejected(why));
        }
        let receipt = ReceiptView {
            topic: view.name.clone(),
            partition: loss.partition,
            cause: LossCause::DeclaredLost,
            epoch: Epoch(row.epoch + 1),
            old_epoch: Epoch(row.epoch),
            old_owner: name(&row.owner),
            new_owner: name(&self.name),
            at_risk_from: None,
            start: Offset(row.records.len() as u64),
            salvaged: false,
        };
        if loss.dry_run {
            return Ok(receipt);
        }
        row.owner.clone_from(&self.name);
        row.epoch += 1;
        state.salvage.receipts.push(receipt.clone());
        Ok(receipt)
    }

    pub(super) fn restore_from(
        &self,
        member: &str,
        id: &str,
    ) -> Result<AcceptedView, ServiceError> {
        let accepted =
            AcceptedView { from: Offset(3), end: Offset(9), records: 6, bytes: ByteCount(60) };
        let mut state = self.cluster.state();
        let found = state.salvage.quarantine.iter_mut();
        let mut found = found.filter(|one| one.member.as_str() == member && one.id == id);
        let found = found.next().ok_or_else(|| ServiceError::NotInQuarantine(id.into()))?;
        found.accepted = Some(accepted);
        Ok(accepted)
    }

    pub(super) fn drop_from(&self, member: &str, id: &str) -> Result<(), ServiceError> {
        let mut state = self.cluster.state();
        let before = state.salvage.quarantine.len();
        state.salvage.quarantine.retain(|one| one.member.as_str() != member || one.id != id);
        let dropped = state.salvage.quarantine.len() < before;
        if dropped { Ok(()) } else { Err(ServiceError::NotInQuarantine(id.into())) }
    }
}
