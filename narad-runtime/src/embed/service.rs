//! What a node answers to other nodes.

use bytes::Bytes;
use narad_core::ids::NodeId;

type Answerer = Box<dyn Fn(NodeId, Bytes) -> Option<Bytes> + Send + Sync>;

/// What stands behind an [`Inbound`](super::Inbound).
pub(super) struct Service {
    function: Answerer,
}

impl Service {
    pub(super) fn of_function(
        answer: impl Fn(NodeId, Bytes) -> Option<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self { function: Box::new(answer) }
    }

    pub(super) async fn answer(&self, from: NodeId, message: Bytes) -> Option<Bytes> {
        (self.function)(from, message)
    }
}
