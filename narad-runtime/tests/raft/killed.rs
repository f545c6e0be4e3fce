//! A process that is killed while it proposes.

use crate::cluster::{Machine, n};
use narad_core::ids::LogIndex;
use narad_runtime::raft::{Output, Raft, RaftConfig, RaftLogging, RedbStore};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the store to the child; without it the child test has nothing to do.
const STORE: &str = "NARAD_TEST_RAFT_STORE";

/// Opens the store and hands out what it holds once it leads.
fn start(path: &Path) -> (Raft<RedbStore>, Machine) {
    let mut config = RaftConfig::new(n(1), 1);
    config.logging = RaftLogging::Silent;
    config.snapshot_entries = 40;
    config.keep_entries = 4;
    let store = RedbStore::open(path).expect("the one before is gone");
    let (mut raft, restored) = Raft::open(config, store).expect("a sound store");
    let restored = restored.expect("bootstrapped");
    let mut machine = Machine::decode(restored.index, &restored.data, restored.configuration);
    let mut out = Output::default();
    // The empty entry of its own term comes last of what was there before.
    while raft.status().applied < raft.status().last || raft.status().progress.is_empty() {
        raft.tick();
        raft.ready(&mut out).expect("a healthy disk");
        out.committed.iter().for_each(|committed| machine.apply(committed));
    }
    (raft, machine)
}

/// Proposes numbers and prints each one when it is committed, until it is killed.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let (mut raft, mut machine) = start(Path::new(&path));
    let mut next = machine.entries.len() as u64;
    let mut out = Output::default();
    let mut stdout = std::io::stdout().lock();
    loop {
        for _ in 0..3 {
            raft.propose(vec![], next.to_le_bytes().to_vec()).expect("it leads");
            next += 1;
        }
        let before = machine.entries.len();
        raft.ready(&mut out).expect("a healthy disk");
        out.committed.iter().for_each(|committed| machine.apply(committed));
        for number in before..machine.entries.len() {
            writeln!(stdout, "\nacknowledged {number}").expect("the parent reads");
        }
        stdout.flush().expect("the parent reads");
        if out.wants_snapshot {
            raft.offer_snapshot(LogIndex(machine.applied), machine.encode()).expect("asked for");
        }
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_by_kill() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("raft.redb");
    let mut store = RedbStore::create(&path, n(1)).expect("a new file");
    Raft::bootstrap(&mut store, &[n(1)], Machine::default().encode()).expect("empty");
    drop(store);
    let mut acknowledged = 0;
    for round in 0..8_u64 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "killed::child", "--nocapture", "--test-threads=1"])
            .env(STORE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child");
        let goal = acknowledged + 20 + round * 17;
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        while let Some(Ok(line)) = lines.next() {
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged = number.parse::<u64>().expect("a number") + 1;
            }
            if acknowledged >= goal {
                break;
            }
        }
        child.kill().expect("it runs for ever");
        // What it printed before it died counts too; a cut line does not.
        for line in lines.map_while(Result::ok) {
            let number = line.strip_prefix("acknowledged ").and_then(|n| n.parse::<u64>().ok());
            acknowledged = number.map_or(acknowledged, |number| acknowledged.max(number + 1));
        }
        child.wait().expect("killed");
        assert!(acknowledged >= goal, "the child ended by itself in round {round}");
        let (_, machine) = start(&path);
        assert!(machine.entries.len() as u64 >= acknowledged, "lost in round {round}");
        for (number, entry) in (0_u64..).zip(&machine.entries) {
            assert_eq!(entry[..], number.to_le_bytes(), "a hole in round {round}");
        }
    }
}
