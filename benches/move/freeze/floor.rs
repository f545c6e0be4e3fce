//! The least that a freeze can take: the same work by bare system calls, one after the other.
//!
//! A request over TCP; the tail by `sendfile`, received, checked and written; `fdatasync`; a manifest
//! written, synced and renamed, with its directory; the directory renamed, with its parent; one entry
//! committed to the stores of a Raft leader and a follower, the latter over TCP.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use narad_core::ids::{LogIndex, NodeId};
use narad_runtime::raft::{
    Batch, HardState, LogEntry, Position, RaftStore, RedbStore, StoreError, Term,
};

use super::cluster::{Failed, noise};

/// Bytes before the tail, as of a segment that has grown for a while.
const HEAD_BYTES: u64 = 64 << 10;
const TAIL_BYTES_MAX: usize = 1 << 20;
const BUFFER_BYTES: usize = 256 << 10;
/// A flip's entry, roughly.
const ENTRY_BYTES: usize = 256;

/// A source, a destination, a leader and a follower.
pub(crate) struct Floor {
    dir: PathBuf,
    source: Option<TcpStream>,
    follower: Option<TcpStream>,
    threads: Vec<JoinHandle<io::Result<()>>>,
    store: RedbStore,
    index: u64,
    buffer: Vec<u8>,
}

impl Floor {
    pub(crate) fn new(dir: &Path) -> Result<Self, Failed> {
        fs::create_dir_all(dir)?;
        let tail = dir.join("tail");
        fs::write(&tail, noise(TAIL_BYTES_MAX))?;
        let tail = File::open(tail)?;
        let (source, sending) = connect(move |socket| send_tails(socket, &tail))?;
        let mut store = RedbStore::create(dir.join("follower.redb"), NodeId(2))?;
        let (follower, following) = connect(move |socket| follow(socket, &mut store))?;
        Ok(Self {
            dir: dir.to_owned(),
            source: Some(source),
            follower: Some(follower),
            threads: vec![sending, following],
            store: RedbStore::create(dir.join("leader.redb"), NodeId(1))?,
            index: 0,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Does everything once, with a tail of so many bytes.
    pub(crate) fn freeze(&mut self, tail_bytes: u64) -> Result<Duration, Failed> {
        let (staging, installed) = (self.dir.join("staging"), self.dir.join("installed"));
        if installed.exists() {
            fs::remove_dir_all(&installed)?;
        }
        fs::create_dir_all(&staging)?;
        let segment = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(staging.join("segment"))?;
        let head = usize::try_from(HEAD_BYTES).unwrap_or(0);
        segment.write_all_at(&self.buffer[..head], 0)?;
        segment.sync_all()?;

        let begin = Instant::now();
        self.receive(&segment, tail_bytes)?;
        segment.sync_data()?;
        let unnamed = staging.join("manifest.tmp");
        let manifest = File::create(&unnamed)?;
        manifest.write_all_at(&self.buffer[..256], 0)?;
        manifest.sync_data()?;
        fs::rename(&unnamed, staging.join("manifest"))?;
        File::open(&staging)?.sync_all()?;
        fs::rename(&staging, &installed)?;
        File::open(&self.dir)?.sync_all()?;
        self.commit()?;
        Ok(begin.elapsed())
    }

    fn receive(&mut self, segment: &File, tail_bytes: u64) -> io::Result<()> {
        let source = self.source.as_mut().expect("it is there until the end");
        source.write_all(&tail_bytes.to_le_bytes())?;
        let (mut received, mut checksum) = (0, 0);
        while received < tail_bytes {
            let left = usize::try_from(tail_bytes - received).unwrap_or(usize::MAX);
            let read = source.read(&mut self.buffer[..left.min(BUFFER_BYTES)])?;
            checksum = crc32c::crc32c_append(checksum, &self.buffer[..read]);
            segment.write_all_at(&self.buffer[..read], HEAD_BYTES + received)?;
            received += read as u64;
        }
        std::hint::black_box(checksum);
        if tail_bytes == 0 {
            // An answer without a tail is an answer, too.
            source.read_exact(&mut self.buffer[..1])?;
        }
        Ok(())
    }

    /// Commits one entry of the replicated log, here and at the follower at once.
    pub(crate) fn commit(&mut self) -> Result<(), Failed> {
        self.index += 1;
        let follower = self.follower.as_mut().expect("it is there until the end");
        follower.write_all(&[7; ENTRY_BYTES])?;
        self.store.commit(&batch(self.index))?;
        Ok(follower.read_exact(&mut [0])?)
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        (self.source, self.follower) = (None, None);
        for thread in self.threads.drain(..) {
            // What went wrong at the other end has shown at this one.
            drop(thread.join());
        }
    }
}

fn batch(index: u64) -> Batch {
    let position = Position { index: LogIndex(index), term: Term(1) };
    let bytes = Bytes::from_static(&[7; ENTRY_BYTES]);
    let commit = LogIndex(index - 1);
    Batch {
        entries: vec![LogEntry { position, bytes }],
        hard_state: Some(HardState { term: Term(1), vote: None, commit }),
        must_sync: true,
        ..Batch::default()
    }
}

/// Sends tails as they are asked for.
fn send_tails(mut socket: TcpStream, tail: &File) -> io::Result<()> {
    let mut asked = [0; 8];
    while socket.read_exact(&mut asked).is_ok() {
        let bytes = u64::from_le_bytes(asked);
        if bytes == 0 {
            socket.write_all(&[0])?;
        }
        let mut sent = 0;
        while sent < bytes {
            let left = usize::try_from(bytes - sent).unwrap_or(usize::MAX);
            sent += rustix::fs::sendfile(&socket, tail, None, left)? as u64;
        }
        rustix::fs::seek(tail, rustix::fs::SeekFrom::Start(0))?;
    }
    Ok(())
}

/// Keeps entries as they come.
fn follow(mut socket: TcpStream, store: &mut RedbStore) -> io::Result<()> {
    let mut entry = [0; ENTRY_BYTES];
    let mut index = 0;
    while socket.read_exact(&mut entry).is_ok() {
        index += 1;
        store.commit(&batch(index)).map_err(|error: StoreError| io::Error::other(error))?;
        socket.write_all(&[1])?;
    }
    Ok(())
}

fn connect(
    serve: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static,
) -> io::Result<(TcpStream, JoinHandle<io::Result<()>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let thread = thread::spawn(move || {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        serve(socket)
    });
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    Ok((socket, thread))
}
