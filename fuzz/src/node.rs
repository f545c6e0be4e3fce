//! A node behind the HTTP API that does nothing: it checks that whatever reaches it is within the
//! limits that the API promises to it, and refuses.

use std::time::Duration;

use async_trait::async_trait;
use narad_core::ids::Epoch;
use narad_runtime::http::HttpOptions;
use narad_runtime::service::{
    Abort, Accepted, AcceptedView, AckSet, ClusterView, DrainView, ExplainView, Fetched, Handed,
    HistoryView, MemberView, MoveView, NewLoss, NewTopic, NodeView, OffsetsView, Operate, PlanView,
    PolicyChange, PolicyView, Position, PreflightView, Produced, Read, Readiness, ReceiptView,
    Record, Reserve, Route, SalvageView, Service, ServiceError, Settle, Settled, Skip, Skipped,
    StopView, Ticket, TopicView,
};

/// The limits of the API in front of it: small, so that a fuzzer gets past them.
#[must_use]
pub fn limits() -> HttpOptions {
    HttpOptions {
        body_bytes_max: 4096,
        record_bytes_max: 1024,
        batch_records_max: 16,
        fetch_bytes_max: 8192,
        wait_max: Duration::from_secs(2),
        ..HttpOptions::default()
    }
}

/// The node.
#[derive(Clone, Copy, Debug)]
pub struct Refusing;

fn check(records: &[Record]) {
    let limits = limits();
    assert!(!records.is_empty(), "nobody is asked to take nothing");
    assert!(records.len() <= limits.batch_records_max as usize, "{} records", records.len());
    for record in records {
        let headers = record.headers.iter().map(|(name, value)| name.len() + value.len());
        let key = record.key.as_ref().map_or(0, bytes::Bytes::len);
        let length = key + record.value.len() + headers.sum::<usize>();
        assert!(length as u64 <= limits.record_bytes_max, "a record of {length} bytes");
    }
}

/// Implements a trait with methods that take anything and refuse it.
macro_rules! refusing {
    ($trait:ident { $($name:ident($($argument:ident: $given:ty),*) -> $shown:ty;)* } { $($rest:tt)* }) => {
        #[async_trait]
        impl $trait for Refusing {
            $(async fn $name(&self, $($argument: $given),*) -> Result<$shown, ServiceError> {
                let _ = ($($argument,)*);
                Err(ServiceError::Busy)
            })*
            $($rest)*
        }
    };
}

refusing! {
    Operate {
        status(read: Read) -> ClusterView;
        node() -> NodeView;
        drain(member: &str) -> DrainView;
        preflight(members: &[String]) -> PreflightView;
        decommission_all(members: &[String]) -> PreflightView;
        forget(member: &str, receipt: &str) -> ();
        abort(topic: &str, partition: u32, how: Abort) -> ();
        pin(topic: &str, partition: u32, on: bool) -> ();
        policy(read: Read) -> PolicyView;
        change_policy(change: PolicyChange) -> PolicyView;
        throttle(member: &str, rate: Option<u64>) -> ();
        plan(read: Read) -> PlanView;
        explain(topic: &str, partition: u32) -> ExplainView;
        history(read: Read) -> HistoryView;
        safe_to_stop(member: &str, for_good: bool) -> StopView;
    } {}
}

refusing! {
    Service {
        members(read: Read) -> Vec<MemberView>;
        moves(read: Read) -> Vec<MoveView>;
        decommission(member: &str, on: bool) -> ();
        create_topic(topic: NewTopic) -> TopicView;
        delete_topic(topic: &str) -> ();
        topics(read: Read) -> Vec<TopicView>;
        routes(topic: &str) -> Vec<Route>;
        move_partition(topic: &str, partition: u32, to: &str) -> ();
        declare_lost(loss: NewLoss) -> ReceiptView;
        salvage(read: Read) -> SalvageView;
        restore(member: &str, id: &str) -> AcceptedView;
        drop_quarantined(member: &str, id: &str) -> ();
        skip(topic: &str, partition: u32, skip: Skip) -> Skipped;
        offsets(topic: &str, read: Read) -> Vec<OffsetsView>;
    } {
        async fn readiness(&self) -> Readiness {
            Readiness::default()
        }

        async fn accept(
            &self,
            _: &str,
            _: Option<u32>,
            records: Vec<Record>,
        ) -> Result<Accepted, ServiceError> {
            check(&records);
            Err(ServiceError::DiskFull)
        }

        async fn produce(
            &self,
            _: &str,
            _: u32,
            records: Vec<Record>,
        ) -> Result<Produced, ServiceError> {
            check(&records);
            Err(ServiceError::Frozen)
        }

        async fn fetch(
            &self,
            _: &str,
            _: u32,
            _: Position,
            bytes_max: u64,
            wait: Duration,
        ) -> Result<Fetched, ServiceError> {
            assert!((1..=limits().fetch_bytes_max).contains(&bytes_max));
            assert!(wait <= limits().wait_max);
            Err(ServiceError::NotServing)
        }

        async fn ack(
            &self,
            _: &str,
            _: u32,
            _: Epoch,
            acks: AckSet,
        ) -> Result<(), ServiceError> {
            assert!(acks != AckSet::default() && acks.offsets.len() <= AckSet::OFFSETS_MAX);
            Ok(())
        }

        async fn reserve(&self, _: &str, wanted: Reserve) -> Result<Handed, ServiceError> {
            assert!((1..=Reserve::RECORDS_MAX).contains(&wanted.records_max));
            assert!((1..=limits().fetch_bytes_max).contains(&wanted.bytes_max));
            assert!(wanted.wait <= limits().wait_max && !wanted.visibility.is_zero());
            Err(ServiceError::NoLease)
        }

        async fn settle(
            &self,
            _: &str,
            tickets: Vec<Ticket>,
            how: Settle,
        ) -> Result<Vec<Settled>, ServiceError> {
            assert!((1..=Settle::TICKETS_MAX).contains(&tickets.len()));
            assert!(!matches!(how, Settle::Extend { visibility } if visibility.is_zero()));
            Ok(tickets.iter().map(|_| Settled::Acked).collect())
        }
    }
}
