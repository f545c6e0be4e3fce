//! A configuration file is accepted and then holds together, or the error says in one line what is
//! wrong with it.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use narad_runtime::settings::Layers;

narad_fuzz::target!("settings", |input| {
    let Ok(text) = str::from_utf8(input) else { return };
    let read = Layers::default().with_text(Path::new("narad.toml"), text);
    match read.and_then(|layers| layers.settings()) {
        Ok(settings) => {
            settings.check().expect("what was read was checked");
            settings.node.check(&settings.policy).expect("the core agrees");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
