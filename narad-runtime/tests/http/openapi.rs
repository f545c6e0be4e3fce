//! The document that describes the API, against the API.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use narad_core::cursor::Refused;
use narad_core::ids::{Delivery, Epoch, Offset};
use narad_runtime::http::{HttpOptions, OPENAPI, error_codes, least_role, paths};
use narad_runtime::service::{ServiceError, Settled};
use serde_json::{Map, Value, json};

use crate::fake::Cluster;
use crate::router::{Reply, ask};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(OPENAPI).expect("the document is JSON"))
}

/// Follows a reference within the document.
fn resolved(mut node: &'static Value) -> &'static Value {
    while let Some(target) = node.get("$ref") {
        let target = target.as_str().expect("a reference is text");
        let place = target.strip_prefix('#').expect("references stay within the document");
        node = document().pointer(place).unwrap_or_else(|| panic!("nothing is at {target}"));
    }
    node
}

fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let path = path.split('?').next().unwrap_or(path);
    let steps = |path: &'static str| path.split('/').map(|step| (step, step.starts_with('{')));
    let fits = |template: &'static str| {
        template.split('/').count() == path.split('/').count()
            && steps(template).zip(path.split('/')).all(|((step, any), found)| any || step == found)
    };
    let paths = document()["paths"].as_object().expect("paths");
    let (_, methods) = paths.iter().find(|(template, _)| fits(template))?;
    methods.get(method.to_ascii_lowercase())
}

/// Checks a request's JSON body, if it was taken, and its answer, against the document.
pub(crate) fn check(method: &str, path: &str, body: Option<&Value>, reply: &Reply) {
    if method == "HEAD" {
        // The same as GET without a body, and described by it.
        return;
    }
    let Some(operation) = operation(method, path) else {
        assert!(matches!(reply.status.as_u16(), 404 | 405), "{method} {path} is not described");
        return;
    };
    let told = format!("{method} {path} {}: {}", reply.status, reply.body);
    let answers = operation["responses"].as_object().expect("responses");
    let answer = answers.get(reply.status.as_str()).unwrap_or_else(|| panic!("status of {told}"));
    let answer = resolved(answer);
    if let Some(schema) = answer.pointer("/content/application~1json/schema") {
        let is_json =
            reply.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        if is_json {
            valid(schema, &reply.body).unwrap_or_else(|why| panic!("{told}: {why}"));
        }
    } else {
        assert_eq!(reply.body, Value::Null, "{told}");
    }
    for header in answer.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let optional = header.0 == "Location";
        assert!(optional || reply.headers.contains_key(header.0), "{} of {told}", header.0);
    }
    if let (Some(body), true) = (body, reply.status.is_success()) {
        let schema = operation.pointer("/requestBody/content/application~1json/schema");
        let schema = schema.unwrap_or_else(|| panic!("the body of {method} {path}"));
        valid(schema, body).unwrap_or_else(|why| panic!("the body of {told}: {body}: {why}"));
    }
}

/// Checks a value against a schema, as far as the document goes; what a schema does not name is not
/// allowed, though clients are told to pass over it.
fn valid(schema: &'static Value, value: &Value) -> Result<(), String> {
    let schema = resolved(schema);
    let rules = schema.as_object().expect("a schema is an object");
    if let Some(choices) = rules.get("oneOf").and_then(Value::as_array) {
        let fitting = choices.iter().filter(|choice| valid(choice, value).is_ok()).count();
        return if fitting == 1 { Ok(()) } else { Err(format!("{fitting} of oneOf fit")) };
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    };
    let kinds: Vec<&str> = match &rules["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => vec![kind.as_str().expect("a type")],
    };
    if !kinds.iter().any(|kind| is(kind)) {
        return Err(format!("{value} is no {kinds:?}"));
    }
    for (rule, wanted) in rules {
        let holds = match rule.as_str() {
            "type" | "description" | "default" | "required" | "additionalProperties" => true,
            "enum" => wanted.as_array().expect("values").contains(value),
            "minimum" => value.as_i64().is_none_or(|n| Some(n) >= wanted.as_i64()),
            "maximum" => value.as_i64().is_none_or(|n| Some(n) <= wanted.as_i64()),
            "minItems" => value.as_array().is_none_or(|all| all.len() as u64 >= number(wanted)),
            "maxItems" => value.as_array().is_none_or(|all| all.len() as u64 <= number(wanted)),
            "maxLength" => value.as_str().is_none_or(|text| text.len() as u64 <= number(wanted)),
            // Of durations only; the API itself says what it takes.
            "pattern" => {
                value.as_str().is_none_or(|text| text.starts_with(|c: char| c.is_ascii_digit()))
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    valid(wanted, item).map_err(|why| format!("[{index}] {why}"))?;
                }
                true
            }
            "properties" => {
                let empty = Map::new();
                properties(schema, value.as_object().unwrap_or(&empty))?;
                true
            }
            other => panic!("the rule {other} is not checked"),
        };
        if !holds {
            return Err(format!("{value} against {rule} {wanted}"));
        }
    }
    Ok(())
}

