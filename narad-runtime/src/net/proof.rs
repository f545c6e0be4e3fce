//! Whether a peer is who it says, by its certificate.

use narad_core::ids::{Name, NodeId};

use super::Directory;
use super::stream::Stream;
use crate::tls::{Fault, Tls, What};

/// Whom the certificate of a connection names; nobody without TLS.
///
/// Which id has which name, the replicated state says. A node that has just joined does not know it
/// yet, and takes whatever node of its cluster it talks to for the one that it says it is, until it
/// does: the proof is asked for again with every message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proof {
    name: Option<Name>,
    /// Whether the name is known to be that of the peer's id.
    is_complete: bool,
}

impl Proof {
    /// Checks that the certificate is that of a node of this cluster; of which, [`check`](Self::check)
    /// tells.
    pub(crate) fn of(tls: Option<&Tls>, stream: &Stream) -> Result<Self, Fault> {
        let (Some(tls), Some(subject)) = (tls, stream.subject()?) else {
            return Ok(Self { name: None, is_complete: true });
        };
        let own = tls.certificate().subject;
        let name = own.admits_node(&subject)?.clone();
        Ok(Self { name: Some(name), is_complete: false })
    }

    /// Checks that the certificate is that of this node, as far as that can be known.
    pub(crate) fn check(&mut self, node: NodeId, directory: &dyn Directory) -> Result<(), Fault> {
        if self.is_complete {
            return Ok(());
        }
        let Some(claimed) = directory.name(node).and_then(|name| Name::new(name).ok()) else {
            return Ok(());
        };
        self.is_named(&claimed)?;
        self.is_complete = true;
        Ok(())
    }

    /// Checks that whoever asks for a name holds its certificate.
    pub(crate) fn is_named(&self, claimed: &Name) -> Result<(), Fault> {
        match &self.name {
            Some(found) if found != claimed => {
                let (found, claimed) = (found.clone(), claimed.clone());
                Err(Fault::theirs(What::WrongNode { found, claimed }))
            }
            Some(_) | None => Ok(()),
        }
    }
}
