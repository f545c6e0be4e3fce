//! The conformance kit of Narad's seams, on this metastore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use narad_core::ids::LogIndex;
use narad_etcd::EtcdMetastore;
use narad_runtime::conformance::{self, MetastoreRig};
use narad_runtime::embed::Metastore;
use tokio::sync::Mutex;

use crate::proxy::Proxy;
use crate::server::Server;
use crate::soon;

/// A server, and a proxy to it for all clients that were made since the last cut.
struct Rig {
    server: Mutex<Server>,
    proxies: Mutex<Vec<Arc<Proxy>>>,
    cluster: AtomicU32,
}

impl Rig {
    async fn start() -> Self {
        let server = Server::start().await;
        let proxies = Mutex::new(vec![Arc::new(Proxy::start(server.port()).await)]);
        Self { server: Mutex::new(server), proxies, cluster: AtomicU32::new(0) }
    }

    fn prefix(&self) -> String {
        format!("kit/{}", self.cluster.load(Ordering::Relaxed))
    }

    async fn newest_proxy(&self) -> Arc<Proxy> {
        let proxies = self.proxies.lock().await;
        Arc::clone(proxies.last().expect("there is always one"))
    }
}

#[async_trait]
impl MetastoreRig for Rig {
    async fn fresh(&self) {
        self.cluster.fetch_add(1, Ordering::Relaxed);
    }

    async fn client(&self) -> Arc<dyn Metastore> {
        let builder = EtcdMetastore::builder([self.newest_proxy().await.endpoint()])
            .prefix(self.prefix())
            .request_timeout(Duration::from_millis(500))
            .patience(Duration::from_secs(3));
        Arc::new(builder.connect().await.unwrap())
    }

    async fn restart(&self) -> bool {
        let mut server = self.server.lock().await;
        server.kill();
        server.restart().await;
        true
    }

    async fn cut_off(&self, on: bool) -> bool {
        let (proxy, port) = (self.newest_proxy().await, self.server.lock().await.port());
        let mut proxies = self.proxies.lock().await;
        if on {
            proxy.cut();
            proxies.push(Arc::new(Proxy::start(port).await));
        } else {
            for proxy in &*proxies {
                proxy.heal();
            }
        }
        true
    }

    async fn lose_next_answer(&self) -> bool {
        let witness = {
            let server = self.server.lock().await;
            server.builder(&self.prefix()).connect().await.unwrap()
        };
        let before = witness.head().await.unwrap();
        let proxy = self.newest_proxy().await;
        proxy.mute();
        tokio::spawn(async move {
            // There is contact again once the record is decided.
            witness.watch(before).await.next().await;
            assert!(witness.head().await.unwrap() > LogIndex(0));
            proxy.heal();
        });
        true
    }
}

/// The kit finds nothing, and has looked at everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_conformance_kit_finds_nothing() {
    let rig = Rig::start().await;
    let report = soon("the kit", conformance::metastore(&rig)).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(report.skipped, Vec::<&str>::new());
    assert!(report.checks > 50, "{report:?}");
}
