//! The command: what it prints, where, and what it exits with.

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use clap::{CommandFactory, Parser};
use narad_runtime::cli::{Cli, ExitCode, Terminal, run};
use narad_runtime::http::json::Message;
use narad_runtime::service::{MemberView, ServiceError};
use tokio_util::sync::CancellationToken;

use crate::fake::{Cluster, Fault, Running, member, record};
use crate::golden::{copying, planned};

mod publishing;
mod receiving;

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

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: ExitCode,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) struct Setting {
    pub(crate) input: Vec<u8>,
    pub(crate) on_terminal: bool,
    /// Whether somebody answers what is asked.
    pub(crate) answers: bool,
    pub(crate) interrupt: CancellationToken,
}

impl Default for Setting {
    fn default() -> Self {
        let (input, interrupt) = (Vec::new(), CancellationToken::new());
        Self { input, on_terminal: true, answers: false, interrupt }
    }
}

pub(crate) async fn narad_in(setting: Setting, line: &[&str]) -> Ran {
    let (out, err) = (Buffer::default(), Buffer::default());
    let mut terminal = Terminal {
        input: Box::new(Cursor::new(setting.input)),
        out: Box::new(out.clone()),
        err: Box::new(anstream::StripStream::new(Box::new(err.clone()) as Box<dyn Write + Send>)),
        in_is_terminal: setting.answers,
        out_is_terminal: setting.on_terminal,
        err_is_terminal: false,
        width: 100,
        interrupt: setting.interrupt,
    };
    let cli = Cli::try_parse_from(["narad"].iter().chain(line)).expect("a command line");
    let code = run(cli, &mut terminal).await;
    Ran { code, out: out.text(), err: err.text() }
}

pub(crate) async fn narad(node: &Running, line: &[&str]) -> Ran {
    narad_in(Setting::default(), &[&["--admin", &node.addr], line].concat()).await
}

pub(crate) async fn piped(node: &Running, input: &str, line: &[&str]) -> Ran {
    let setting = Setting { input: input.into(), on_terminal: false, ..Setting::default() };
    narad_in(setting, &[&["--admin", &node.addr], line].concat()).await
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_no_command_line_is_refused() {
    let bad: [&[&str]; 16] = [
        &[],
        &["cluster"],
        &["cluster", "decommission"],
        &["topic", "create", "orders"],
        &["topic", "create", "a/b", "--partitions", "1"],
        &["topic", "create", "orders", "--partitions", "0"],
        &["--admin", "nowhere", "cluster", "members"],
        &["--json", "-o", "table", "cluster", "members"],
        &["demo", "--rate", "fast"],
        &["topic", "offsets"],
        &["sub", "orders", "--from", "here"],
        &["sub", "orders", "--wait", "5"],
        &["sub", "orders", "--visibility", "0s"],
        &["sub", "orders", "--max", "0"],
        &["sub", "orders", "--follow", "--wait", "5s"],
        &["sub", "orders", "--from", "0", "--from-beginning"],
    ];
    for line in bad {
        let error = Cli::try_parse_from(["narad"].iter().chain(line)).expect_err("refused");
        assert_eq!(error.exit_code(), 2, "{line:?}");
    }
    assert!(Cli::try_parse_from(["narad", "demo", "--rate", "500/s", "--keep", "--json"]).is_ok());
}

#[test]
fn the_exit_codes_are_in_the_help() {
    let help = Cli::try_parse_from(["narad", "help", "exit-codes"]).expect_err("help");
    let text = help.to_string();
    for (code, word) in [(0, "acknowledged"), (4, "refused"), (5, "leader"), (7, "directory")] {
        assert!(
            text.lines()
                .any(|line| line.trim().starts_with(&format!("{code} ")) && line.contains(word)),
            "{text}"
        );
    }
}

/// Every command has a page of its own.
#[tokio::test]
async fn the_manual_is_written() {
    let cluster = Cluster::new();
    let node = cluster.start("narad-1").await;
    let dir = tempfile::tempdir().expect("a directory");
    let pages = dir.path().join("man").display().to_string();
    let ran = narad(&node, &["man", &pages]).await;
    assert_eq!(ran.code, ExitCode::Success, "{}", ran.err);
    for page in ["narad.1", "narad-cluster-decommission.1", "narad-cluster-safe-to-stop.1"] {
        let text = std::fs::read_to_string(dir.path().join("man").join(page)).expect(page);
        assert!(text.contains(".TH"), "{page}");
    }
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("written");
    let ran = narad(&node, &["man", &file.display().to_string()]).await;
    assert_eq!(ran.code, ExitCode::Usage);
}

/// R91.
#[tokio::test]
async fn members_are_a_table_for_people_and_json_for_programs() {
    let cluster = Cluster::new();
    let leaving = MemberView { draining: true, outbound_moves: 2, ..member("narad-4", 4) };
    // In the order in which they have joined.
    cluster.change(|state| state.members = vec![leaving, member("narad-1", 1)]);
    let node = cluster.start("narad-1").await;
    let ran = narad(&node, &["cluster", "members"]).await;
    assert_eq!(
        ran.out,
        "ID       STATUS  ROLE    DRAINING  OWNED  IN  OUT  ADDR\n\
         narad-1  alive   leader  no        4      0   0    10.0.0.1:7401\n\
         narad-4  alive   voter   yes       4      0   2    10.0.0.4:7401\n"
    );
    assert_eq!((ran.code, ran.err.as_str()), (ExitCode::Success, ""));
    let ran = piped(&node, "", &["cluster", "members"]).await;
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!(json["members"][0]["id"], "narad-4");
    assert_eq!(ran.out.lines().count(), 1);
    assert!(narad(&node, &["--json", "cluster", "members"]).await.out.starts_with("{\n"));
    assert!(piped(&node, "", &["cluster", "members", "-o", "table"]).await.out.starts_with("ID "));
}

/// R92.
#[tokio::test]
async fn moves_say_how_far_they_are_and_what_they_wait_for() {
    let cluster = Cluster::new();
    let node = cluster.start("narad-1").await;
    assert_eq!(narad(&node, &["cluster", "moves"]).await.out, "nothing is moving\n");
    cluster.change(|state| state.moves = vec![planned(), copying()]);
    let out = narad(&node, &["cluster", "moves"]).await.out;
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("PARTITION  FROM"), "{out}");
    assert!(lines[1].starts_with("orders/3"), "{out}");
    for part in ["narad-1 (dead)", "catch-up", "1.0 MiB", "200 MiB/s", "12 ms"] {
        let words = part.split(' ').all(|word| out.contains(word));
        assert!(words, "{part} in {out}");
    }
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{out}");
}

