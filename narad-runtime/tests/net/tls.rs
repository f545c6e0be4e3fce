//! Who may talk to a node: certificates over real sockets.

pub(crate) mod certificates;
mod identity;

pub(crate) use certificates::Set;
