//! A scenario file is read and written back as the same, or the error says what is wrong with it.
#![cfg_attr(fuzzing, no_main)]

use narad_sim::scenario::Scenario;

narad_fuzz::target!("scenario", |input| {
    let Ok(text) = str::from_utf8(input) else { return };
    match Scenario::parse(text, "fuzz.toml") {
        Ok(scenario) => {
            let written = scenario.to_toml();
            let again = Scenario::parse(&written, "fuzz.toml");
            assert_eq!(again.as_ref(), Ok(&scenario), "{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