/// R90, R93, R94.
#[tokio::test]
async fn a_node_is_decommissioned_and_kept() {
    let cluster = Cluster::new();
    cluster.change(|state| state.members = vec![member("narad-4", 4)]);
    let node = cluster.start("narad-1").await;
    let ran = narad(&node, &["cluster", "decommission", "narad-4", "--yes"]).await;
    assert!(ran.out.starts_with("narad-4 is draining"), "{}", ran.out);
    assert!(cluster.state().members[0].draining);
    let ran = narad(&node, &["cluster", "decommission", "narad-4", "--cancel"]).await;
    assert_eq!(ran.out, "narad-4 stays in the cluster\n");
    assert!(!cluster.state().members[0].draining);
    // For programs the command says what the API does.
    let ran = piped(&node, "", &["cluster", "decommission", "narad-4", "--yes"]).await;
    assert_eq!(ran.code, ExitCode::Success);
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!((&json["members"][0], &json["possible"]), (&"narad-4".into(), &true.into()));
}

#[tokio::test]
async fn each_failure_has_its_exit_code_and_a_hint() {
    let cluster = Cluster::new();
    cluster.change(|state| state.members = vec![member("narad-4", 4)]);
    let node = cluster.start("narad-1").await;
    let drain = ["cluster", "decommission", "narad-4", "--yes"];
    let blocked = ServiceError::Blocked(vec!["orders/3 is pinned".into()]);
    let cases = [
        (blocked, ExitCode::Refused, "orders/3 is pinned"),
        (ServiceError::Rejected("it is retired".into()), ExitCode::Refused, "it is retired"),
        (ServiceError::NoLeader, ExitCode::Unavailable, "no leader"),
        (ServiceError::OutcomeUnknown, ExitCode::Unavailable, "not known"),
        (ServiceError::DiskFull, ExitCode::DiskFull, "disk is full"),
    ];
    for (cause, code, words) in cases {
        cluster.change(|state| state.decommission = Some(cause.clone()));
        let ran = narad(&node, &drain).await;
        assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{cause:?}");
        assert!(ran.err.starts_with("error: ") && ran.err.contains(words), "{}", ran.err);
        let rejected = matches!(cause, ServiceError::Rejected(_));
        assert_eq!(ran.err.lines().count(), if rejected { 1 } else { 2 }, "{}", ran.err);
    }
    let ran = narad(&node, &["cluster", "decommission", "narad-9"]).await;
    assert_eq!(ran.code, ExitCode::NotFound);
    assert_eq!(
        ran.err,
        "error: there is no member \"narad-9\"\nhint: narad cluster members lists the members\n"
    );
    let addr = node.addr.clone();
    node.stop().await;
    let ran = narad_in(Setting::default(), &["--admin", &addr, "topic", "list"]).await;
    assert_eq!(ran.code, ExitCode::Unavailable);
    assert!(ran.err.contains(&addr) && ran.err.contains("hint: start a node"), "{}", ran.err);
}

