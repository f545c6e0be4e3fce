//! `narad sub`, where something is in its way.

use super::*;

/// An address at which nobody is.
const NOBODY: &str = "127.0.0.1:1";

/// Whoever stops waiting is told which partitions may have more; an owner that is dead is not "no node".
#[tokio::test]
async fn a_partition_out_of_reach_is_no_end() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a", "b"]);
    cluster.change(|state| drop(state.addrs.insert("b".into(), NOBODY.into())));
    cluster.partition("orders", 0, |row| row.records.push(record("x")));
    for line in [
        &["sub", "orders", "--wait", "300ms"][..],
        &["sub", "orders", "--wait", "300ms", "--from-beginning"],
        &["sub", "orders", "--wait", "300ms", "--partition", "1"],
    ] {
        let ran = piped(&node, "", line).await;
        assert_eq!(ran.code, ExitCode::Unavailable, "{line:?}: {}", ran.err);
        assert!(ran.err.contains("no answer about partition 1: its owner, "), "{}", ran.err);
        assert!(ran.err.contains(NOBODY) && !ran.err.contains("no node"), "{}", ran.err);
        let expected = if line.contains(&"1") { "" } else { "x\n" };
        assert_eq!(ran.out, expected, "{line:?}");
    }
    assert_eq!(cluster.partition("orders", 0, |row| row.committed), Some(1));
    // Once it is there again, it is an end.
    cluster.partition("orders", 1, |row| row.owner = "a".into());
    let ran = piped(&node, "", &["sub", "orders", "--wait", "20ms"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (ExitCode::Success, ""));
}

#[tokio::test]
async fn one_partition_is_read_from_where_it_is_acknowledged() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a", "a"]);
    cluster.partition("orders", 1, |row| {
        row.records = ["1", "2"].map(record).into();
        row.committed = Some(1);
    });
    for more in [&[][..], &["--no-ack"]] {
        let line = [&["sub", "orders", "--partition", "1"], more].concat();
        let ran = piped(&node, "", &line).await;
        assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Success, "2\n"), "{line:?}");
    }
    assert_eq!(cluster.partition("orders", 1, |row| row.committed), Some(1), "only read");
}

/// Waiting for a record that was asked for has an end of its own; following has not.
#[tokio::test]
async fn an_interrupt_before_the_end_is_told_by_the_exit_code() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records.push(record("x")));
    let interrupt = CancellationToken::new();
    let setting = Setting { interrupt: interrupt.clone(), ..Setting::default() };
    let line = ["--admin", &node.addr, "sub", "orders", "--wait", "100s"];
    let waiting = narad_in(setting, &line);
    let acknowledged = async {
        cluster.until(|state| state.topics["orders"].1[0].committed == Some(1)).await;
        interrupt.cancel();
    };
    let (ran, ()) = tokio::join!(waiting, acknowledged);
    assert_eq!((ran.code, ran.out.as_str()), (ExitCode::Interrupted, "x\n"));
    assert_eq!(cluster.partition("orders", 0, |row| row.cursor().in_flight()), 0);
}

/// Deletes the topic as soon as something is printed.
struct Deletes(Arc<Cluster>);

impl Write for Deletes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.change(|state| drop(state.topics.remove("orders")));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn records_of_a_deleted_topic_are_not_said_to_come_again() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.partition("orders", 0, |row| row.records.push(record("x")));
    let err = Buffer::default();
    let mut terminal = Terminal {
        input: Box::new(std::io::empty()),
        out: Box::new(Deletes(Arc::clone(&cluster))),
        err: Box::new(err.clone()),
        in_is_terminal: false,
        out_is_terminal: false,
        err_is_terminal: false,
        width: 80,
        interrupt: CancellationToken::new(),
    };
    let cli = Cli::try_parse_from(["narad", "--admin", &node.addr, "sub", "orders"]);
    let code = run(cli.expect("a command line"), &mut terminal).await;
    assert_eq!(code, ExitCode::NotFound);
    let err = err.text();
    assert!(err.contains("there is no topic") && !err.contains("again"), "{err}");
}
