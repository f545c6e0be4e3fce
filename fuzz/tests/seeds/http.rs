//! Seeds of requests, of answers, and of configurations that are read again.

use narad_core::cursor::Handle;
use narad_core::ids::{Delivery, Epoch, Offset, TopicId};
use narad_runtime::http::batch::{self, encode_records};
use narad_runtime::service::{Record, Ticket};
use narad_runtime::settings::commented_default;

use crate::{Seed, sequence};

pub(crate) fn seeds() -> Vec<Seed> {
    [requests(), answers(), reloads()].concat()
}

const JSON: &str = "application/json";

fn ask(name: &'static str, head: &str, kind: &str, body: impl AsRef<[u8]>) -> Seed {
    ("http", name, [head.as_bytes(), b" ", kind.as_bytes(), b"\n", body.as_ref()].concat())
}

fn requests() -> Vec<Seed> {
    let record = Record { key: Some("k".into()), value: "v".into(), ..Record::default() };
    let batch = encode_records(&[record.clone(), record]);
    let header = r#"{"name":"n","value":"v"}"#;
    let records = format!(
        r#"{{"messages":[{{"key":"k","value":"v","headers":[{header}]}},{{"value_base64":"AAE="}}]}}"#
    );
    let messages = "/v1/topics/t/messages";
    let read = format!("GET {messages}?partition=0&from=7&epoch=1&max_bytes=9&wait_ms=5");
    let consume = format!("GET {messages}?max=5&wait=1s&visibility=30s&partition=2");
    let own = format!("POST {messages}?partition=0&ack=owner");
    let by_key = format!("POST {messages}?key=a%ff");
    let produce = vec![
        ask("accept_json", &format!("POST {messages}?partition=1"), JSON, records),
        ask("accept_batch", &by_key, batch::CONTENT_TYPE, batch),
        ask("produce_one", &own, "text/plain", "v"),
        ask("read", &read, JSON, ""),
        ask("consume", &consume, JSON, ""),
    ];
    [produce, acknowledgements(), operators()].concat()
}

fn acknowledgements() -> Vec<Seed> {
    let handle = Handle { epoch: Epoch(1), offset: Offset(4), delivery: Delivery(1) };
    let ticket = Ticket { topic: TopicId(1), partition: 0, handle };
    let body = |rest: &str| format!(r#"{{"handles":["{ticket}"]{rest}}}"#);
    let offsets = r#"{"epoch":1,"up_to":4,"offsets":[6]}"#;
    let damaged = r#"{"epoch":1,"from":4,"to":6}"#;
    vec![
        ask("ack_handles", "POST /v1/topics/t/ack", JSON, body("")),
        ask("ack_offsets", "POST /v1/topics/t/ack?partition=0", JSON, offsets),
        ask("nack", "POST /v1/topics/t/nack", JSON, body(r#","delay":"5s""#)),
        ask("extend", "POST /v1/topics/t/extend", JSON, body(r#","visibility":"5s""#)),
        ask("skip", "POST /v1/topics/t/skip?partition=0", JSON, damaged),
    ]
}

fn operators() -> Vec<Seed> {
    let json = |name, head: &str, body: &str| ask(name, head, JSON, body);
    let one = "/v1/cluster/members/n1";
    let rate = r#"{"copy_rate_bytes_per_second":1}"#;
    let loss = r#"{"topic":"orders","partition":0,"receipt":"r"}"#;
    let moved = r#"{"topic":"orders","partition":0,"to":"n2"}"#;
    vec![
        json("create_topic", "POST /v1/topics", r#"{"name":"orders","partitions":8}"#),
        json("move", "POST /v1/cluster/moves", moved),
        json("abort", "DELETE /v1/cluster/moves/orders/0?pin=true&force=false", ""),
        json("policy", "PATCH /v1/cluster/policy", r#"{"paused":true,"lease_ms":9000}"#),
        json("throttle", &format!("PUT {one}/throttle"), rate),
        json("forget", &format!("POST {one}/forget"), r#"{"receipt":"ticket 7"}"#),
        json("leave", "POST /v1/cluster/decommissions", r#"{"members":["n1","n2"]}"#),
        json("preflight", "GET /v1/cluster/preflight?members=n1,n2", ""),
        json("loss", "POST /v1/cluster/losses", loss),
        json("stale", "GET /v1/topics?stale=true", ""),
    ]
}

fn answers() -> Vec<Seed> {
    // The number of the type, as the target counts them.
    let of = |name, kind: u8, body: &str| ("answers", name, [&[kind], body.as_bytes()].concat());
    let fetched = r#"{"topic":"t","partition":0,"messages":[{"offset":4,"value":"v"}],"next":5,"#;
    let fetched = format!(r#"{fetched}"start":0,"hwm":5,"epoch":1,"committed":null}}"#);
    let error = r#"{"error":"e","code":"blocked","retryable":false,"reasons":["r"]}"#;
    vec![
        of("error", 0, error),
        of("fetched", 1, &fetched),
        of("settled", 5, r#"{"results":[{"code":"acked"}]}"#),
        of("policy_change", 17, r#"{"paused":true,"lease_ms":9000}"#),
    ]
}

fn reloads() -> Vec<Seed> {
    let every = commented_default().replace("\n# ", "\n");
    let turned = "[policy]\nlease = \"12s\"\n[logging]\nfilter = \"debug\"\n\
        [http]\nconnections_max = 9\n";
    let two = |before: &str, after: &str| sequence([before.as_bytes(), after.as_bytes()]);
    vec![
        ("reload", "nothing_but_words", two(&every, "")),
        ("reload", "one_of_each_effect", two("", turned)),
        ("reload", "back", two(turned, "[policy]\nlease = \"10s\"\n")),
    ]
}
