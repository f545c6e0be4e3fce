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

#[cfg(test)]
mod tests {
    use super::*;

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
