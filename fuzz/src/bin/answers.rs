//! The JSON that a client is answered with is understood and keeps its meaning, or is refused.
#![cfg_attr(fuzzing, no_main)]

use std::fmt::Debug;

use narad_runtime::http::ErrorBody;
use narad_runtime::http::json::{FetchedBody, HandedBody, HandlesBody, OffsetsBody, SettledBody};
use narad_runtime::service::{
    AcceptedView, ClusterView, DrainView, ExplainView, HistoryView, MemberView, MoveView, NewLoss,
    NewTopic, NodeView, PlanView, PolicyChange, PolicyView, PreflightView, ReceiptView, Route,
    SalvageView, Skip, Skipped, StopView, Ticket, TopicView,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Calls the property for the type that a number stands for.
macro_rules! one_of {
    ($kind:expr, $body:expr, $($shown:ty),+ $(,)?) => {{
        let properties = [$(come_back::<$shown> as fn(&[u8])),+];
        properties[usize::from($kind) % properties.len()]($body);
    }};
}

narad_fuzz::target!("answers", |input| {
    let Some((&kind, body)) = input.split_first() else { return };
    one_of!(
        kind,
        body,
        ErrorBody,
        FetchedBody,
        HandedBody,
        HandlesBody,
        OffsetsBody,
        SettledBody,
        AcceptedView,
        ClusterView,
        DrainView,
        ExplainView,
        HistoryView,
        MemberView,
        MoveView,
        NewLoss,
        NewTopic,
        NodeView,
        PlanView,
        PolicyChange,
        PolicyView,
        PreflightView,
        ReceiptView,
        Route,
        SalvageView,
        Skip,
        Skipped,
        StopView,
        Ticket,
        TopicView,
    );
});

fn come_back<T: DeserializeOwned + Serialize + PartialEq + Debug>(body: &[u8]) {
    if let Ok(value) = serde_json::from_slice::<T>(body) {
        let written = serde_json::to_vec(&value).expect("it came from JSON");
        let again = serde_json::from_slice::<T>(&written);
        assert_eq!(again.ok().as_ref(), Some(&value), "it keeps its meaning");
    }
}
