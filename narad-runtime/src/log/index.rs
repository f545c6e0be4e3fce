//! A sparse map from offsets to positions within one segment.

use narad_core::ids::Offset;

/// Distance between two anchors, in bytes. Smaller makes a read's first step shorter and the map
/// longer; at 64 KiB a full segment has about a thousand anchors.
const STRIDE: u64 = 64 << 10;

/// Positions of some frames of one segment, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseIndex {
    anchors: Vec<(Offset, u64)>,
}

impl SparseIndex {
    /// Remembers that a frame with this base begins here, if no anchor is near.
    pub(crate) fn note(&mut self, base: Offset, position: u64) {
        let at = self.anchors.partition_point(|anchor| anchor.1 <= position);
        let near = |anchor: Option<&(Offset, u64)>| {
            anchor.is_some_and(|anchor| anchor.1.abs_diff(position) < STRIDE)
        };
        if !near(at.checked_sub(1).and_then(|before| self.anchors.get(before)))
            && !near(self.anchors.get(at))
        {
            self.anchors.insert(at, (base, position));
        }
    }

    /// Returns the position of the last known frame whose base is at most an offset. The frame that
    /// holds the offset is that one or a later one.
    pub(crate) fn floor(&self, offset: Offset) -> Option<u64> {
        let after = self.anchors.partition_point(|anchor| anchor.0 <= offset);
        Some(self.anchors.get(after.checked_sub(1)?)?.1)
    }
}

/// Readers that are remembered at once.
const SPOTS: usize = 8;

/// Where the last reads ended, so that a reader that goes on there need not walk from an anchor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spots {
    spots: [Option<Spot>; SPOTS],
    /// Which one is forgotten next.
    oldest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Spot {
    segment: Offset,
    /// Base of the frame that begins there, or will.
    base: Offset,
    position: u64,
}

impl Spots {
    /// Remembers where the frame with this base begins.
    pub(crate) fn note(&mut self, segment: Offset, base: Offset, position: u64) {
        let known = |spot: &Option<Spot>| {
            spot.is_some_and(|spot| spot.segment == segment && spot.position == position)
        };
        if !self.spots.iter().any(known) {
            self.spots[self.oldest] = Some(Spot { segment, base, position });
            self.oldest = (self.oldest + 1) % SPOTS;
        }
    }

    /// Returns the position of the last remembered frame of a segment whose base is at most an
    /// offset.
    pub(crate) fn floor(&self, segment: Offset, offset: Offset) -> Option<u64> {
        let fits = |spot: &&Spot| spot.segment == segment && spot.base <= offset;
        self.spots.iter().flatten().filter(fits).map(|spot| spot.position).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_the_last_spots_of_a_segment_is_found() {
        let mut spots = Spots::default();
        spots.note(Offset(0), Offset(5), 500);
        spots.note(Offset(0), Offset(9), 900);
        spots.note(Offset(20), Offset(21), 100);
        assert_eq!(spots.floor(Offset(0), Offset(4)), None);
        assert_eq!(spots.floor(Offset(0), Offset(8)), Some(500));
        assert_eq!(spots.floor(Offset(0), Offset(30)), Some(900));
        for spot in 0..2 * SPOTS as u64 {
            spots.note(Offset(40), Offset(41), spot);
        }
        assert_eq!(spots.floor(Offset(0), Offset(30)), None, "the last ones only");
    }

    #[test]
    fn anchors_keep_their_distance_in_any_order_of_notes() {
        let mut index = SparseIndex::default();
        for step in [5_u64, 0, 1, 9, 3, 2, 8] {
            index.note(Offset(step * 10), step * STRIDE / 2);
        }
        assert_eq!(index.floor(Offset(9)), Some(0));
        assert_eq!(index.floor(Offset(1000)), Some(9 * STRIDE / 2));
        let gaps = index.anchors.windows(2).all(|pair| pair[1].1 - pair[0].1 >= STRIDE);
        assert!(gaps, "{index:?}");
    }
}
