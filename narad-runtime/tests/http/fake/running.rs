//! A node on a socket, and its clients.

use std::time::Duration;

use axum::Router;
use narad_runtime::client::{Client, ClientOptions, Endpoint};
use narad_runtime::http::{Connections, serve};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::Cluster;

/// A node on a socket.
pub(crate) struct Running {
    pub(crate) addr: String,
    stop: Option<oneshot::Sender<()>>,
    task: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Running {
    pub(crate) fn client(&self) -> Client {
        let options = ClientOptions {
            request_timeout: Duration::from_secs(5),
            retry_min: Duration::from_millis(1),
            retry_max: Duration::from_millis(5),
            ..ClientOptions::default()
        };
        self.client_with(options)
    }

    pub(crate) fn client_with(&self, options: ClientOptions) -> Client {
        let endpoint: Endpoint = self.addr.parse().expect("an address");
        Client::new(vec![endpoint], options)
    }

    /// Stops it, and waits until its port is closed.
    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        let task = self.task.take().expect("it runs");
        task.await.expect("no panic").expect("it served");
    }
}

impl Cluster {
    /// An API of one's own on a socket.
    pub(crate) async fn start_router(&self, router: Router) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let addr = listener.local_addr().expect("bound").to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let connections =
            Connections { shutdown_timeout: Duration::from_millis(50), ..Connections::default() };
        let task = tokio::spawn(serve(listener, router, connections, async {
            let _ = stopped.await;
        }));
        Running { addr, stop: Some(stop), task: Some(task) }
    }
}
