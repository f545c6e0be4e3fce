//! The tail that comes with the answer to a request to freeze.
//!
//! A destination that asks for a freeze says how far it has copied, and a source whose rest is short
//! sends it along with what it captured: under a freeze one round trip is all there is time for. The
//! destination keeps the bytes until it comes to copy them, and takes them for what another copy would
//! have brought: they are written and checked in the same way. One that got none copies as ever.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use narad_core::ids::{NodeId, Offset, PartitionId};
use narad_core::partition::Listing;

use super::{CancelFlag, Copier, CopyReport, CopyRequest, Sink, Source, TransferError};

/// What a destination wants to come along: everything beyond how far it has copied a log, which is all
/// before one extent, and the first bytes of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// The extent.
    pub base: Offset,
    /// Its first bytes.
    pub bytes: u64,
    /// The most that may come, in bytes.
    pub most: u64,
}

/// A part of one extent, and where in the tail it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    base: Offset,
    position: u64,
    within: Range<usize>,
}

/// Longest tail that is ever sent along, in bytes: what a configuration may ask for.
const BYTES_MAX: u64 = 1 << 20;

/// Returns the pieces of a log beyond a reach; `None` if they are too long together.
fn pieces(listing: &Listing, reach: Reach) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut end = 0;
    for extent in listing.extents.iter().rev().take_while(|extent| extent.base >= reach.base) {
        let position = if extent.base == reach.base { reach.bytes } else { 0 };
        let bytes = extent.bytes.0.checked_sub(position)?;
        pieces.push((extent.base, position, bytes));
    }
    let mut placed = Vec::with_capacity(pieces.len());
    for (base, position, bytes) in pieces.into_iter().rev() {
        let begin = end;
        end = usize::try_from(bytes).ok()?.checked_add(begin)?;
        if end as u64 > reach.most.min(BYTES_MAX) {
            return None;
        }
        placed.push(Piece { base, position, within: begin..end });
    }
    Some(placed)
}

/// Reads what a log holds beyond a reach; empty if that is nothing, too much, or cannot be read.
pub fn read_tail(
    source: &dyn Source,
    partition: PartitionId,
    listing: &Listing,
    reach: Reach,
) -> Bytes {
    let Some(pieces) = pieces(listing, reach) else { return Bytes::new() };
    let mut bytes = vec![0; pieces.last().map_or(0, |last| last.within.end)];
    for Piece { base, position, within } in pieces {
        let buffer = &mut bytes[within];
        let read = source.read_at(partition, base, position, buffer);
        if read.is_ok_and(|read| read == buffer.len()) || buffer.is_empty() {
            continue;
        }
        tracing::debug!(%partition, %base, position, "the tail is not sent along");
        return Bytes::new();
    }
    bytes.into()
}

/// The tails that have come and were not copied yet: at most one of each partition.
#[derive(Debug, Default)]
pub struct Tails(Mutex<BTreeMap<PartitionId, Tail>>);

#[derive(Clone, Debug)]
struct Tail {
    source: NodeId,
    pieces: Vec<Piece>,
    bytes: Bytes,
}

impl Tails {
    /// Keeps what came with a capture; bytes that do not fit it are dropped.
    pub fn keep(
        &self,
        partition: PartitionId,
        source: NodeId,
        (listing, reach): (&Listing, Reach),
        bytes: Bytes,
    ) {
        let pieces = pieces(listing, reach).unwrap_or_default();
        let fits = pieces.last().is_some_and(|last| last.within.end == bytes.len());
        if fits && !bytes.is_empty() {
            self.lock().insert(partition, Tail { source, pieces, bytes });
        }
    }

    /// Forgets the tail of a partition: whatever is copied next is of another freeze.
    pub fn forget(&self, partition: PartitionId) {
        self.lock().remove(&partition);
    }

