//! Bulk copies between two nodes.
