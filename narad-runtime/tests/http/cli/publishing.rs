//! `narad pub`.

use super::*;

#[tokio::test]
async fn keys_are_split_off_and_keep_their_order() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"; 4]);
    let lines: Vec<String> = (0..500).map(|n| format!("k{}=>{n}\n", n % 7)).collect();
    let ran = piped(&node, &lines.concat(), &["pub", "orders", "--key-separator", "=>"]).await;
    assert_eq!(ran.code, ExitCode::Success, "{}", ran.err);
    let mut found = 0;
    for partition in 0..4 {
        cluster.partition("orders", partition, |row| {
            found += row.records.len();
            for key in 0..7 {
                let key = format!("k{key}");
                let of_key =
                    row.records.iter().filter(|r| r.key.as_deref() == Some(key.as_bytes()));
                let numbers = of_key.map(|r| String::from_utf8_lossy(&r.value).parse::<u32>());
                let numbers: Vec<u32> = numbers.map(|n| n.expect("a number")).collect();
                assert!(numbers.is_sorted(), "{key}: {numbers:?}");
            }
        });
    }
    assert_eq!(found, 500);
    let ran = piped(&node, "k=>1\nbare\n", &["pub", "orders", "--key-separator", "=>"]).await;
    // Something was done by then.
    assert_eq!(ran.code, ExitCode::Failure);
    assert!(ran.err.contains("line 2 has no key separator"), "{}", ran.err);
    let nothing = piped(&node, "bare\nk=>1\n", &["pub", "orders", "--key-separator", "=>"]).await;
    assert_eq!(nothing.code, ExitCode::Usage);
    assert!(ran.out.contains("\"acknowledged\":1"), "{}", ran.out);
    let line = ["sub", "orders", "--key-separator", ":", "--max", "1"];
    assert!(piped(&node, "", &line).await.out.starts_with('k'));
}

#[tokio::test]
async fn a_partial_failure_says_how_many_lines_are_acknowledged() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let line = ["pub", "orders", "--partition", "0"];
    let long = format!("one\n{}\nthree\n", "x".repeat(2 << 20));
    let ran = piped(&node, &long, &line).await;
    assert_eq!(ran.code, ExitCode::Failure);
    assert!(ran.err.starts_with("error: line 2: "), "{}", ran.err);
    assert!(ran.err.contains("(1 line is acknowledged)"), "{}", ran.err);
    assert!(ran.out.contains("\"acknowledged\":1"), "{}", ran.out);
    let ran = piped(&node, "x\n", &["pub", "nothing"]).await;
    assert_eq!(ran.code, ExitCode::NotFound);
    let ran = piped(&node, "x\n", &["pub", "orders", "--partition", "1"]).await;
    assert_eq!(ran.code, ExitCode::NotFound);
    cluster.change(|state| {
        state.faults = [Fault::Refuse(ServiceError::Internal("a fault".into()))].into();
    });
    let ran = narad_in(
        Setting { input: b"x\n".to_vec(), ..Setting::default() },
        &["--admin", &node.addr, "pub", "orders"],
    )
    .await;
    assert_eq!(ran.code, ExitCode::Failure);
    assert!(ran.out.starts_with("0 acknowledged by orders"), "{}", ran.out);
}

#[tokio::test]
async fn a_file_is_published() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("lines");
    std::fs::write(&file, "1\n2\n").expect("written");
    let path = file.to_str().expect("text");
    let ran = piped(&node, "not this", &["pub", "orders", "--input", path]).await;
    assert_eq!(ran.code, ExitCode::Success);
    assert_eq!(cluster.values("orders", 0), ["1", "2"]);
    let ran = piped(&node, "", &["pub", "orders", "--input", &format!("{path}.gone")]).await;
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("cannot be read"), "{}", ran.err);
    let path = dir.path().to_str().expect("text");
    let ran = piped(&node, "", &["pub", "orders", "--input", path]).await;
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(ran.err.contains("is a directory"), "{}", ran.err);
}

#[tokio::test]
async fn an_interrupted_publisher_says_what_is_acknowledged() {
    let cluster = Cluster::new();
    let node = cluster.start("a").await;
    cluster.topic("orders", &["a"]);
    cluster.change(|state| state.gate_shut = true);
    let interrupt = CancellationToken::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut writer = Some(writer);
    writer.as_mut().expect("open").write_all(b"x\n").expect("written");
    let out = Buffer::default();
    let mut terminal = Terminal {
        input: Box::new(std::io::BufReader::new(reader)),
        out: Box::new(out.clone()),
        err: Box::new(Buffer::default()),
        in_is_terminal: false,
        out_is_terminal: false,
        err_is_terminal: false,
        width: 80,
        interrupt: interrupt.clone(),
    };
    let cli = Cli::try_parse_from(["narad", "--admin", &node.addr, "pub", "orders"]);
    let running = run(cli.expect("a command line"), &mut terminal);
    let interrupting = async {
        cluster.until(|state| state.producing == 1).await;
        interrupt.cancel();
        cluster.change(|state| state.gate_shut = false);
    };
    let (code, ()) = tokio::join!(running, interrupting);
    assert_eq!(code, ExitCode::Interrupted);
    assert!(out.text().contains("\"acknowledged\":1"), "{}", out.text());
    // The thread that reads ends with its input.
    drop(writer.take());
}
