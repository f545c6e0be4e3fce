//! Batches that other nodes, or this one, have accepted for partitions of this node.

use std::fmt;
use std::sync::Arc;

use narad_core::dispatch::SendFault;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::broker::Broker;
use crate::net::{Deliveries, Delivery, DeliveryReply};
use crate::node_loop::NodeHandle;

/// Has batches appended on threads that may block.
pub(super) struct Receiving {
    broker: Arc<Broker>,
    handle: NodeHandle,
    runtime: Handle,
    under_way: Arc<Semaphore>,
}

impl Receiving {
    /// Most batches that are being appended at once. Each waits on a thread, of which the runtime
    /// has many, but not any number, and whoever freezes or copies needs some as well.
    const UNDER_WAY_MAX: usize = 128;

    pub(super) fn new(broker: Arc<Broker>, handle: NodeHandle, runtime: Handle) -> Self {
        let under_way = Arc::new(Semaphore::new(Self::UNDER_WAY_MAX));
        Self { broker, handle, runtime, under_way }
    }
}

impl Deliveries for Receiving {
    fn deliver(&self, delivery: Delivery, reply: DeliveryReply) {
        let Ok(place) = Arc::clone(&self.under_way).try_acquire_owned() else {
            return reply.send(Err(SendFault::Busy));
        };
        let (broker, handle) = (Arc::clone(&self.broker), self.handle.clone());
        self.runtime.spawn_blocking(move || {
            let Delivery { partition, epoch, batch, records } = delivery;
            let taken = broker.deliver(partition, epoch, batch, records);
            if let Err(not_taken) = taken {
                tracing::debug!(%partition, ?batch, reason = %not_taken.fault, "a batch was not taken");
                if not_taken.needs_reopening {
                    handle.poisoned(partition);
                }
            }
            reply.send(taken.map_err(|not_taken| not_taken.fault));
            drop(place);
        });
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").field("broker", &self.broker).finish_non_exhaustive()
    }
}
