//! A node on a socket, and its clients.

use std::time::Duration;

use narad_runtime::client::{Client, ClientOptions, Endpoint};
use tokio::sync::oneshot;

/// A node on a socket.
pub(crate) struct Running {
    pub(crate) addr: String,
    pub(super) stop: Option<oneshot::Sender<()>>,
    pub(super) task: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
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
