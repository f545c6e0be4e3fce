//! The command without a process.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use clap::Parser;
use narad_sim::cli::{Cli, ExitCode, Terminal, run};
use serde_json::Value;

use crate::fake::Lab;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text")
    }
}

/// A pipe that nobody reads any more.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a command came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: ExitCode,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The lines of the output, each a JSON document.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).expect("a JSON document on each line");
        self.out.lines().map(parse).collect()
    }

    pub(crate) fn last(&self) -> Value {
        self.json().pop().expect("at least one line")
    }
}

/// Runs a command line in an ordinary laboratory.
pub(crate) fn sim(line: &[&str]) -> Ran {
    sim_in(&Lab::default(), "", line)
}

/// Runs a command line; `typed` is what somebody types, if anybody does.
pub(crate) fn sim_in(lab: &Lab, typed: &str, line: &[&str]) -> Ran {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut terminal = Terminal {
        input: Box::new(Cursor::new(typed.as_bytes().to_vec())),
        out: Box::new(out.clone()),
        err: Box::new(anstream::StripStream::new(Box::new(err.clone()) as Box<dyn Write + Send>)),
        in_is_terminal: !typed.is_empty(),
        out_is_terminal: false,
        err_is_terminal: false,
        width: 100,
        interrupt: lab.interrupt.clone(),
    };
    let cli = Cli::try_parse_from(["narad-sim"].iter().chain(line)).expect("a command line");
    let code = run(cli, lab, &mut terminal);
    Ran { code, out: out.text(), err: err.text() }
}

/// Runs a command line whose output nobody reads to its end.
pub(crate) fn sim_into_a_closed_pipe(line: &[&str]) -> (ExitCode, String) {
    let err = Buffer::default();
    let mut terminal = Terminal {
        input: Box::new(std::io::empty()),
        out: Box::new(Closed),
        err: Box::new(err.clone()),
        in_is_terminal: false,
        out_is_terminal: false,
        err_is_terminal: false,
        width: 100,
        interrupt: Arc::default(),
    };
    let cli = Cli::try_parse_from(["narad-sim"].iter().chain(line)).expect("a command line");
    (run(cli, &Lab::default(), &mut terminal), err.text())
}

/// A file in a folder that goes away after the test.
pub(crate) fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("a temporary folder takes files");
    path.to_str().expect("a plain path").to_owned()
}

pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

pub(crate) fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().expect("a plain path").to_owned()
}

/// All files below a folder, with what is in them.
pub(crate) fn tree(dir: &str) -> Vec<(String, String)> {
    fn walk(root: &Path, dir: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                found.push((name, std::fs::read_to_string(&path).expect("text")));
            }
        }
    }
    let mut found = Vec::new();
    walk(Path::new(dir), Path::new(dir), &mut found);
    found.sort();
    found
}
