//! The admin and data API of one node.
//!
//! | method and path | answer |
//! |---|---|
//! | `GET /v1/cluster/members` | `{members: [..]}`, see [`MemberView`](crate::service::MemberView) |
//! | `GET /v1/cluster/moves` | `{moves: [..]}`, see [`MoveView`](crate::service::MoveView) |
//! | `POST /v1/cluster/moves` | takes `{topic, partition, to}`; 204 |
//! | `POST`, `DELETE /v1/cluster/members/{id}/decommission` | 204 |
//! | `GET` of the same | how it is coming on, see [`DrainView`](crate::service::DrainView) |
//! | `POST /v1/cluster/decommissions` | takes `{members: [..]}`, all of them or none |
//! | `GET /v1/cluster/preflight?members=` | what that would mean, see [`PreflightView`](crate::service::PreflightView) |
//! | `POST /v1/cluster/members/{id}/forget` | takes `{receipt}`; 204 |
//! | `GET /v1/cluster/members/{id}/safe-to-stop?for_good=` | see [`StopView`](crate::service::StopView) |
//! | `PUT`, `DELETE /v1/cluster/members/{id}/throttle` | takes `{copy_rate_bytes_per_second}`; 204 |
//! | `DELETE /v1/cluster/moves/{topic}/{partition}?pin=&force=` | gives a move up; 204 |
//! | `GET /v1/cluster/moves/{topic}/{partition}/journal` | what its last move was told, for `narad-sim replay` |
//! | `GET /v1/cluster/status` | one page, see [`ClusterView`](crate::service::ClusterView) |
//! | `GET`, `PATCH /v1/cluster/policy` | see [`PolicyView`](crate::service::PolicyView) |
//! | `GET /v1/cluster/plan` | see [`PlanView`](crate::service::PlanView) |
//! | `GET /v1/cluster/history` | see [`HistoryView`](crate::service::HistoryView) |
//! | `GET /v1/node` | this node alone, see [`NodeView`](crate::service::NodeView) |
//! | `GET /v1/node/audit?limit=` | what admins asked of it, see [`AuditView`](crate::service::AuditView) |
//! | `GET /v1/topics/{topic}/partitions/{partition}` | why it is there, see [`ExplainView`](crate::service::ExplainView) |
//! | `PUT`, `DELETE` the same with `/pin` | 204 |
//! | `POST /v1/topics` | takes `{name, partitions, parent?}`; 201 and the topic |
//! | `GET /v1/topics` | `{topics: [..]}` |
//! | `GET /v1/topics/{topic}` | the topic with its `routes` |
//! | `DELETE /v1/topics/{topic}` | 204 |
//! | `POST /v1/topics/{topic}/messages?partition=&key=` | `{accepted: n}`, see [`messages`] |
//! | the same with `&ack=owner` | `{results: [..]}` |
//! | `GET /v1/topics/{topic}/messages?partition=&max=&max_bytes=&wait=&visibility=` | records to work on, see [`consume`] |
//! | `POST /v1/topics/{topic}/ack`, `…/nack`, `…/extend` | take `{handles, delay?, visibility?}`; `{results: [..]}` |
//! | `GET /v1/topics/{topic}/offsets` | `{partitions: [..]}`, see [`OffsetsView`](crate::service::OffsetsView) |
//! | `GET /v1/topics/{topic}/messages?partition=&from=&epoch=&max_bytes=&wait_ms=` | records, just to read |
//! | `POST /v1/topics/{topic}/ack?partition=` | takes `{epoch, up_to?, offsets?}`; 204 |
//! | `POST /v1/topics/{topic}/skip?partition=` | takes `{epoch, from, to}` of damaged records; `{records, next}` |
//! | `GET /` | a page that shows the cluster, live |
//! | `GET /healthz`, `GET /readyz` | 200, or 503 |
//! | `GET /metrics` | what a Prometheus server scrapes, see [`metrics`](crate::metrics) |
//! | `GET /v1/openapi.json`, `GET /openapi.json` | all of this as an `OpenAPI` document, [`OPENAPI`] |
//!
//! Cluster and topic lists are read behind a barrier, so that they include all that was decided
//! before the question; `?stale=true` asks for what the node knows, which needs no leader.
//!
//! Every error is `{error, code, retryable}` ([`ErrorBody`]): 400, 413, 414 and 431 for what cannot be
//! understood, 401 and 403 for what takes another [`Role`], 404 for what does not exist, 409 with
//! reasons for what is refused, 421 with a `Location` for what another node owns, 503 for what may work
//! in a moment, such as while there is no leader. Fields are added over time, never taken away.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodRouter, delete, get, post, put};
use tokio::sync::Semaphore;

