//! Binds the Narad state machines to tikv raft, files and sockets.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "http")]
pub mod client;
#[cfg(feature = "cli")]
pub mod demo;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "cli")]
pub mod server;
#[cfg(feature = "http")]
pub mod service;
#[cfg(feature = "cli")]
pub mod settings;
