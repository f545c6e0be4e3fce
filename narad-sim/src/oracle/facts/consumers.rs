//! What the invariants make of what consumers are handed and acknowledge.

use super::super::sink::Cx;
use super::super::{
    ConsumerFact, Oracle, Read, s04_hidden_tail, s05_offset_stability, s07_position, s11_delivery,
    s11_reservations,
};
use super::end_of;

impl Oracle {
    pub(super) fn take_in_consumers(&mut self, fact: ConsumerFact<'_>, cx: &mut Cx<'_>) {
        match fact {
            ConsumerFact::Reserved { node, partition, reserved, most, back, hwm } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s04_hidden_tail::reserved(part, node, reserved, hwm, cx);
                    s07_position::reserved(part, node, reserved, cx);
                    s11_reservations::reserved(part, node, reserved, (most, back), cx);
                }
            }
            ConsumerFact::Kept { node, partition, offset, until } => {
                if let Some(part) = self.book.part_mut(partition) {
                    s11_reservations::kept(part, node, offset, until);
                }
            }
            ConsumerFact::Delivered { node, partition, epoch, first, ids, hwm, how } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    let end = end_of(first, ids);
                    s04_hidden_tail::delivered(part, node, epoch, end, hwm, cx);
                    s05_offset_stability::visible(part, node, epoch, first, ids, cx);
                    s11_delivery::handed_out(
                        part,
                        (node, life, epoch),
                        (first, ids.len()),
                        how,
                        cx,
                    );
                }
                if how == Read::Plain {
                    return;
                }
                self.deliveries.delivered(ids);
                if let Some(part) = self.book.part_mut(partition) {
                    part.delivered = cx.now;
                }
            }
            ConsumerFact::ConsumerAck { node, partition, epoch, fetched, offset } => {
                let life = self.book.life(node);
                let limit = self.lease_limit(node);
                if let Some(part) = self.book.part_mut(partition) {
                    self.leases.acknowledges("S7", part, node, cx);
                    s05_offset_stability::consumed(part, node, epoch, fetched, offset, cx);
                    let of = (fetched, offset);
                    s07_position::taken(part, (node, life, epoch), of, limit, cx);
                }
            }
            ConsumerFact::Position { node, partition, epoch, position, hwm } => {
                let life = self.book.life(node);
                if let Some(part) = self.book.part_mut(partition) {
                    s07_position::stands(part, (node, life, epoch), position, hwm, cx);
                }
            }
        }
    }
}