    /// Returns the bytes that a request asks for, if they are here.
    pub fn find(&self, source: NodeId, request: &CopyRequest) -> Option<Bytes> {
        let tails = self.lock();
        let tail = tails.get(&request.partition).filter(|tail| tail.source == source)?;
        let piece = tail.pieces.iter().find(|piece| piece.base == request.base)?;
        let skip = usize::try_from(request.position.checked_sub(piece.position)?).ok()?;
        let begin = piece.within.start.checked_add(skip)?;
        let end = begin.checked_add(usize::try_from(request.bytes).ok()?)?;
        (end <= piece.within.end).then(|| tail.bytes.slice(begin..end))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PartitionId, Tail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies what has come already, and the rest by another way.
#[derive(Debug)]
pub(crate) struct TailFirst<'a, C: ?Sized> {
    pub(crate) tails: &'a Tails,
    pub(crate) rest: &'a C,
}

impl<C: Copier + ?Sized> Copier for TailFirst<'_, C> {
    fn copy(
        &self,
        from: NodeId,
        request: &CopyRequest,
        sink: &mut dyn Sink,
        cancel: &CancelFlag,
    ) -> Result<CopyReport, TransferError> {
        let Some(bytes) = self.tails.find(from, request) else {
            return self.rest.copy(from, request, sink, cancel);
        };
        sink.write(&bytes).map_err(|error| TransferError::Sink { received: 0, error })?;
        Ok(CopyReport { bytes: request.bytes, ..CopyReport::default() })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use narad_core::ids::{ByteCount, Epoch, Incarnation, LogGeneration, TopicId};
    use narad_core::partition::{Checksum, Extent};

    use super::*;
    use crate::copy::SourceError;

    const P: PartitionId = PartitionId { topic: TopicId(3), index: 1 };
    const A: NodeId = NodeId(1);

    /// A source each of whose extents holds its base offset, over and over.
    struct Plain;

    impl Source for Plain {
        fn read_at(
            &self,
            _: PartitionId,
            base: Offset,
            _: u64,
            buffer: &mut [u8],
        ) -> Result<usize, SourceError> {
            buffer.fill(u8::try_from(base.0).unwrap());
            Ok(buffer.len())
        }
    }

    fn listing(extents: &[(u64, u64)]) -> Listing {
        let extent = |&(base, bytes): &(u64, u64)| Extent {
            base: Offset(base),
            end: Offset(base + 10),
            bytes: ByteCount(bytes),
            checksum: Checksum(0),
            sealed: false,
        };
        Listing {
            incarnation: Incarnation(1),
            generation: LogGeneration(1),
            epoch: Epoch(1),
            start: Offset(0),
            end: Offset(30),
            hwm: Offset(30),
            extents: extents.iter().map(extent).collect(),
            agreed: Vec::new(),
        }
    }

    fn request(base: u64, position: u64, bytes: u64) -> CopyRequest {
        CopyRequest { partition: P, base: Offset(base), position, bytes }
    }

    /// Case C50: what was written between the last pass and the freeze comes with the capture, over
    /// the end of a segment, and no byte of what was copied before.
    #[test]
    fn exactly_what_is_missing_comes_along() {
        let listing = listing(&[(0, 50), (10, 40), (20, 7)]);
        let reach = Reach { base: Offset(10), bytes: 35, most: 100 };
        let bytes = read_tail(&Plain, P, &listing, reach);
        assert_eq!(bytes[..], [[10; 5].as_slice(), &[20; 7]].concat());
        let tails = Tails::default();
        tails.keep(P, A, (&listing, reach), bytes);
        assert_eq!(tails.find(A, &request(10, 35, 5)).as_deref(), Some([10; 5].as_slice()));
        assert_eq!(tails.find(A, &request(20, 2, 5)).as_deref(), Some([20; 5].as_slice()));
        for elsewhere in [request(0, 0, 50), request(10, 34, 5), request(10, 35, 6)] {
            assert_eq!(tails.find(A, &elsewhere), None);
        }
        assert_eq!(tails.find(NodeId(2), &request(20, 0, 7)), None);
        tails.forget(P);
        assert_eq!(tails.find(A, &request(20, 0, 7)), None);
    }

    /// Case C59: a tail that is too long stays, and one that does not fit the capture is no tail.
    #[test]
    fn what_does_not_fit_is_not_taken() {
        let long = listing(&[(0, BYTES_MAX + 1)]);
        let all = Reach { most: u64::MAX, ..Reach::default() };
        assert!(read_tail(&Plain, P, &long, all).is_empty());
        let few = Reach { most: 7, ..Reach::default() };
        assert!(read_tail(&Plain, P, &listing(&[(0, 8)]), few).is_empty());
        let beyond = Reach { base: Offset(0), bytes: BYTES_MAX + 2, most: u64::MAX };
        assert!(read_tail(&Plain, P, &long, beyond).is_empty());
        let tails = Tails::default();
        let short = listing(&[(0, 8)]);
        tails.keep(P, A, (&short, all), Bytes::from_static(b"seven b"));
        assert_eq!(tails.find(A, &request(0, 0, 7)), None);
    }

    /// Whatever has not come along is copied as ever.
    #[test]
    fn the_rest_is_copied_by_another_way() {
        struct Other;
        impl Copier for Other {
            fn copy(
                &self,
                _: NodeId,
                _: &CopyRequest,
                _: &mut dyn Sink,
                _: &CancelFlag,
            ) -> Result<CopyReport, TransferError> {
                Err(TransferError::Malformed)
            }
        }
        struct Written(Vec<u8>);
        impl Sink for Written {
            fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
                self.0.extend_from_slice(bytes);
                Ok(())
            }
        }
        let (tails, listing) = (Tails::default(), listing(&[(0, 8)]));
        let reach = Reach { base: Offset(0), bytes: 6, most: 100 };
        tails.keep(P, A, (&listing, reach), Bytes::from_static(b"ab"));
        let copier = TailFirst { tails: &tails, rest: &Other };
        let (mut sink, cancel) = (Written(Vec::new()), CancelFlag::default());
        let report = copier.copy(A, &request(0, 6, 2), &mut sink, &cancel).unwrap();
        assert_eq!((report.bytes, sink.0.as_slice()), (2, b"ab".as_slice()));
        let other = copier.copy(A, &request(0, 0, 2), &mut sink, &cancel);
        assert!(matches!(other, Err(TransferError::Malformed)));
    }
}
