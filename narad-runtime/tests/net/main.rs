//! The peer transport and the bulk copies, over real sockets on loopback.
#![cfg(feature = "net")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod bulk;
mod deliveries;
mod peers;
mod strangers;
mod support;
#[cfg(feature = "cli")]
mod tls;
