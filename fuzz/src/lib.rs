//! What every fuzz target shares.
//!
//! A target is one file in `src/bin`, beside a folder `corpus/<target>` of inputs worth keeping:
//!
//! ```text
//! #![cfg_attr(fuzzing, no_main)]
//!
//! narad_fuzz::target!("name", |input| { /* what must hold for any input */ });
//! ```
//!
//! Built with `--cfg fuzzing` it is a libFuzzer binary. Built in any other way it is a program that
//! replays the files and folders that it is given, and `cargo test` replays the committed corpus,
//! so an input that once failed stays a regression test on plain stable Rust.

pub mod forge;
pub mod logs;
pub mod node;

use std::path::{Path, PathBuf};
use std::{fs, io};

#[cfg(fuzzing)]
pub use libfuzzer_sys;

/// Defines a fuzz target: its name, which is also its corpus folder, and its property.
#[macro_export]
macro_rules! target {
    ($name:literal, |$input:ident| $property:block) => {
        fn property($input: &[u8]) $property

        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|input: &[u8]| property(input));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::replay_arguments(property)
        }

        #[cfg(test)]
        #[test]
        fn every_committed_input_holds() {
            let inputs = $crate::corpus($name).expect("the corpus of this target is readable");
            assert!(!inputs.is_empty(), "corpus/{} has no input", $name);
            for input in inputs {
                $crate::replay(&input, property).expect("an input of the corpus is readable");
            }
        }
    };
}

/// Splits an input into the messages of a sequence: each is a length of two bytes, little-endian, and
/// as many bytes as there are of that.
pub fn messages(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (message, after) = after.split_at(length);
        rest = after;
        Some(message)
    })
}

/// Lists the committed inputs of a target, in the order of their names.
///
/// # Errors
///
/// If the folder is missing or unreadable.
pub fn corpus(target: &str) -> io::Result<Vec<PathBuf>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target))
}

/// Runs the property on one file and names the file if the property panics.
///
/// # Errors
///
/// If the file is unreadable.
///
/// # Panics
///
/// If the property does not hold.
pub fn replay(input: &Path, property: fn(&[u8])) -> io::Result<()> {
    let bytes = fs::read(input)?;
    let blame = Blame(input);
    property(&bytes);
    drop(blame);
    Ok(())
}

/// Replays every file, and every file of every folder, that the command line names.
///
/// # Errors
///
/// If one of them is unreadable.
///
/// # Panics
///
/// If the property does not hold for one of them, or if none was given.
#[expect(clippy::print_stdout, reason = "the body of a command-line program")]
pub fn replay_arguments(property: fn(&[u8])) -> io::Result<()> {
    let mut inputs = Vec::new();
    for argument in std::env::args_os().skip(1).map(PathBuf::from) {
        if argument.is_dir() {
            inputs.extend(files(&argument)?);
        } else {
            inputs.push(argument);
        }
    }
    assert!(
        !inputs.is_empty(),
        "name the files or folders to replay; to fuzz, see CONTRIBUTING.md"
    );
    for input in &inputs {
        replay(input, property)?;
    }
    println!("{} inputs hold", inputs.len());
    Ok(())
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// Tells which input was being replayed when a property panicked.
struct Blame<'a>(&'a Path);

impl Drop for Blame<'_> {
    #[expect(clippy::print_stderr, reason = "a panic's message lacks the input's name")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the property does not hold for {}", self.0.display());
        }
    }
}