use crate::service::Service;
use access::Gate;

mod access;
mod audit;
pub mod batch;
mod cluster;
pub mod consume;
mod error;
pub mod json;
pub mod messages;
mod openapi;
mod operate;
mod page;
mod query;
mod request;
pub mod role;
mod salvage;
mod seats;
mod secure;
mod serve;
mod skip;
mod spoken;
mod topics;

pub use access::{Access, Hash, Secret, SecretError, Token, least_role, presented};
pub use audit::{Audit, AuditLimits};
pub use error::{DamagedBody, ErrorBody, error_codes};
pub use openapi::OPENAPI;
pub use role::{Peer, Role};
pub use serve::{Connections, serve};

/// What one node takes from its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Longest request body, in bytes. Default 16 MiB.
    pub body_bytes_max: u64,
    /// Longest record: key, value and headers, in bytes. Default 1 MiB.
    pub record_bytes_max: u64,
    /// Most records in one request. Default 10,000.
    pub batch_records_max: u32,
    /// Most bytes that one fetch returns, whatever it asks for. Default 8 MiB.
    pub fetch_bytes_max: u64,
    /// Longest time that a fetch waits for a record, whatever it asks for. Default 30 s.
    pub wait_max: Duration,
    /// How long a request may take, its body included, on top of what it waits. Default 30 s.
    pub request_timeout: Duration,
    /// Bytes of request bodies held at once; more is answered with 503. Default 256 MiB.
    pub bodies_bytes_max: u64,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            body_bytes_max: 16 << 20,
            record_bytes_max: 1 << 20,
            batch_records_max: 10_000,
            fetch_bytes_max: 8 << 20,
            wait_max: Duration::from_secs(30),
            request_timeout: Duration::from_secs(30),
            bodies_bytes_max: 256 << 20,
        }
    }
}

/// Builds the API over a node, for everybody who reaches it. Serve it with [`serve`], or nest it into a
/// router of your own.
///
/// # Panics
///
/// If `options.body_bytes_max` is more than `options.bodies_bytes_max`: no body would be taken.
pub fn router(service: Arc<dyn Service>, options: HttpOptions) -> Router {
    guarded(service, options, Arc::default())
}

/// Builds the same for those whom `access` lets in.
///
/// # Panics
///
/// As [`router`].
pub fn guarded(service: Arc<dyn Service>, options: HttpOptions, access: Arc<Access>) -> Router {
    assert!(
        options.body_bytes_max <= options.bodies_bytes_max,
        "a single body needs to fit into what all bodies may take"
    );
    let body_bytes_max = usize::try_from(options.body_bytes_max).unwrap_or(usize::MAX);
    let bodies = Arc::new(Semaphore::new(request::permits(options.bodies_bytes_max) as usize));
    let api = Arc::new(Api { service, options, turn: AtomicU64::new(0), bodies });
    let routes = routes().into_iter();
    routes
        .fold(Router::new(), |router, (path, methods)| {
            let methods = match query::names(path) {
                Some(names) => {
                    methods.route_layer(middleware::from_fn_with_state(names, query::known))
                }
                None => methods,
            };
            let gate = Gate { path, access: Arc::clone(&access) };
            let methods = methods.route_layer(middleware::from_fn_with_state(gate, access::admit));
            router.route(path, methods)
        })
        .fallback(error::no_such_route)
        .method_not_allowed_fallback(error::method_not_allowed)
        .layer(DefaultBodyLimit::max(body_bytes_max))
        .layer(middleware::from_fn_with_state(api.clone(), request::within_time))
        .layer(middleware::from_fn(error::in_shape))
        .with_state(api)
}

