//! What moves and what has just moved, in a table and while somebody watches.

use super::*;

/// R92: the verdict is in the table, with its time; who can help in the wide one.
#[tokio::test]
async fn moves_have_verdicts() {
    let (cluster, node) = cluster().await;
    cluster.change(|state| state.moves = moving());
    let line = ["cluster", "moves", "-o", "wide"];
    let wide = prints(&node, &line, &["MOVE", "TRIES"]).await;
    let squeezed: String = wide.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(squeezed.contains("2 s"), "{wide}");
    let out = prints(&node, &["cluster", "moves"], &["BLOCKED:"]).await;
    assert!(out.contains("LEFT") && !out.contains("TRIES"), "{out}");
}

/// R26: what a freeze was said to last and how long it lasted is shown beside what still moves, as long
/// as it is news.
#[tokio::test]
async fn moves_that_have_just_ended_show_their_freeze() {
    let (cluster, node) = cluster().await;
    cluster.change(|state| {
        state.moves = moving();
        state.shown.history = past();
    });
    let out = prints(&node, &["cluster", "moves", "-o", "wide"], &["orders/4"]).await;
    assert!(!out.contains("moved"), "it was long ago: {out}");
    let now = narad_runtime::clock::wall_ms();
    cluster.change(|state| state.shown.history.moves[0].ended_ms = now);
    prints(&node, &["cluster", "moves", "-o", "wide"], &["8.2 ms (~9.0 ms)", "ended"]).await;
    let json = narad(&node, &["cluster", "moves", "-o", "json"]).await.out;
    let view: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(view["ended"][0]["frozen_us"], 8_200, "{view}");
    assert_eq!(view["ended"][0]["predicted_us"], 9_000, "{view}");
    assert_eq!(view["moves"].as_array().map(Vec::len), Some(moving().len()), "{view}");
    cluster.change(|state| state.moves.clear());
    let out = prints(&node, &["cluster", "moves", "-o", "wide"], &["moved"]).await;
    assert!(!out.contains("nothing is moving"), "{out}");
}

/// A watch says what changes, and ends well when somebody has seen enough.
#[tokio::test]
async fn a_watch_ends_cleanly() {
    let (cluster, node) = cluster().await;
    cluster.change(|state| {
        state.moves = moving();
        let one = state.moves.iter().find(|one| one.partition == 4).expect("it moves");
        let ended = PastMove { partition: 4, move_id: one.move_id, ..past().moves.remove(0) };
        state.shown.history.moves = vec![ended];
    });
    let interrupt = CancellationToken::new();
    let setting = Setting { interrupt: interrupt.clone(), ..Setting::default() };
    let line = ["--admin", &node.addr, "cluster", "moves", "--watch"];
    let watching = narad_in(setting, &line);
    let changes = async {
        cluster.until(|state| state.barriers >= 1).await;
        cluster.change(|state| drop(state.moves.pop()));
        // One barrier for what moves, one for how the other ended, and the next one after that.
        cluster.until(|state| state.barriers >= 4).await;
        // Its destination hears late that it is over, and says so then.
        cluster.change(|state| {
            let move_id = moving().iter().find(|one| one.partition == 5).expect("it moved").move_id;
            let outcome = MoveEnd::Cancelled;
            let (frozen_us, predicted_us) = (0, None);
            let one = past().moves.remove(0);
            let late = PastMove { partition: 5, move_id, outcome, frozen_us, predicted_us, ..one };
            state.shown.history.moves.push(late);
        });
        let seen = cluster.state().barriers;
        cluster.until(|state| state.barriers >= seen + 4).await;
        cluster.change(|state| state.moves.clear());
        let seen = cluster.state().barriers;
        cluster.until(|state| state.barriers >= seen + 4).await;
        interrupt.cancel();
    };
    let (ran, ()) = tokio::join!(watching, changes);
    assert_eq!((ran.code, ran.err.as_str()), (ExitCode::Success, "nothing is moving\n"));
    for words in [
        "orders/4 [narad-1 to narad-4, catch-up]: progressing: 1.0 MiB of 3.0 MiB",
        "orders/3 [narad-1 to narad-4, planned]: waiting: narad-1 does not answer narad-4",
        "orders/5 [narad-1 to narad-4, planned]: BLOCKED: the disk of narad-4 is full",
        "orders/5: over",
        "orders/5: given up from narad-1 to narad-4 in 3 s",
        "orders/4: moved from narad-1 to narad-4 in 3 s, frozen for 8.2 ms (~9.0 ms)",
    ] {
        // However the terminal's lines are broken.
        let said = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(said.matches(words).count(), 1, "{words}: {}", ran.out);
    }
}
