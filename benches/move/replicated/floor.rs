//! What a change that is durable on two nodes cannot do without, each measured alone.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Instant;

use narad_core::ids::{LogIndex, NodeId};
use narad_runtime::raft::{Batch, HardState, LogEntry, Position, RaftStore as _, RedbStore, Term};

use crate::stats::median;

/// Bytes of a message, and of an entry.
const BYTES: usize = 128;

/// A store, a file, and an echo on loopback.
pub(super) struct Floor {
    store: RedbStore,
    index: u64,
    file: File,
    stream: TcpStream,
    echo: Option<JoinHandle<()>>,
}

impl Floor {
    pub(super) fn new(dir: &Path) -> Result<Self, Box<dyn Error>> {
        fs::create_dir_all(dir)?;
        let store = RedbStore::create(dir.join("raft.redb"), NodeId(1))?;
        let file = File::create(dir.join("synced"))?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        stream.set_nodelay(true)?;
        let (mut peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; BYTES];
            while peer.read_exact(&mut buffer).is_ok() && peer.write_all(&buffer).is_ok() {}
        });
        Ok(Self { store, index: 0, file, stream, echo: Some(echo) })
    }

    /// Returns the medians of a durable commit of one entry, of an append and fdatasync, and of a
    /// round trip between two threads, in microseconds: each alone, since a file that grows makes
    /// the syncs of others wait for the file system's journal.
    pub(super) fn measure(&mut self, ops: u32) -> Result<(f64, f64, f64), Box<dyn Error>> {
        let mut buffer = [7; BYTES];
        let commits = p50(ops, || {
            self.index += 1;
            let position = Position { index: LogIndex(self.index), term: Term(1) };
            let commit = LogIndex(self.index - 1);
            let batch = Batch {
                entries: vec![LogEntry { position, bytes: buffer.to_vec().into() }],
                hard_state: Some(HardState { term: Term(1), vote: Some(NodeId(1)), commit }),
                must_sync: true,
                ..Batch::default()
            };
            self.store.commit(&batch)
        })?;
        let syncs = p50(ops, || {
            self.file.write_all(&buffer)?;
            self.file.sync_data()
        })?;
        let trips = p50(ops, || {
            self.stream.write_all(&buffer)?;
            self.stream.read_exact(&mut buffer)
        })?;
        Ok((commits, syncs, trips))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        drop(self.stream.shutdown(Shutdown::Both));
        if let Some(echo) = self.echo.take() {
            drop(echo.join());
        }
    }
}

/// Does something a number of times; returns the median in microseconds.
fn p50<E>(ops: u32, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut samples = Vec::new();
    for _ in 0..ops {
        let began = Instant::now();
        work()?;
        samples.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&samples))
}
