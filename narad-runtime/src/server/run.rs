//! A node as a process: started, told to stop by a signal, ended with a code that says why.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::{Server, ServerError, Start, notify};
use crate::cli::{ExitCode, Failure};
use crate::raft::{RaftError, StoreError as RaftStoreError};
use crate::replica::ReplicaError;
use crate::settings::Settings;
use crate::store::StoreError;

/// Runs a node until it is told to stop by SIGTERM or SIGINT, or cannot go on. At SIGHUP it takes over
/// what has changed in what `reread` returns; see [`Server::reload`].
///
/// # Errors
///
/// If it cannot start or go on, with the exit code that says why.
pub async fn run(
    settings: Settings,
    start: Start,
    reread: impl Fn() -> Result<Settings, Failure>,
) -> Result<(), Failure> {
    let no_signals = |error: io::Error| {
        Failure::new(ExitCode::Failure, format!("no signals can be received: {error}"))
    };
    raise_file_limit();
    let mut terminated = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(no_signals)?;
    // From here on the signal ends nothing.
    let mut hung_up = signal(SignalKind::hangup()).map_err(no_signals)?;
    let starting = Server::start(&settings, start);
    let mut server = tokio::select! {
        started = starting => started?,
        _ = terminated.recv() => return Ok(()),
        _ = interrupted.recv() => {
            let message = "interrupted before the node had started; nothing runs";
            return Err(Failure::new(ExitCode::Interrupted, message));
        }
    };
    tracing::info!(
        name = settings.name.as_ref().map(ToString::to_string), id = ?server.node(), peer = %server.peer_addr(), http = %server.http_addr(),
        "listening"
    );
    notify::ready();
    let mut current = settings;
    let mut takes_part = false;
    let ended = loop {
        let next = tokio::select! {
            next = next(&mut server, &current, takes_part) => next,
            _ = terminated.recv() => break None,
            _ = interrupted.recv() => break None,
            _ = hung_up.recv() => Next::Reread,
        };
        match next {
            Next::TakesPart => {
                tracing::info!("the node takes part in the cluster");
                takes_part = true;
            }
            Next::Ended(ended) => break Some(ended),
            Next::Reread => match reread() {
                Ok(changed) => {
                    server.reload(&current, &changed).await;
                    current = changed;
                }
                Err(Failure { message, .. }) => {
                    tracing::error!(error = message, "the configuration stays as it is");
                }
            },
        }
    };
    notify::stopping();
    if let Some(ended) = ended {
        return Ok(ended?);
    }
    tracing::info!("stopping");
    Ok(server.shutdown().await?)
}

/// What a running node has to be looked at for.
enum Next {
    TakesPart,
    Ended(Result<(), ServerError>),
    Reread,
}

/// Waits until the node takes part in the cluster; from then on until it ends. Nothing is lost if this
/// is dropped and asked again.
async fn next(server: &mut Server, settings: &Settings, takes_part: bool) -> Next {
    if takes_part {
        return Next::Ended(server.ended().await);
    }
    match server.ready(settings).await {
        Ok(()) => Next::TakesPart,
        // The node ended before it took part: it says why itself.
        Err(ServerError::Stopped(_)) => Next::Ended(server.ended().await),
        Err(error) => {
            server.handle().stop();
            Next::Ended(Err(error))
        }
    }
}

/// Takes as many open files as the system gives: each partition and each connection has some.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, ..limit };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::info!(files = ?limit.maximum, "open files"),
        Err(error) => tracing::warn!(files = ?limit.current, %error, "no more open files"),
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        let message = error.to_string();
        match error {
            ServerError::Nameless
            | ServerError::Config(_)
            | ServerError::Settings(_)
            | ServerError::Tls(_)
            | ServerError::Failpoint(_)
            | ServerError::JoinsItself { .. }
            | ServerError::New => Self::new(ExitCode::Usage, message),
            ServerError::PolicyDiffers { .. } => Self::new(ExitCode::Usage, message).with_hint(
                "the node is a member all the same: start it again with the cluster's policy, or \
                 decommission it, since its vote counts while it is away",
            ),
            ServerError::Raft(RaftError::Storage(source))
            | ServerError::Replica(ReplicaError::Raft(RaftError::Storage(source))) => {
                raft_store_failure(&source, message)
            }
            ServerError::Store(error) => store_failure(&error, message),
            ServerError::RaftStore { source, .. } => raft_store_failure(&source, message),
            ServerError::Ingress { source } => {
                let (code, hint) = if source.is_full() {
                    (ExitCode::DiskFull, "free space, then start the node again")
                } else {
                    (
                        ExitCode::DataDirectory,
                        "what it held was acknowledged: restore the whole data directory, or \
                         remove the node from its cluster and join again with an empty one",
                    )
                };
                Failure::new(code, message).with_hint(hint)
            }
            ServerError::NoIncarnation { .. } | ServerError::NoIngress { .. } => {
                Self::new(ExitCode::DataDirectory, message)
            }
            ServerError::Listen { .. } => Self::new(ExitCode::Usage, message).with_hint(
                "set listen.peer and listen.http in the file, or --listen-peer and \
                    --listen-http",
            ),
            ServerError::Audit { source } if source.kind() == io::ErrorKind::StorageFull => {
                Self::new(ExitCode::DiskFull, message)
            }
            ServerError::Audit { .. } => Self::new(ExitCode::DataDirectory, message),
            ServerError::NameTaken { .. } => Self::new(ExitCode::Refused, message),
            ServerError::NotAdmitted { .. } => Self::new(ExitCode::Unavailable, message)
                .with_hint("--join takes the peer address of a running node, not its HTTP address"),
            ServerError::Raft(_)
            | ServerError::Replica(_)
            | ServerError::Stopped(_)
            | ServerError::Thread(_) => Self::new(ExitCode::Failure, message),
        }
    }
}

fn raft_store_failure(error: &RaftStoreError, message: String) -> Failure {
    match error {
        RaftStoreError::AlreadyOpen { .. } => Failure::new(ExitCode::DataDirectory, message)
            .with_hint("is another process running on this data directory?"),
        RaftStoreError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            Failure::new(ExitCode::DiskFull, message)
                .with_hint("free space, then start the node again")
        }
        RaftStoreError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Failure::new(ExitCode::DataDirectory, message).with_hint(
                "the file was lost: restore the whole data directory, or remove the node from its \
                 cluster and join again with an empty one",
            )
        }
        RaftStoreError::Io { .. } => Failure::new(ExitCode::Failure, message),
        RaftStoreError::AlreadyExists { .. }
        | RaftStoreError::Foreign { .. }
        | RaftStoreError::Format { .. }
        | RaftStoreError::Corrupt { .. } => Failure::new(ExitCode::DataDirectory, message),
    }
}

fn store_failure(error: &StoreError, message: String) -> Failure {
    match error {
        StoreError::Locked { .. }
        | StoreError::NoIdentity { .. }
        | StoreError::NoPartitions { .. }
        | StoreError::ForeignIdentity { .. }
        | StoreError::OtherNode { .. }
        | StoreError::OtherFilesystem { .. }
        | StoreError::Format { .. } => Failure::new(ExitCode::DataDirectory, message),
        error if error.is_full() => Failure::new(ExitCode::DiskFull, message),
        StoreError::Disk(_) => Failure::new(ExitCode::DataDirectory, message)
            .with_hint("look at the data directory: who owns it, and whether it can be written"),
        _ => Failure::new(ExitCode::Failure, message),
    }
}
