//! Starts three real nodes, lets a fourth join, and counts what is where before and after.
//!
//! Everything is real: files in a temporary directory, sockets on loopback, Raft, and the client
//! that programs use. Nobody tells the partitions to move: the leader sees the fourth node and plans
//! the surplus.
//!
//! ```text
//! cargo run --example three_nodes
//! ```
#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use narad_core::ids::Name;
use narad_runtime::client::{
    Client, ClientOptions, Placement, ProducerOptions, ReaderOptions, StartAt,
};
use narad_runtime::server::{Server, Start};
use narad_runtime::service::{NewTopic, Read, Record};
use narad_runtime::settings::Settings;

const TOPIC: &str = "orders";
const PARTITIONS: u32 = 8;
const RECORDS: u32 = 400;
/// What nothing here takes.
const PATIENCE: Duration = Duration::from_mins(1);

type Failed = Box<dyn Error + Send + Sync>;

/// Starts a node on ports of the system's choice, and waits until it belongs to the cluster.
async fn start(root: &Path, name: &str, how: Start) -> Result<Server, Failed> {
    let mut settings = Settings { name: Some(Name::new(name)?), ..Settings::default() };
    settings.data_dir = root.join(name);
    settings.listen.peer = "127.0.0.1:0".into();
    settings.listen.http = "127.0.0.1:0".into();
    // A cluster on one machine need not be as patient as one across a network.
    settings.raft.tick = Duration::from_millis(20);
    settings.node.heartbeat_interval = Duration::from_millis(200);
    settings.node.controller_interval = Duration::from_millis(100);
    let server = Server::start(&settings, how).await?;
    server.ready(&settings).await?;
    println!("{name} takes part, its API is at {}", server.http_addr());
    Ok(server)
}

/// Returns how many partitions each member owns.
async fn placement(client: &Client) -> Result<BTreeMap<String, u64>, Failed> {
    let members = client.members(Read::Barrier).await?;
    Ok(members.iter().map(|member| (member.id.to_string(), member.owned_partitions)).collect())
}

/// Waits until the partitions are spread as they should be, and nothing moves any more.
async fn settled(client: &Client, wanted: &[u64]) -> Result<BTreeMap<String, u64>, Failed> {
    let mut look_again = tokio::time::interval(Duration::from_millis(50));
    loop {
        look_again.tick().await;
        // While the members elect a leader there is nobody to ask.
        let Ok(placement) = placement(client).await else { continue };
        let mut counts: Vec<u64> = placement.values().copied().collect();
        counts.sort_unstable();
        if counts == wanted && client.moves(Read::Barrier).await.is_ok_and(|moves| moves.is_empty())
        {
            return Ok(placement);
        }
    }
}

async fn publish(client: &Client) -> Result<(), Failed> {
    let producer = client.producer(TOPIC, ProducerOptions::default());
    for number in 0..RECORDS {
        let value = format!("order {number}");
        let record = Record { value: value.into(), ..Record::default() };
        producer.send(Placement::Pinned(number % PARTITIONS), &[record]).await?;
    }
    Ok(())
}

/// Reads the whole topic from its beginning.
async fn read_back(client: &Client) -> Result<BTreeSet<String>, Failed> {
    let options =
        ReaderOptions { start: StartAt::Beginning, follow: false, ..ReaderOptions::default() };
    let mut reader = client.reader(TOPIC, options).await?;
    let mut found = BTreeSet::new();
    while let Some(stretch) = reader.next().await? {
        for (_, record) in stretch.records {
            found.insert(String::from_utf8(record.value.to_vec())?);
        }
    }
    Ok(found)
}

async fn run(root: &Path) -> Result<(), Failed> {
    let founder = start(root, "narad-1", Start::Bootstrap).await?;
    let peers = || Start::Join(vec![founder.peer_addr().to_string()]);
    let second = start(root, "narad-2", peers()).await?;
    let third = start(root, "narad-3", peers()).await?;

    let seeds = [&founder, &second, &third].map(|server| server.http_addr().to_string().parse());
    let seeds = seeds.into_iter().collect::<Result<_, _>>()?;
    let client = Client::new(seeds, ClientOptions::default());
    let name = Name::new(TOPIC)?;
    client.create_topic(&NewTopic { name, partitions: PARTITIONS, parent: None }).await?;
    println!("before: {:?}", settled(&client, &[2, 3, 3]).await?);
    publish(&client).await?;

    let fourth = start(root, "narad-4", peers()).await?;
    println!("after:  {:?}", settled(&client, &[2, 2, 2, 2]).await?);

    let found = read_back(&client).await?;
    let written: BTreeSet<String> = (0..RECORDS).map(|number| format!("order {number}")).collect();
    assert_eq!(found, written, "every acknowledged record is there, wherever it went");
    println!("{} of {RECORDS} records are there", found.len());

    for server in [fourth, third, second, founder] {
        server.shutdown().await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let root = tempfile::tempdir()?;
    tokio::time::timeout(PATIENCE, run(root.path())).await?
}
