//! What a destination is shown of an open log, and given of it.

use bytes::Bytes;
use narad_core::freeze::gate::Refused;
use narad_core::ids::{Epoch, Incarnation, Offset};
use narad_core::partition::{Checksum, Listing, Staged};

use super::{Open, READ_BYTES, Seat, View};
use crate::embed::error::AppendError;
use crate::embed::extents::{Extents, Prefix, RECORDS, frame_bytes};
use crate::embed::store::{PartitionStore, StoreFault};

impl Seat {
    /// Reads records of one extent for a copy, from one of its records on: as many as fit, and at
    /// least one. Empty if the extent ends there.
    pub(in crate::embed) async fn read_extent(
        &self,
        from: Offset,
        bytes_max: u64,
    ) -> Result<Vec<Bytes>, CopyFault> {
        let view = self.readable().ok_or(CopyFault::NotServing)?;
        if from < view.start {
            return Err(CopyFault::Gone);
        }
        let stretch_end = Offset((from.0 / RECORDS + 1) * RECORDS);
        let end = view.end.min(stretch_end);
        if from >= end {
            return Ok(Vec::new());
        }
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(READ_BYTES);
        let records = self.store.read(&view.name, from, most).await.map_err(|fault| {
            tracing::error!(partition = %self.partition, %fault, "cannot read for a copy");
            CopyFault::Failed
        })?;
        let mut room = bytes_max.max(records.first().map_or(0, |record| frame_bytes(record)));
        let fits = |record: &Bytes| {
            let bytes = frame_bytes(record);
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        };
        let count = usize::try_from(end.0 - from.0).unwrap_or(usize::MAX);
        Ok(records.into_iter().take(count).take_while(fits).collect())
    }

    /// Carries out `Gating::List`.
    pub(in crate::embed) async fn list(
        &self,
        life: Incarnation,
        check: &[Staged],
    ) -> Option<Listing> {
        let listed = self.try_list(life, check).await;
        let partition = self.partition;
        listed.inspect_err(|fault| tracing::warn!(%partition, %fault, "cannot list")).ok()
    }

    async fn try_list(&self, life: Incarnation, check: &[Staged]) -> Result<Listing, AppendError> {
        self.warm().await?;
        let view = self.readable().ok_or(AppendError::Refused(Refused::NotServing))?;
        let mut agreed = Vec::new();
        for staged in check {
            if self.agrees(&view, staged).await? {
                agreed.push(staged.base);
            }
        }
        let inner = self.lock();
        let log = inner.log.as_ref().filter(|log| log.opening == view.opening);
        let listing = log.and_then(|log| log.listing(life, view.epoch, agreed));
        listing.ok_or(AppendError::Refused(Refused::NotServing))
    }

    /// Whether a staged prefix is this log's own bytes (H16).
    async fn agrees(&self, view: &View, staged: &Staged) -> Result<bool, AppendError> {
        let piece = {
            let inner = self.lock();
            let extents = inner.log.as_ref().and_then(|log| log.extents.as_ref());
            extents.and_then(|extents| extents.piece(staged.base)).copied()
        };
        let Some(piece) = piece.filter(|piece| piece.bytes >= staged.bytes.0) else {
            return Ok(staged.bytes.0 == 0 && staged.base >= view.start && staged.base <= view.end);
        };
        if piece.bytes == staged.bytes.0 {
            return Ok(piece.checksum == staged.checksum.0);
        }
        let found =
            prefix(&*self.store, &view.name, staged.base, piece.end, staged.bytes.0).await?;
        Ok(found == Some(staged.checksum))
    }

    /// Reads the whole log once, so that it can be listed; from then on appends keep up with it. Waits
    /// for no append, since one that hangs must not hide what is there, unless they come too fast.
    pub(in crate::embed) async fn warm(&self) -> Result<(), AppendError> {
        const ROUNDS: u32 = 16;
        let not_open = || AppendError::Refused(Refused::NotServing);
        let view = self.readable().ok_or_else(not_open)?;
        if self.lock().log.as_ref().is_some_and(|log| log.extents.is_some()) {
            return Ok(());
        }
        let mut extents = Extents::new(view.start);
        let mut writer = None;
        for round in 0.. {
            if round == ROUNDS {
                writer = Some(self.writer.lock().await);
            }
            let end = self.readable().ok_or_else(not_open)?.end;
            scan(&*self.store, &view.name, &mut extents, end).await?;
            let mut inner = self.lock();
            let log = inner.log.as_mut().filter(|log| log.opening == view.opening);
            let log = log.ok_or_else(not_open)?;
            if log.end == extents.end() {
                log.extents = Some(extents);
                break;
            }
        }
        drop(writer);
        Ok(())
    }
}

impl Open {
    pub(in crate::embed) fn listing(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        agreed: Vec<Offset>,
    ) -> Option<Listing> {
        let extents = self.extents.as_ref()?;
        Some(Listing {
            incarnation,
            generation: self.note.generation,
            epoch,
            start: extents.start(),
            end: extents.end(),
            hwm: self.hwm,
            extents: extents.listed(),
            agreed,
        })
    }
}

/// Why a source gives no records of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embed) enum CopyFault {
    NotServing,
    Gone,
    Failed,
}

/// Reads on to an end.
pub(in crate::embed) async fn scan(
    store: &dyn PartitionStore,
    name: &str,
    extents: &mut Extents,
    end: Offset,
) -> Result<(), StoreFault> {
    while extents.end() < end {
        let from = extents.end();
        let records = store.read(name, from, READ_BYTES).await?;
        let most = usize::try_from(end.0 - from.0).unwrap_or(usize::MAX);
        if records.is_empty() {
            let log = name.to_owned();
            return Err(StoreFault::OutOfRange { log, offset: from });
        }
        for record in records.iter().take(most) {
            extents.push(record);
        }
    }
    Ok(())
}

/// Returns the checksum of the first bytes of an extent; `None` if it has fewer.
pub(in crate::embed) async fn prefix(
    store: &dyn PartitionStore,
    name: &str,
    base: Offset,
    end: Offset,
    bytes: u64,
) -> Result<Option<Checksum>, StoreFault> {
    let mut prefix = Prefix::new(bytes);
    let (mut from, mut more) = (base, bytes > 0);
    while more && from < end {
        let records = store.read(name, from, READ_BYTES).await?;
        if records.is_empty() {
            break;
        }
        for record in records.iter().take(usize::try_from(end.0 - from.0).unwrap_or(usize::MAX)) {
            more = prefix.push(record);
            from = from.next();
            if !more {
                break;
            }
        }
    }
    Ok(prefix.finish())
}
