//! What a bulk copy costs beside the plainest loop that moves as many bytes over the same loopback.
//!
//! After the table comes one line with the ratio of the two, from rounds that alternate, so that
//! whatever else the machine does hits both alike.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use narad_core::ids::{NodeId, Offset, PartitionId, StoreUuid, TopicId};
use narad_core::peer::Request;
use narad_runtime::net::{Directory, Identity, Inbound, ReplySender, Seams, Transport};
use narad_runtime::transfer::{
    CancelFlag, Client, CopyRequest, Server, Settings, Sink, Source, SourceError, Throttle,
};
use narad_runtime::wire::handshake::ClusterId;
use tokio_util::sync::CancellationToken;

/// Bytes of one copy: a chunk request of the default size.
const BYTES: usize = 8 << 20;
/// The piece in which the plain loop writes and reads; the same as a copy's.
const PIECE: usize = 256 << 10;
const SOURCE: NodeId = NodeId(1);
const DESTINATION: NodeId = NodeId(2);
const P: PartitionId = PartitionId { topic: TopicId(1), index: 0 };

#[expect(clippy::print_stdout, reason = "a benchmark's result")]
fn main() {
    divan::main();
    // Without the flag of `cargo bench` the question is only whether it works.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 100 } else { 1 };
    let (copy, plain) = (Copying::start(), Plain::start());
    let mut took = [Duration::ZERO; 2];
    for _ in 0..rounds {
        for (total, one) in
            took.iter_mut().zip([&|| copy.once(), &|| plain.once()] as [&dyn Fn(); 2])
        {
            let begin = Instant::now();
            one();
            *total += begin.elapsed();
        }
    }
    let [copy, plain] = took.map(|took| took.as_secs_f64());
    println!("a copy takes {:.2} times as long as the plain loop ({rounds} rounds)", copy / plain);
}

#[divan::bench]
fn copy(bencher: Bencher<'_, '_>) {
    let copying = Copying::start();
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| copying.once());
}

#[divan::bench]
fn plain_loop(bencher: Bencher<'_, '_>) {
    let plain = Plain::start();
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| plain.once());
}

/// One extent in memory, which is also where each node is.
struct Memory(Vec<u8>);

impl Source for Memory {
    fn read_at(
        &self,
        _: PartitionId,
        _: Offset,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize, SourceError> {
        let rest = usize::try_from(position).ok().and_then(|position| self.0.get(position..));
        let rest = rest.ok_or(SourceError::OutOfRange)?;
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}

struct Place(SocketAddr);

impl Directory for Place {
    fn address(&self, _: NodeId) -> Option<String> {
        Some(self.0.to_string())
    }

    fn admits(&self, _: NodeId, _: StoreUuid) -> bool {
        true
    }
}

/// Nobody asks anything here.
struct Silence;

impl Inbound for Silence {
    fn raft(&self, _: NodeId, _: Bytes) {}
    fn request(&self, _: Option<NodeId>, _: Request, _: ReplySender) {}
    fn unreachable(&self, _: NodeId) {}
    fn snapshot_sent(&self, _: NodeId, _: bool) {}
}

/// Looks at what arrives, and drops it.
struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        black_box(bytes);
        Ok(())
    }
}

/// A source and a destination, as nodes have them.
struct Copying {
    client: Client,
    _runtime: tokio::runtime::Runtime,
    _source: Transport,
}

impl Copying {
    fn start() -> Self {
        let identity = |node: NodeId| {
            let store_uuid = StoreUuid(node.0.into());
            Identity { cluster: ClusterId(1), node, store_uuid }
        };
        let unlimited = || Arc::new(Throttle::on_real_time(0));
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("loopback");
        let place = Arc::new(Place(listener.local_addr().expect("it listens")));
        let memory = Arc::new(Memory(vec![7; BYTES]));
        let bulk = Arc::new(Server::new(memory, unlimited(), Settings::default()));
        let directory: Arc<dyn Directory> = place;
        let seams = Seams {
            directory: Arc::clone(&directory),
            inbound: Arc::new(Silence),
            bulk: Some(bulk),
            deliveries: None,
        };
        let settings = narad_runtime::net::Settings::default();
        let source = runtime.block_on(async {
            let token = CancellationToken::new();
            Transport::start(identity(SOURCE), listener, seams, settings, &token)
        });
        let client =
            Client::new(identity(DESTINATION), directory, unlimited(), Settings::default());
        Self { client, _runtime: runtime, _source: source }
    }

    fn once(&self) {
        let request =
            CopyRequest { partition: P, base: Offset(0), position: 0, bytes: BYTES as u64 };
        let copied = self.client.copy(SOURCE, &request, &mut Nowhere, &CancelFlag::default());
        assert_eq!(copied.expect("loopback").bytes, BYTES as u64);
    }
}

/// A thread that writes as many bytes for each byte that it gets.
struct Plain(TcpStream);

impl Plain {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("it listens");
        thread::spawn(move || -> io::Result<()> {
            let (mut stream, _) = listener.accept()?;
            let bytes = vec![7; BYTES];
            let mut piece = vec![0; PIECE];
            // Ends when the other side has gone.
            while stream.read(&mut [0])? == 1 {
                for part in bytes.chunks(PIECE) {
                    piece[..part.len()].copy_from_slice(part);
                    stream.write_all(&piece[..part.len()])?;
                }
            }
            Ok(())
        });
        Self(TcpStream::connect(address).expect("it listens"))
    }

    fn once(&self) {
        let mut stream = &self.0;
        stream.write_all(&[1]).expect("loopback");
        let mut buffer = vec![0; PIECE];
        let mut left = BYTES;
        while left > 0 {
            let read = stream.read(&mut buffer[..PIECE.min(left)]).expect("loopback");
            assert!(read > 0, "the writer is there");
            black_box(&buffer[..read]);
            left -= read;
        }
    }
}
