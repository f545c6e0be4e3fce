//! A node's ingress log: made before the first start, found at every other, closed at the end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use narad_core::dispatch::Found;
use narad_core::effects::Effects;
use narad_core::node::{Effect, Node};

use super::ServerError;
use crate::disk::Disk;
use crate::foreground::Foreground;
use crate::ingress::{Committer, Door, IngressError, IngressLog, Limits, Load};
use crate::log::LogLimits;
use crate::node_loop::{Ingress, NodeHandle};
use crate::settings::Settings;

/// The directory of the log in the data directory.
const DIR: &str = "ingress";

/// Makes the log of a node that has never run. Whoever has run and has none has lost it, and with it
/// what was acknowledged (S3).
pub(super) fn create(disk: &dyn Disk) -> Result<(), ServerError> {
    IngressLog::create(disk, Path::new(DIR)).map_err(failed)
}

/// An open ingress log, and the thread that writes it.
#[derive(Debug)]
pub(super) struct Accepting {
    pub(super) ingress: Arc<Ingress>,
    committer: Option<Committer>,
}

/// What the log held when it was opened.
#[derive(Debug)]
pub(super) struct Waiting(crate::ingress::Found);

/// Opens the log; the node hears of whatever is accepted from now on.
pub(super) fn open(
    disk: Arc<dyn Disk>,
    settings: &Settings,
    handle: &NodeHandle,
    foreground: &Arc<Foreground>,
) -> Result<(Accepting, Waiting), ServerError> {
    if disk.metadata(Path::new(DIR)).map_err(|error| failed(error.into()))?.is_none() {
        return Err(ServerError::NoIngress { path: settings.data_dir.join(DIR) });
    }
    let door = Arc::new(Door::default());
    let (told, handle) = (Arc::clone(&door), handle.clone());
    let dispatcher = move |waybills: Vec<narad_core::dispatch::Waybill>| {
        told.tell(Load::of_waybills(&waybills));
        handle.accepted(waybills);
    };
    let (log, found) =
        IngressLog::open(disk, Path::new(DIR), limits(settings), dispatcher).map_err(failed)?;
    if found.checkpoint_lost {
        tracing::warn!("the ingress log's checkpoint was unreadable: all of it is sent again");
    }
    for damage in &found.recovery.damage {
        tracing::error!(?damage, "the ingress log is damaged");
    }
    let log = Arc::new(log.timed_by(Arc::clone(foreground)));
    let committer = Committer::start(Arc::clone(&log)).map_err(ServerError::Thread)?;
    let ingress = Arc::new(Ingress::new(log, door));
    Ok((Accepting { ingress, committer: Some(committer) }, Waiting(found)))
}

impl Waiting {
    /// Gives a node what was accepted in its earlier lives and has not arrived, for all it knows.
    pub(super) fn resume(
        self,
        node: &mut Node,
        out: &mut Effects<Effect>,
    ) -> Result<(), ServerError> {
        let Self(crate::ingress::Found { checkpoint, next, mut waybills, shut, .. }) = self;
        let found = Found { next, waybills: waybills.by_ref(), closed: shut };
        node.resume_ingress(found, out);
        for range in waybills.finish().map_err(failed)? {
            tracing::error!(
                from = %range.start, end = %range.end,
                "accepted records are damaged in the ingress log, and lost"
            );
        }
        let waiting = node.backlog();
        tracing::info!(%checkpoint, %next, records = waiting.records, "found the ingress log");
        Ok(())
    }
}

impl Accepting {
    /// Accepts nothing more, writes what was let in, and gives the directory free. Blocks.
    pub(super) fn close(mut self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        self.ingress.door().close();
        if !self.ingress.door().wait_until_empty(PATIENCE) {
            tracing::warn!("some producers are not answered as the node stops");
        }
        drop(self.committer.take());
        if let Err(error) = self.ingress.log().close() {
            tracing::warn!(%error, "the ingress log was not closed cleanly");
        }
    }
}

fn limits(settings: &Settings) -> Limits {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let ingress = &settings.ingress;
    Limits {
        log: LogLimits { segment_bytes: ingress.segment_bytes, ..LogLimits::default() },
        append_bytes_max: size(ingress.append_bytes_max),
        waiting_bytes_max: size(ingress.waiting_bytes_max),
        cache_bytes_max: size(ingress.cache_bytes_max),
    }
}

fn failed(source: IngressError) -> ServerError {
    ServerError::Ingress { source }
}