#[tokio::test]
async fn topics_are_created_listed_shown_and_deleted() {
    let cluster = Cluster::new();
    let node = cluster.start("narad-1").await;
    assert_eq!(narad(&node, &["topic", "list"]).await.out, "there are no topics\n");
    let ran = narad(&node, &["topic", "create", "orders", "--partitions", "2"]).await;
    assert_eq!(ran.out, "orders has 2 partitions\n");
    let again = narad(&node, &["topic", "create", "orders", "--partitions", "2"]).await;
    assert_eq!(again.code, ExitCode::Refused);
    let line = ["topic", "create", "bills", "--partitions", "1", "--parent", "orders"];
    assert_eq!(narad(&node, &line).await.out, "bills has 1 partition\n");
    assert_eq!(
        narad(&node, &["topic", "list"]).await.out,
        "NAME    PARTITIONS  PARENT\nbills   1           orders\norders  2           -\n"
    );
    let out = narad(&node, &["topic", "show", "orders"]).await.out;
    assert!(out.contains("orders/1   narad-1  served"), "{out}");
    assert_eq!(
        narad(&node, &["topic", "delete", "orders", "--yes"]).await.out,
        "orders is deleted\n"
    );
    assert_eq!(
        narad(&node, &["topic", "delete", "orders", "--yes"]).await.code,
        ExitCode::NotFound
    );
}

#[tokio::test]
async fn lines_are_published_and_come_back() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    // No end of line at the end, an empty line, and bytes that are no text stay as they are.
    let ran = piped(&node, "one\n\ntwo\r\nthree", &["pub", "orders"]).await;
    assert_eq!(ran.code, ExitCode::Success, "{}", ran.err);
    let summary: serde_json::Value = serde_json::from_str(&ran.out).expect("json");
    assert_eq!((&summary["acknowledged"], &summary["unacknowledged"]), (&4.into(), &0.into()));
    assert_eq!(cluster.values("orders", 0), ["one", "", "two\r", "three"]);
    let ran = piped(&node, "", &["sub", "orders", "--max", "3"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, "one\n\ntwo\r\n"));
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3));
    let ran = piped(&node, "", &["sub", "orders", "--no-ack", "--json"]).await;
    let message: serde_json::Value = serde_json::from_str(&ran.out).expect("one line of json");
    assert_eq!((&message["offset"], &message["value"]), (&3.into(), &"three".into()));
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3));
    let ran = piped(&node, "", &["sub", "orders", "--from-beginning"]).await;
    assert_eq!(ran.out, "one\n\ntwo\r\nthree\n");
    let ran = piped(&node, "", &["sub", "orders", "--from", "2", "--partition", "0"]).await;
    assert_eq!(ran.out, "two\r\nthree\n");
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(3), "only read");
    let ran = piped(&node, "", &["sub", "orders", "--json", "--wait", "20ms"]).await;
    let message: serde_json::Value = serde_json::from_str(&ran.out).expect("one line of json");
    assert_eq!((&message["offset"], &message["delivery"]), (&3.into(), &1.into()));
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(4));
}

/// R51: what comes again is counted, and what was fetched and not printed is left for others.
#[tokio::test]
async fn redeliveries_are_counted_and_the_rest_is_handed_back() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| {
        row.records = ["1", "2", "3"].map(record).into();
        let now = narad_core::time::Instant::ORIGIN;
        let held = row.cursor().reserve(now, 1, std::time::Duration::from_secs(1));
        let handle = held.expect("free").handles().next().expect("one");
        row.cursor().nack(now, handle, std::time::Duration::ZERO).expect("held");
    });
    let ran = piped(&node, "", &["sub", "orders", "--max", "2"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, "1\n2\n"));
    assert!(ran.err.contains("1 of 2 records had been delivered before"), "{}", ran.err);
    let ran = piped(&node, "", &["sub", "orders"]).await;
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("3\n", ""));
}

