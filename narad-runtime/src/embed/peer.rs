//! The third seam: how nodes reach one another.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use narad_core::ids::{Name, NodeId};
use narad_core::node::CallFault;

use super::service::Service;

/// Carries questions to other nodes, and theirs to this one.
///
/// # Contract
///
/// 1. **At most once.** A message is handed to [`Inbound::answer`] of the other node once, or not at
///    all; Narad asks again itself where that is right.
/// 2. **A fault says nothing** about whether the message arrived (case F20): say
///    [`CallFault::Unreachable`] where it cannot have been sent, [`CallFault::TimedOut`] otherwise.
/// 3. **Messages are whole.** What arrives is what was sent, byte for byte. They are at most
///    [`MESSAGE_BYTES_MAX`] long, questions and answers alike. Their order does not matter.
/// 4. **Who asks is proved.** The `from` of an answered message is a member that the transport has
///    authenticated, never what a stranger says of himself (S18).
/// 5. A peer that hangs holds up nobody else.
///
/// `narad_runtime::conformance` (feature `conformance`) checks this.
#[async_trait]
pub trait Peer: Send + Sync + fmt::Debug + 'static {
    /// Begins to take messages of other nodes, for as long as the node runs; called once, before
    /// anything else. `inbound` says who this node is.
    ///
    /// # Errors
    ///
    /// If it cannot be reached by others, with the reason; the node does not start then.
    async fn start(&self, inbound: Inbound) -> Result<(), String>;

    /// Asks a node, and returns its answer. Narad drops the future when it has waited long enough.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault>;

    /// Takes no more messages. Does nothing by default: [`Inbound::answer`] gives nothing by then.
    async fn stop(&self) {}
}

/// Connections that others have a hold of, too.
#[async_trait]
impl<T: Peer + ?Sized> Peer for Arc<T> {
    async fn start(&self, inbound: Inbound) -> Result<(), String> {
        (**self).start(inbound).await
    }

    async fn call(&self, to: &Whom, message: Bytes) -> Result<Bytes, CallFault> {
        (**self).call(to, message).await
    }

    async fn stop(&self) {
        (**self).stop().await;
    }
}

/// Longest message between nodes, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A node that is to be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Whom {
    /// Its id.
    pub node: NodeId,
    /// Its name.
    pub name: Name,
    /// Where it said that it is to be reached, when it last started; what that means is the
    /// transport's matter.
    pub address: String,
}

/// The way to one node of this process, for a transport. Clones reach the same node.
#[derive(Clone)]
pub struct Inbound {
    pub(super) me: Whom,
    pub(super) service: Weak<Service>,
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbound").field("me", &self.me).finish_non_exhaustive()
    }
}

impl Inbound {
    /// Returns the node that is reached by this.
    pub const fn me(&self) -> &Whom {
        &self.me
    }

    /// Answers the message of another node. `None` if there is no answer: the node has stopped, or the
    /// message was not understood; then the asker's call ends with [`CallFault::TimedOut`].
    pub async fn answer(&self, from: NodeId, message: Bytes) -> Option<Bytes> {
        let service = self.service.upgrade()?;
        service.answer(from, message).await
    }

    /// Makes the way to a node that does nothing but hand messages to a function: for tests of a
    /// transport, without a node behind it.
    #[must_use]
    pub fn to_function<F>(
        me: Whom,
        answer: impl Fn(NodeId, Bytes) -> F + Send + Sync + 'static,
    ) -> (Self, KeptReachable)
    where
        F: Future<Output = Option<Bytes>> + Send + 'static,
    {
        let service = Arc::new(Service::of_function(answer));
        (Self { me, service: Arc::downgrade(&service) }, KeptReachable { service })
    }
}

/// Keeps a node that was made by [`Inbound::to_function`] reachable until it is dropped.
pub struct KeptReachable {
    service: Arc<Service>,
}

impl fmt::Debug for KeptReachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let askers = Arc::weak_count(&self.service);
        f.debug_struct("KeptReachable").field("ways", &askers).finish()
    }
}
