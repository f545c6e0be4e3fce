//! Where frames of one connection are written, by one writer at a time.
//!
//! Most are written by the link's task, which takes what is queued. A thread that has one frame to
//! send while nothing else waits writes it itself: on the way of a Raft message that saves waking
//! the task up. If the socket takes only a part of it, the task writes the rest, before all else.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::socket;
use crate::net::stream::WriteHalf;

/// One connection's writing end, while there is one.
#[derive(Debug, Default)]
pub(super) struct Desk {
    open: Mutex<Open>,
    left_over: Notify,
}

#[derive(Debug, Default)]
struct Open {
    half: Option<WriteHalf>,
    version: u8,
    /// What is to be written next.
    buffer: BytesMut,
}

/// The right to write, as long as it lives.
#[derive(Debug)]
pub(super) struct Turn<'a>(MutexGuard<'a, Open>);

impl Desk {
    pub(super) async fn open(&self, half: WriteHalf, version: u8) {
        let mut open = self.open.lock().await;
        *open = Open { half: Some(half), version, buffer: BytesMut::new() };
    }

    /// Ends with the connection; a part of a frame goes with it.
    pub(super) async fn close(&self) {
        *self.open.lock().await = Open::default();
    }

    /// Waits until nobody else writes.
    pub(super) async fn turn(&self) -> Turn<'_> {
        Turn(self.open.lock().await)
    }

    /// Waits for a frame of which a thread has written a part only.
    pub(super) async fn left_over(&self) {
        self.left_over.notified().await;
    }

    /// Writes a frame at once, if `idle` says that nothing is to come before it and nobody writes.
    /// Returns false if the socket has not taken any of it.
    pub(super) fn send_if(
        &self,
        idle: impl Fn() -> bool,
        put: impl FnOnce(u8, &mut BytesMut),
    ) -> bool {
        let Ok(mut open) = self.open.try_lock() else { return false };
        let Open { half: Some(half), version, buffer } = &mut *open else { return false };
        if !buffer.is_empty() || !idle() {
            return false;
        }
        put(*version, buffer);
        // Whatever is wrong with the socket, the task will see it.
        let written = half.try_write(buffer).unwrap_or(0);
        if written == 0 {
            buffer.clear();
            return false;
        }
        drop(buffer.split_to(written));
        if !buffer.is_empty() {
            self.left_over.notify_one();
        }
        true
    }
}

impl Turn<'_> {
    /// Returns what is to be written next, to add to it.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.0.buffer
    }

    /// Writes all of it; fails only if not one byte is taken for as long as `stall`.
    pub(super) async fn write(&mut self, stall: Duration) -> io::Result<()> {
        let Open { half, buffer, .. } = &mut *self.0;
        match half {
            Some(half) => socket::write_all(half, buffer, stall).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
