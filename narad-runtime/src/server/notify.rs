//! Telling a service manager how the process is doing, where there is one.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Tells whoever started the process that it serves.
pub(super) fn ready() {
    tell("READY=1");
}

/// Tells the same that the process is about to end.
pub(super) fn stopping() {
    tell("STOPPING=1");
}

fn tell(state: &str) {
    // Set by systemd for services that say when they are ready.
    let Some(socket) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(socket.as_bytes(), state) {
        tracing::warn!(%error, state, "the service manager could not be told");
    }
}

fn send(socket: &[u8], state: &str) -> io::Result<()> {
    let address = match socket {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_is_told_by_path_and_by_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("narad-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("short");
        let listeners = [
            (UnixDatagram::bind(&path).expect("bound"), path.as_os_str().as_bytes().to_vec()),
            (UnixDatagram::bind_addr(&address).expect("bound"), format!("@{name}").into_bytes()),
        ];
        for (listener, socket) in listeners {
            send(&socket, "READY=1").expect("sent");
            let mut bytes = [0; 64];
            let length = listener.recv(&mut bytes).expect("received");
            assert_eq!(&bytes[..length], b"READY=1");
        }
        assert!(send(dir.path().join("nobody").as_os_str().as_bytes(), "READY=1").is_err());
    }
}
