//! Files that are being written, and the threads that sync behind their writers.
//!
//! A long file that is synced only at its end has all of it waiting in memory by then: that sync takes
//! long, and so does everybody else's on the same device, since theirs queue up behind it. Where the
//! disk [says so](crate::disk::Disk::syncs_behind), a file is therefore synced every few megabytes,
//! and a writer that is too far ahead of that waits.
//!
//! A sync that fails is never tried again: the file's bytes are unknown from then on, whatever a later
//! sync says, and whoever asks is told so (H17).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::disk::{DiskError, DiskFile};
use crate::log::lock;

/// Unsynced bytes of a file at which a sync is begun, if none is under way. Smaller lets a commit that
/// comes between wait for less, and costs a fast copy some speed; at 8 MiB the p99 of a producer's
/// commits is twice as long.
const STEP_BYTES: u64 = 2 << 20;

/// Unsynced bytes of a file above which its writer waits: no sync of anybody's waits behind more than
/// this of each stream.
pub(crate) const AHEAD_BYTES_MAX: u64 = 12 << 20;

/// Threads of one store: as many as a copy has streams.
const THREADS_MAX: usize = 2;

/// How long a thread without work is kept.
const IDLE: Duration = Duration::from_secs(2);

/// A file with bytes that no sync has covered. The handle that is synced is the one that wrote them,
/// so that a failed write-back is reported to it.
#[derive(Debug)]
pub(super) struct Written {
    file: Arc<dyn DiskFile>,
    progress: Mutex<Progress>,
    /// Told whenever a sync has ended.
    synced: Condvar,
}

#[derive(Debug)]
struct Progress {
    /// Length of the file.
    bytes: u64,
    /// How much of it the last sync has covered.
    durable: u64,
    /// Grows with everything that is done to the file.
    touched: u64,
    /// What that was when the last sync began.
    covered: u64,
    /// What it was when the file was last cut: only a sync that began later makes that last.
    cut: u64,
    is_syncing: bool,
    /// Waits for a thread, or has one.
    is_queued: bool,
    has_failed: bool,
    /// The failure, until somebody has taken it.
    failure: Option<DiskError>,
}

impl Written {
    /// Takes a file of which everything is durable so far, and which is about to change.
    pub(super) fn new(file: Arc<dyn DiskFile>, bytes: u64) -> Arc<Self> {
        let progress = Progress {
            bytes,
            durable: bytes,
            touched: 1,
            covered: 0,
            cut: 0,
            is_syncing: false,
            is_queued: false,
            has_failed: false,
            failure: None,
        };
        Arc::new(Self { file, progress: Mutex::new(progress), synced: Condvar::new() })
    }

    pub(super) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Notes that the file is about to change from this length on.
    pub(super) fn touch(&self, bytes: u64) {
        let mut progress = lock(&self.progress);
        progress.touched += 1;
        progress.bytes = bytes;
        progress.durable = progress.durable.min(bytes);
    }

    /// Notes that bytes which did not count have been cut off.
    pub(super) fn was_cut(&self) {
        let mut progress = lock(&self.progress);
        progress.touched += 1;
        progress.cut = progress.touched;
    }

