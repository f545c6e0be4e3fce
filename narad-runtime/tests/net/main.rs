//! The peer transport and the bulk copies, over real sockets on loopback.
#![cfg(feature = "net")]

mod bulk;
mod peers;
mod strangers;
mod support;
