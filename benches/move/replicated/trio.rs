//! Three nodes.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use narad_core::ids::{Name, PartitionId};
use narad_core::node::Ask;
use narad_runtime::node_loop::NodeHandle;
use narad_runtime::server::{Server, Start};
use narad_runtime::service::{NewTopic, Service as _};
use narad_runtime::settings::{Listen, Settings};

/// How long the nodes may take to be one cluster.
const PATIENCE: Duration = Duration::from_mins(1);

/// Three nodes that vote, and a topic on them.
pub(super) struct Trio {
    servers: Vec<Server>,
    leader: NodeHandle,
    /// The partitions whose pins are changed, and whether each is pinned.
    pins: Vec<(PartitionId, AtomicBool)>,
}

impl Trio {
    /// Starts the nodes, and makes a topic of so many partitions.
    pub(super) async fn start(root: &Path, partitions: u32) -> Result<Self, Box<dyn Error>> {
        let mut servers: Vec<Server> = Vec::new();
        for nth in 1..=3 {
            let name = format!("n{nth}");
            let settings = Settings {
                name: Some(Name::new(&name)?),
                data_dir: root.join(&name),
                listen: Listen { peer: "127.0.0.1:0".into(), http: "127.0.0.1:0".into() },
                ..Settings::default()
            };
            let start = match servers.first() {
                Some(founder) => Start::Join(vec![founder.peer_addr().to_string()]),
                None => Start::Bootstrap,
            };
            let server = Server::start(&settings, start).await?;
            server.ready(&settings).await?;
            servers.push(server);
        }
        let founder = &servers[0];
        let name = Name::new("pinned")?;
        let topic = NewTopic { name: name.clone(), partitions, parent: None };
        founder.service().create_topic(topic).await?;
        let leader = founder.handle().clone();
        let count = partitions as usize;
        let until = Instant::now() + PATIENCE;
        let topic = loop {
            let name = name.clone();
            let look = move |node: &narad_core::node::Node| {
                let state = node.state();
                let topic = state.topic_named(name.as_str()).map(|topic| topic.id);
                let settled = state.unassigned().next().is_none()
                    && state.targeted().next().is_none()
                    && state.configuration().voters.len() == 3
                    && node.leader() == Some(node.identity().node);
                topic.filter(|_| settled)
            };
            if let Some(topic) = leader.query(look).await? {
                break topic;
            }
            if Instant::now() > until {
                return Err("three nodes do not become one cluster".into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let pin = |index| (PartitionId { topic, index }, AtomicBool::new(false));
        let pins = (0..partitions).map(pin).collect::<Vec<_>>();
        assert_eq!(pins.len(), count);
        Ok(Self { servers, leader, pins })
    }

    /// Changes one pin.
    pub(super) async fn change(&self, nth: usize) -> Result<(), Box<dyn Error>> {
        let (partition, pinned) = &self.pins[nth];
        let on = !pinned.fetch_xor(true, Ordering::Relaxed);
        self.leader.ask(Ask::Pin { partition: *partition, on }).await?;
        Ok(())
    }

    /// Asks for a read barrier.
    pub(super) async fn barrier(&self) -> Result<(), Box<dyn Error>> {
        self.leader.ask(Ask::Barrier).await?;
        Ok(())
    }

    /// Changes so many pins at once, over and again; returns how many changes there are in a second.
    pub(super) async fn rate(&self, depth: u32, time: Duration) -> Result<f64, Box<dyn Error>> {
        let began = Instant::now();
        let each = (0..depth as usize).map(|nth| async move {
            let mut changes = 0_u32;
            while began.elapsed() < time {
                self.change(nth).await?;
                changes += 1;
            }
            Ok::<u32, Box<dyn Error>>(changes)
        });
        let changes = futures_util::future::try_join_all(each).await?;
        let all: u32 = changes.into_iter().sum();
        Ok(f64::from(all) / began.elapsed().as_secs_f64())
    }

    pub(super) async fn stop(self) {
        for server in self.servers {
            // Whatever they end with, the directory goes.
            drop(server.shutdown().await);
        }
    }
}