/// Every path with what serves its methods.
fn routes() -> Vec<(&'static str, MethodRouter<Arc<Api>>)> {
    vec![
        ("/", get(page::page)),
        ("/page.css", get(page::style)),
        ("/page.js", get(page::script)),
        ("/healthz", get(cluster::health)),
        ("/metrics", get(cluster::metrics)),
        ("/readyz", get(cluster::readiness)),
        ("/v1/cluster/members", get(cluster::members)),
        (
            "/v1/cluster/members/{id}/decommission",
            get(operate::drain).post(cluster::decommission).delete(cluster::cancel_decommission),
        ),
        ("/v1/cluster/members/{id}/forget", post(operate::forget)),
        ("/v1/cluster/members/{id}/safe-to-stop", get(operate::safe_to_stop)),
        (
            "/v1/cluster/members/{id}/throttle",
            put(operate::throttle).delete(operate::follow_policy),
        ),
        ("/v1/cluster/moves", get(cluster::moves).post(cluster::move_partition)),
        ("/v1/cluster/moves/{topic}/{partition}", delete(operate::abort)),
        ("/v1/cluster/moves/{topic}/{partition}/journal", get(operate::journal)),
        ("/v1/cluster/status", get(operate::status)),
        ("/v1/cluster/preflight", get(operate::preflight)),
        ("/v1/cluster/decommissions", post(operate::decommission_all)),
        ("/v1/cluster/policy", get(operate::policy).patch(operate::change_policy)),
        ("/v1/cluster/plan", get(operate::plan)),
        ("/v1/cluster/history", get(operate::history)),
        ("/v1/node", get(operate::node)),
        ("/v1/node/audit", get(audit::reading::show)),
        ("/v1/cluster/losses", post(salvage::declare_lost)),
        ("/v1/cluster/salvage", get(salvage::list)),
        ("/v1/cluster/salvage/{member}/{id}", delete(salvage::remove)),
        ("/v1/cluster/salvage/{member}/{id}/restore", post(salvage::restore)),
        ("/v1/topics", get(topics::list).post(topics::create)),
        ("/v1/topics/{topic}", get(topics::show).delete(topics::delete)),
        ("/v1/topics/{topic}/partitions/{partition}", get(operate::explain)),
        ("/v1/topics/{topic}/partitions/{partition}/pin", put(operate::pin).delete(operate::unpin)),
        ("/v1/topics/{topic}/messages", get(consume::consume).post(messages::produce)),
        ("/v1/topics/{topic}/ack", post(consume::ack)),
        ("/v1/topics/{topic}/nack", post(consume::nack)),
        ("/v1/topics/{topic}/extend", post(consume::extend)),
        ("/v1/topics/{topic}/offsets", get(consume::offsets)),
        ("/v1/topics/{topic}/skip", post(skip::skip)),
        ("/openapi.json", get(openapi::document)),
        ("/v1/openapi.json", get(openapi::document)),
    ]
}

/// Returns the paths of the API.
pub fn paths() -> impl Iterator<Item = &'static str> {
    routes().into_iter().map(|(path, _)| path)
}

/// What all handlers share.
struct Api {
    service: Arc<dyn Service>,
    options: HttpOptions,
    /// Whose turn it is among a topic's partitions.
    turn: AtomicU64,
    /// Room for request bodies.
    bodies: Arc<Semaphore>,
}