fn properties(schema: &'static Value, found: &Map<String, Value>) -> Result<(), String> {
    let known = schema["properties"].as_object().expect("properties");
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if !found.contains_key(name) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, value) in found {
        let schema = known.get(name).ok_or_else(|| format!("{name} is not described"))?;
        valid(schema, value).map_err(|why| format!(".{name} {why}"))?;
    }
    Ok(())
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn texts(values: &Value) -> BTreeSet<&str> {
    values.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

#[tokio::test]
async fn the_document_is_served() {
    let router = Cluster::new().router("a", HttpOptions::default());
    let reply = ask(&router, "GET", "/v1/openapi.json", "").await;
    assert_eq!(reply.body, *document());
    assert_eq!(document()["openapi"], "3.1.0");
    assert_eq!(document()["info"]["version"], env!("CARGO_PKG_VERSION"));
}

/// Every route of the router is described, and nothing else is: neither paths nor methods.
#[tokio::test]
async fn every_route_is_described_and_the_other_way_round() {
    let described = document()["paths"].as_object().expect("paths");
    let routes: BTreeSet<&str> = paths().collect();
    assert_eq!(described.keys().map(String::as_str).collect::<BTreeSet<_>>(), routes);
    let router = Cluster::new().router("a", HttpOptions::default());
    let mut operations = BTreeSet::new();
    for (path, methods) in described {
        let methods = methods.as_object().expect("methods");
        let reply = ask(&router, "TRACE", path, "").await;
        let allowed = reply.headers["allow"].to_str().expect("text").to_ascii_lowercase();
        let allowed: BTreeSet<&str> = allowed.split(',').filter(|one| *one != "head").collect();
        assert_eq!(methods.keys().map(String::as_str).collect::<BTreeSet<_>>(), allowed, "{path}");
        for (method, operation) in methods {
            assert!(METHODS.contains(&method.as_str()), "{method}");
            let id = operation["operationId"].as_str().expect("an id");
            assert!(operations.insert(id), "{id} twice");
            let in_path = path.matches('{').count();
            let parameters = operation.get("parameters").and_then(Value::as_array);
            let parameters = parameters.into_iter().flatten().map(resolved);
            let named = parameters.filter(|one| one["in"] == "path").inspect(|one| {
                let name = one["name"].as_str().expect("a name");
                assert!(path.contains(&format!("{{{name}}}")), "{name} of {path}");
            });
            assert_eq!(named.count(), in_path, "{method} {path}");
        }
    }
}

/// Every code that an error can have is named, and no other one.
#[test]
fn every_error_code_is_named() {
    let schemas = &document()["components"]["schemas"];
    let named = texts(&schemas["Error"]["properties"]["code"]["enum"]);
    assert_eq!(named, error_codes().collect());
    let settled = texts(&schemas["SettledOne"]["properties"]["code"]["enum"]);
    let possible: BTreeSet<&str> =
        Settled::CODES.iter().chain(ServiceError::CODES).copied().collect();
    assert_eq!(settled, possible);
    let all = [
        Settled::Acked,
        Settled::AlreadyAcked,
        Settled::Nacked,
        Settled::Extended { visibility: std::time::Duration::ZERO },
        Settled::Refused(Refused::Superseded { by: Delivery(1) }),
        Settled::Refused(Refused::Expired),
        Settled::Refused(Refused::AlreadyAcked),
        Settled::Refused(Refused::OtherEpoch { epoch: Epoch(1) }),
        Settled::Refused(Refused::OutOfRange { hwm: Offset(1) }),
        Settled::Refused(Refused::TooFarAhead { frontier: Offset(1) }),
        Settled::Refused(Refused::TooManyInFlight { max: 1 }),
        Settled::Refused(Refused::Moved),
        Settled::Moved { owner: None },
        Settled::OtherTopic,
    ];
    let codes: BTreeSet<&str> = all.iter().map(Settled::code).collect();
    assert_eq!(codes, Settled::CODES.into_iter().collect());
    for settled in all {
        let is_done = ["acked", "nacked", "extended", "already_acked"].contains(&settled.code());
        assert!(is_done || settled.error().is_some(), "{settled:?}");
        assert!(settled.error().is_some() || !settled.is_retryable(), "{settled:?}");
    }
}

/// All references lead somewhere, every component is used, and everything is described.
#[test]
fn the_document_holds_together() {
    fn walk(node: &'static Value, used: &mut BTreeSet<&'static str>) {
        if node.get("$ref").is_some_and(Value::is_string) {
            resolved(node);
            used.insert(node["$ref"].as_str().expect("text"));
        }
        match node {
            Value::Object(fields) => fields.values().for_each(|field| walk(field, used)),
            Value::Array(items) => items.iter().for_each(|item| walk(item, used)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut used = BTreeSet::new();
    walk(document(), &mut used);
    for (kind, components) in document()["components"].as_object().expect("components") {
        if kind == "securitySchemes" {
            // Operations name them without a reference; see the roles below.
            continue;
        }
        for name in components.as_object().expect("components").keys() {
            // No path takes another method, and that answer needs no description of its own.
            let is_used = used.contains(format!("#/components/{kind}/{name}").as_str());
            assert!(is_used, "{kind}/{name} is not used");
        }
    }
    for methods in document()["paths"].as_object().expect("paths").values() {
        for operation in methods.as_object().expect("methods").values() {
            let summary = operation["summary"].as_str().expect("a summary");
            assert!(summary.ends_with('.'), "{summary}");
            let answers = operation["responses"].as_object().expect("responses");
            assert!(answers.keys().any(|status| status.starts_with('2')), "{summary}");
        }
    }
}

/// What an operation says about roles is what the router goes by.
#[test]
fn every_operation_names_its_least_role() {
    let schemes = document()["components"]["securitySchemes"].as_object().expect("schemes");
    for (path, methods) in document()["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let named = operation.get("security").unwrap_or(&document()["security"]);
            let named: Vec<&Map<String, Value>> =
                named.as_array().expect("a list").iter().filter_map(Value::as_object).collect();
            let method = method.to_ascii_uppercase().parse().expect("a method");
            let least = least_role(path, &method, &"/".parse().expect("a uri"));
            let wanted: Vec<Map<String, Value>> = least.map_or_else(Vec::new, |role| {
                let one =
                    |scheme: &String| Map::from_iter([(scheme.clone(), json!([role.name()]))]);
                schemes.keys().map(one).collect()
            });
            assert_eq!(named, wanted.iter().collect::<Vec<_>>(), "{method} {path}");
            let answers = operation["responses"].as_object().expect("responses");
            for status in ["401", "403"] {
                assert_eq!(answers.contains_key(status), least.is_some(), "{method} {path}");
            }
        }
    }
}

/// The check above can fail.
#[test]
fn what_is_not_as_described_is_found() {
    let error = &document()["components"]["schemas"]["Error"];
    let good = json!({"error": "why", "code": "busy", "retryable": true});
    assert_eq!(valid(error, &good), Ok(()));
    for (field, value) in [
        ("code", json!("tired")),
        ("retryable", json!("yes")),
        ("reasons", json!([1])),
        ("owner", Value::Null),
        ("more", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        assert!(valid(error, &bad).is_err(), "{bad}");
    }
    assert!(valid(error, &json!({"error": "why", "code": "busy"})).is_err());
}
