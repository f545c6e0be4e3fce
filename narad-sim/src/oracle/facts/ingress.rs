//! What the invariants make of what happens to ingress logs.

use super::super::ingress::Promise;
use super::super::sink::Cx;
use super::super::{IngressFact, Oracle, l4_accept, s01_accepted, s11_arrivals};

impl Oracle {
    pub(super) fn take_in_ingress(&mut self, fact: IngressFact<'_>, cx: &mut Cx<'_>) {
        match fact {
            IngressFact::Ingested { node, topic, route, first, ids, bytes } => {
                let log = self.book.ingress.log_mut(node);
                log.accept((topic, route), first, ids, bytes, cx.now);
            }
            IngressFact::Carried { node, seqs, first } => {
                self.book.ingress.log_mut(node).carry(seqs, first, cx.now);
            }
            IngressFact::Checkpointing { node, spent } => {
                s01_accepted::shortens(&mut self.book, node, spent, cx);
            }
            IngressFact::Taken { node, partition, batch, seqs, .. } => {
                let part = self.book.parts.get(&partition);
                let opening = part.and_then(|part| part.opening.get(&node)).copied();
                let owner = (node, opening.unwrap_or_default());
                let topic = self.book.state().and_then(|state| state.topic(partition.topic));
                let partitions = topic.map_or(0, |topic| topic.partitions);
                let (ingress, of) = (&mut self.book.ingress, (partition, partitions));
                s11_arrivals::taken(ingress, of, owner, batch, seqs, cx);
            }
            IngressFact::Accepted { node, topic, ids, took, disk } => {
                let promises = ids.iter().map(|id| Promise { id: *id, node, topic });
                self.book.ingress.promised.extend(promises);
                l4_accept::accepted(node, took, disk, cx);
            }
            IngressFact::AcceptRefused { node, records, bytes, why } => {
                let more = (records, bytes);
                l4_accept::refused(&self.book, &self.config, node, more, why, cx);
            }
        }
    }
}
