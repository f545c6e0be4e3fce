//! What has changed between two configurations is told completely, and a policy that is changed by it
//! is the second one.
//!
//! An input is two files, each with its length in two bytes.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use narad_runtime::service::PolicyChange;
use narad_runtime::settings::{Effect, Layers, Settings, changes};

narad_fuzz::target!("reload", |input| {
    let mut files = narad_fuzz::messages(input).map(settings);
    let (Some(Some(before)), Some(Some(after))) = (files.next(), files.next()) else { return };
    assert_eq!(changes(&before, &before), []);
    let changed = changes(&before, &after);
    let back = changes(&after, &before);
    assert_eq!(changed.len(), back.len());
    for (one, other) in changed.iter().zip(&back) {
        assert_eq!((one.key, &one.before, &one.after), (other.key, &other.after, &other.before));
        assert_eq!(one.effect, Effect::of(one.key));
    }
    if changed.is_empty() {
        assert_eq!(before, after, "what differs is told");
    }
    let policy = PolicyChange::between(&before.policy, &after.policy);
    let turned = changed.iter().any(|change| change.effect == Effect::Cluster);
    assert_eq!(policy.is_empty(), !turned, "the cluster is asked for what the file has changed");
    assert_eq!(policy.apply(&before.policy), after.policy);
});

fn settings(text: &[u8]) -> Option<Settings> {
    let text = str::from_utf8(text).ok()?;
    let read = Layers::default().with_text(Path::new("narad.toml"), text);
    read.and_then(|layers| layers.settings()).ok()
}
