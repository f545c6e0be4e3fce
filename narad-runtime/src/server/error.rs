//! Why a node does not run.

use std::io;
use std::path::PathBuf;

use narad_core::config::ConfigError;

use crate::ingress::IngressError;
use crate::node_loop::Stopped;
use crate::node_loop::failpoint::FailpointError;
use crate::raft::{RaftError, StoreError as RaftStoreError};
use crate::replica::ReplicaError;
use crate::settings::SettingsError;
use crate::store::StoreError;
use crate::tls::TlsError;

/// Why a node does not start, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The settings lack the node's name.
    #[error("the node has no name: set `name` in the configuration file, NARAD_NAME or --name")]
    Nameless,
    /// The settings contradict themselves.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The settings would serve other machines without TLS, or name only some of its files.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The certificate files cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// `NARAD_FAILPOINT` holds nonsense.
    #[error(transparent)]
    Failpoint(#[from] FailpointError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The replicated log cannot be used.
    #[error("the replicated log in {}: {source}", path.display())]
    RaftStore {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: RaftStoreError,
    },
    /// The count of its starts is gone, but the node has run before.
    #[error(
        "{} is missing, but the node has run before: restore it, or remove the node from its \
         cluster and join again with an empty data directory",
        path.display()
    )]
    NoIncarnation {
        /// The file.
        path: PathBuf,
    },
    /// The ingress log is gone, but the node has run before.
    #[error(
        "{} is missing, but the node has run before: what it held was acknowledged; restore it, or \
         remove the node from its cluster and join again with an empty data directory",
        path.display()
    )]
    NoIngress {
        /// Its directory.
        path: PathBuf,
    },
    /// The ingress log cannot be used.
    #[error("the ingress log: {source}")]
    Ingress {
        /// What is wrong with it.
        source: IngressError,
    },
    /// The audit log cannot be opened.
    #[error(
        "the audit log cannot be written in the data directory: {source}; see who owns its files, and \
         whether the disk is full"
    )]
    Audit {
        /// Why.
        source: io::Error,
    },
    /// Raft does not start.
    #[error(transparent)]
    Raft(#[from] RaftError),
    /// The replica does not start, or cannot go on.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address or stop who has it")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// A new data directory, and nobody said what to do with it.
    #[error(
        "the data directory is new: found a cluster with --bootstrap, or join one with --join ADDR"
    )]
    New,
    /// The node is to join the cluster that it would be the first member of.
    #[error(
        "--join {address} is this node itself: give the peer address of a member, or --bootstrap"
    )]
    JoinsItself {
        /// The address.
        address: String,
    },
    /// Another member has the node's name.
    #[error(
        "the cluster has another member named {name}, with another data directory: choose another \
         name, or the data directory that belongs to it"
    )]
    NameTaken {
        /// The name.
        name: String,
    },
    /// Nobody could admit this node.
    #[error("not admitted by any of {}: {reason}", addresses.join(", "))]
    NotAdmitted {
        /// Who was asked.
        addresses: Vec<String>,
        /// What the last one said.
        reason: String,
    },
    /// The file's policy is not the cluster's.
    #[error(
        "the policy in the configuration file is not the cluster's ({difference}): remove \
         [policy] from the file, or make them equal"
    )]
    PolicyDiffers {
        /// The first difference.
        difference: String,
    },
    /// The node ended while it was starting.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// No thread could be had.
    #[error("no thread for the node: {0}")]
    Thread(io::Error),
}