    /// Notes that the file has grown; waits while it is too far ahead of its syncs.
    ///
    /// # Errors
    ///
    /// If one of them has failed.
    pub(super) fn grown(
        self: &Arc<Self>,
        bytes: u64,
        syncer: Option<&Syncer>,
    ) -> Result<(), DiskError> {
        let mut progress = lock(&self.progress);
        progress.touched += 1;
        progress.bytes = bytes;
        let Some(syncer) = syncer else { return Ok(()) };
        if progress.ahead() >= STEP_BYTES && !progress.is_queued {
            progress.is_queued = true;
            drop(progress);
            syncer.push(self);
            progress = lock(&self.progress);
        }
        while progress.ahead() > AHEAD_BYTES_MAX && progress.is_queued && !progress.has_failed {
            progress = self.synced.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
        if progress.has_failed { Err(progress.failure()) } else { Ok(()) }
    }

    /// Whether one of its syncs has failed.
    pub(super) fn has_failed(&self) -> bool {
        lock(&self.progress).has_failed
    }

    /// Whether nothing was done to the file since its last sync began.
    pub(super) fn is_clean(&self) -> bool {
        let progress = lock(&self.progress);
        progress.touched == progress.covered && !progress.has_failed
    }

    /// Makes the first so many bytes durable, unless a sync has done so. Waits for one under way.
    ///
    /// # Errors
    ///
    /// If it fails, or an earlier one has.
    pub(super) fn sync(&self, bytes: u64, is_behind: bool) -> Result<(), DiskError> {
        let mut progress = lock(&self.progress);
        loop {
            if progress.has_failed {
                return Err(progress.failure());
            }
            let is_enough = progress.durable >= bytes && progress.covered >= progress.cut;
            if progress.touched == progress.covered || is_behind && is_enough {
                return Ok(());
            }
            drop(progress);
            self.step();
            progress = lock(&self.progress);
        }
    }

    /// Syncs once, after whoever does so; not if nothing has changed or it has failed before.
    fn step(&self) {
        let (bytes, touched) = {
            let mut progress = lock(&self.progress);
            while progress.is_syncing {
                progress = self.synced.wait(progress).unwrap_or_else(PoisonError::into_inner);
            }
            if progress.has_failed || progress.touched == progress.covered {
                return;
            }
            progress.is_syncing = true;
            (progress.bytes, progress.touched)
        };
        let synced = self.file.sync();
        let mut progress = lock(&self.progress);
        progress.is_syncing = false;
        match synced {
            Ok(()) => {
                // It may have been cut meanwhile.
                progress.durable = bytes.min(progress.bytes);
                progress.covered = touched;
            }
            Err(error) => {
                progress.has_failed = true;
                progress.failure = Some(error);
            }
        }
        drop(progress);
        self.synced.notify_all();
    }
}

impl Progress {
    /// Gives the failure away; who comes later hears that there was one.
    fn failure(&mut self) -> DiskError {
        self.failure.take().unwrap_or_else(|| {
            let source = io::Error::other("an earlier sync of this file has failed");
            DiskError::new("sync", std::path::Path::new("a staged extent"), source)
        })
    }

    fn ahead(&self) -> u64 {
        self.bytes.saturating_sub(self.durable)
    }
}

/// Threads that sync files behind their writers; there are none while nothing is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Syncer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    files: VecDeque<Arc<Written>>,
    threads: usize,
    idle: usize,
}

impl Syncer {
    fn push(&self, file: &Arc<Written>) {
        let mut queue = lock(&self.0.queue);
        queue.files.push_back(Arc::clone(file));
        if queue.files.len() <= queue.idle || queue.threads == THREADS_MAX {
            self.0.more.notify_one();
            return;
        }
        queue.threads += 1;
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("narad-sync".to_owned());
        if let Err(error) = thread.spawn(move || shared.work()) {
            queue.threads -= 1;
            if queue.threads == 0 {
                // Nobody comes: the sync at the end does it all.
                tracing::warn!(%error, "no thread to sync behind a copy");
                for file in queue.files.drain(..) {
                    lock(&file.progress).is_queued = false;
                    file.synced.notify_all();
                }
            }
        }
    }
}

impl Shared {
    fn work(&self) {
        while let Some(file) = self.next() {
            file.step();
            let mut progress = lock(&file.progress);
            let again = progress.ahead() >= STEP_BYTES && !progress.has_failed;
            progress.is_queued = again;
            drop(progress);
            file.synced.notify_all();
            if again {
                // At the end of the queue: every file gets its turn.
                lock(&self.queue).files.push_back(file);
            }
        }
    }

    /// Waits for work; `None` if there is none for long.
    fn next(&self) -> Option<Arc<Written>> {
        let mut queue = lock(&self.queue);
        let mut waited = false;
        loop {
            if let Some(file) = queue.files.pop_front() {
                return Some(file);
            }
            if waited {
                queue.threads -= 1;
                return None;
            }
            queue.idle += 1;
            let woken = self.more.wait_timeout(queue, IDLE);
            let (guard, timed_out) = woken.unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            queue.idle -= 1;
            waited = timed_out.timed_out();
        }
    }
}

#[cfg(test)]
mod tests;