#[tokio::test]
async fn offsets_are_shown_as_a_table_and_as_json() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a", "a"]);
    cluster.partition("orders", 1, |row| {
        row.records = vec![record("x"); 12];
        row.committed = Some(10);
    });
    let out = narad(&node, &["topic", "offsets", "orders"]).await.out;
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = "PARTITION OWNER START END COMMITTED AHEAD IN-FLIGHT BACKLOG EPOCH";
    assert_eq!(lines[0].join(" "), head);
    assert_eq!(lines[1].join(" "), "orders/0 a 0 0 - 0 0 0 1");
    assert_eq!(lines[2].join(" "), "orders/1 a 0 12 10 0 0 2 1");
    let out = narad(&node, &["topic", "offsets", "orders", "--json"]).await.out;
    let offsets: serde_json::Value = serde_json::from_str(&out).expect("json");
    assert_eq!(offsets["partitions"][1]["backlog"], 2);
    assert_eq!(narad(&node, &["topic", "offsets", "none"]).await.code, ExitCode::NotFound);
}

#[tokio::test]
async fn an_interrupt_ends_following_with_everything_acknowledged() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records.push(record("x")));
    let interrupt = CancellationToken::new();
    let setting = Setting { interrupt: interrupt.clone(), ..Setting::default() };
    let line = ["--admin", &node.addr, "sub", "orders", "--follow"];
    let following = narad_in(setting, &line);
    let acknowledged = async {
        cluster.until(|state| state.topics["orders"].1[0].committed == Some(1)).await;
        interrupt.cancel();
    };
    let (ran, ()) = tokio::join!(following, acknowledged);
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, "x\n"));
}

/// Whoever closed the pipe has seen enough; what it did not see is not acknowledged.
#[tokio::test]
async fn a_closed_pipe_is_an_end_and_no_panic() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records.push(record("x")));
    for line in [&["sub", "orders"][..], &["topic", "list"], &["completions", "bash"]] {
        let err = Buffer::default();
        let mut terminal = Terminal {
            input: Box::new(std::io::empty()),
            out: Box::new(Closed),
            err: Box::new(err.clone()),
            in_is_terminal: false,
            out_is_terminal: false,
            err_is_terminal: false,
            width: 80,
            interrupt: CancellationToken::new(),
        };
        let line = [&["narad", "--admin", &node.addr], line].concat();
        let cli = Cli::try_parse_from(line).expect("a command line");
        let code = run(cli, &mut terminal).await;
        assert_eq!((code, err.text().as_str()), (ExitCode::Success, ""));
    }
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), None);
}

#[tokio::test]
async fn a_configuration_that_is_refused_starts_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("narad.toml");
    std::fs::write(&file, "name = \"n\"\n[policy]\nlaese = \"5s\"\n").expect("written");
    let line = ["server", "--config", file.to_str().expect("text")];
    let ran = narad_in(Setting::default(), &line).await;
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(
        ran.err.contains("unknown key policy.laese; did you mean policy.lease?"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("hint: narad server --print-config"), "{}", ran.err);
    let ran = narad_in(Setting::default(), &["server", "--print-config"]).await;
    assert!(ran.out.contains("# lease = \"10s\""), "{}", ran.out);
}

#[tokio::test]
async fn completions_name_the_commands() {
    let ran = narad_in(Setting::default(), &["completions", "bash"]).await;
    assert!(ran.out.contains("decommission"));
}

/// What a node says cannot steer the terminal.
#[tokio::test]
async fn control_characters_of_a_node_are_shown_harmlessly() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    let error = ServiceError::Rejected("\u{1b}[2Jgone\nerror: fake".into());
    cluster.change(|state| {
        state.members = vec![member("x", 1)];
        state.decommission = Some(error);
    });
    let ran = narad(&node, &["cluster", "decommission", "x", "--yes"]).await;
    assert!(!ran.err.contains('\u{1b}') && ran.err.lines().count() == 1, "{:?}", ran.err);
    // Records are the user's own, and stay as they are.
    let message = Message::new(narad_core::ids::Offset(0), record("\u{1b}"));
    assert_eq!(message.value.as_deref(), Some("\u{1b}"));
}
