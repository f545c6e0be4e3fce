//! How many connections were refused, and why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::lock;

/// Counts the connections that this node has refused, by port and reason. Clones count together.
///
/// Ports are `peer` and `http`. Reasons are those of a [`Fault`](crate::tls::Fault) and of
/// [`Why`](crate::wire::handshake::Why), and `malformed` (what came is no handshake), `ended` (the
/// other side left before it had said who it is), `slow` (it took too long to) and `crowded` (it had
/// to make room). There are no others, so that no stranger can make this grow.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<(&'static str, &'static str), u64>>>);

impl Tally {
    /// Counts one.
    pub(crate) fn count(&self, port: &'static str, reason: &'static str) {
        *lock(&self.0).entry((port, reason)).or_default() += 1;
    }

    /// Returns how many there were since the start, by port and reason.
    pub fn all(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        lock(&self.0).clone()
    }
}

/// All are equal: settings do not differ by what has been counted.
impl PartialEq for Tally {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Tally {}
