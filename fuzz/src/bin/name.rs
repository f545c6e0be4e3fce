//! A name is taken whole or refused, and what is taken is safe in a path, a URL and on a terminal.
#![cfg_attr(fuzzing, no_main)]

use narad_core::ids::{Name, NameError};

narad_fuzz::target!("name", |input| {
    let Ok(text) = str::from_utf8(input) else { return };
    match Name::new(text) {
        Ok(name) => {
            assert_eq!(name.as_str(), text, "a name is kept as it was given");
            assert_eq!(name.to_string(), text, "a name is shown as it was given");
            assert!((1..=Name::LENGTH_MAX).contains(&text.len()));
            assert!(!text.starts_with('.'), "a hidden file, or a way out of a folder");
            assert!(text.bytes().all(|b| b.is_ascii_graphic() && !br#"/\:%?#"'`$*"#.contains(&b)));
        }
        Err(NameError::Empty) => assert!(text.is_empty()),
        Err(NameError::TooLong { length }) => {
            assert_eq!(length, text.len());
            assert!(length > Name::LENGTH_MAX);
        }
        Err(NameError::Character { found }) => assert!(text.contains(found)),
    }
});
