//! A cluster on one machine that shows what Narad promises.
//!
//! Three whole nodes run in this process, with their own directories, Raft and sockets. Producers
//! and a consumer use them over HTTP without a pause, while
//!
//! 1. the cluster is founded and a topic created,
//! 2. a node joins and gets its share,
//! 3. a node is decommissioned,
//! 4. a node dies while partitions move away from it,
//! 5. it returns,
//! 6. the rest of the records is produced, and everything is counted.
//!
//! Every record has a number. It counts as delivered when it has come back with the bytes that it
//! was produced with; see [`Summary`] for what is counted besides.

mod acts;
mod content;
mod error;
mod home;
mod input;
mod kill;
mod ledger;
mod nodes;
mod pace;
mod residue;
mod screen;
mod summary;
mod traffic;
mod watch;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use error::DemoError;
pub use summary::{FreezeMs, Moves, Summary};

use crate::cli::{DemoOptions, ExitCode, Failure};
use crate::client::{Client, ClientOptions, Endpoint};
use acts::{Outcome, PARTITIONS, Stage};
use content::{Content, Feed};
use home::Home;
use ledger::Ledger;
use nodes::Nodes;
use pace::Pace;
use screen::Screen;
use traffic::Traffic;
use watch::Watch;

/// Runs the demonstration, shows how it comes on, and prints what it comes to. SIGINT and SIGTERM
/// end it in good order.
///
/// # Errors
///
/// [`ExitCode::PromiseBroken`] if a record was lost, skipped, altered or served by two owners;
/// [`ExitCode::Interrupted`]; others if the nodes cannot be run.
pub async fn run(options: DemoOptions) -> Result<(), Failure> {
    let summary = play(&options, interrupted()).await?;
    let text = if options.json {
        let json = serde_json::to_string(&summary);
        json.map_err(|error| DemoError::Internal(error.to_string()))? + "\n"
    } else {
        summary.for_people()
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let message = format!("the output cannot be written: {error}");
            return Err(Failure::new(ExitCode::Failure, message));
        }
        Ok(()) | Err(_) => {}
    }
    if summary.is_kept() {
        return Ok(());
    }
    let message = format!(
        "a promise was not kept: {} records lost, {} skipped, {} altered, {} reigns with two owners",
        summary.lost,
        summary.skipped,
        summary.altered,
        summary.two_owners.len()
    );
    Err(Failure::new(ExitCode::PromiseBroken, message)
        .with_hint("run it again with --keep --log info and look at what the nodes did"))
}

/// Plays the demonstration until it is over or interrupted, and returns what it comes to. Nothing
/// of it runs on afterwards, and nothing is left on the disk unless that was asked for.
///
/// # Errors
///
/// See [`DemoError`]. A promise that was not kept is in the summary.
pub async fn play(
    options: &DemoOptions,
    interrupt: impl Future<Output = ()>,
) -> Result<Summary, DemoError> {
    let begun = Instant::now();
    let home = Home::open(options)?;
    let mut interrupt = std::pin::pin!(interrupt);
    let chosen = {
        let options = options.clone();
        blocking(move || Content::choose(&options))
    };
    let content = tokio::select! {
        content = chosen => content?,
        () = &mut interrupt => return Err(DemoError::Interrupted),
    };
    home.check_room(content.records(), content.bytes())?;
    let screen = Screen::new(content.records());
    let nodes = Arc::new(Nodes::new(home.path(), options.seed));
    let played = tokio::select! {
        played = rehearse(options, &content, &nodes, &screen) => played,
        () = &mut interrupt => Err(DemoError::Interrupted),
    };
    screen.end();
    nodes.stop_all().await;
    if home.stays() {
        screen.say(&format!("the data stays in {}", home.path().display()));
    }
    let removed = blocking(move || {
        drop(home);
        Ok(())
    });
    removed.await?;
    let elapsed_ms = summary::millis(begun.elapsed());
    played.map(|summary| Summary { elapsed_ms, ..summary })
}

/// Everything from the first node to the last word.
async fn rehearse(
    options: &DemoOptions,
    content: &Content,
    nodes: &Arc<Nodes>,
    screen: &Screen,
) -> Result<Summary, DemoError> {
    screen.say(&nodes::changed_times());
    let http = acts::found(nodes, screen).await?;
    let seeds: Result<Vec<Endpoint>, _> = http.iter().map(|addr| addr.parse()).collect();
    let seeds = seeds.map_err(|error| DemoError::Internal(error.to_string()))?;
    let client = Client::new(seeds, ClientOptions::default());
    acts::create_topic(nodes, &client).await?;

    let ledger = Arc::new(Ledger::new(content.clone()));
    let pace = Pace::new(content.records(), options.rate, acts::expected());
    let feed = Feed::begin(content.clone());
    let mut traffic = Traffic::begin(&client, PARTITIONS, feed, pace, &ledger);
    let controls = traffic.controls();
    let stage = Stage {
        nodes,
        client: &client,
        controls: controls.clone(),
        screen,
        content,
        seed: options.seed,
    };
    let watch = Watch::default();
    let played = async {
        let acts = async {
            acts::warm_up(&ledger, content.records(), screen).await;
            stage.play().await
        };
        let outcome = tokio::select! {
            outcome = acts => outcome?,
            error = traffic.failed() => return Err(error),
        };
        controls.pace.all_over();
        screen.act(6, "the rest is produced, and everything is counted");
        tokio::select! {
            produced = traffic.produced() => produced?,
            error = stalled(&ledger, nodes) => return Err(error),
        }
        drain(&ledger).await;
        Ok(outcome)
    };
    let outcome = tokio::select! {
        outcome = played => outcome?,
        () = watch.run(nodes, &ledger, screen) => return Err(DemoError::NobodyLeft),
    };
    drop(traffic);
    let mut summary = verify(content, &client, &ledger, &outcome).await?;
    summary.count(&nodes.counters());
    summary.bytes_per_second = watch.bytes_per_second();
    summary.voters = nodes.view().await?.voter_names();
    Ok(summary)
}

/// Waits until nothing has been acknowledged or delivered for a long time.
async fn stalled(ledger: &Ledger, nodes: &Nodes) -> DemoError {
    const PATIENCE: Duration = Duration::from_mins(1);
    while ledger.quiet_for() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let evidence = nodes.waiting().await;
    let what = "an acknowledged record".to_owned();
    DemoError::Stalled { what, waited: PATIENCE, evidence }
}

/// Waits until everything that was acknowledged has been delivered, or nothing more is.
async fn drain(ledger: &Ledger) {
    const PATIENCE: Duration = Duration::from_secs(20);
    while !ledger.missing(1).is_empty() && ledger.quiet_for() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Compares what came back with what was acknowledged, and with the files.
async fn verify(
    content: &Content,
    client: &Client,
    ledger: &Ledger,
    outcome: &Outcome,
) -> Result<Summary, DemoError> {
    let account = ledger.account();
    let missing: BTreeSet<u64> = ledger.missing(usize::MAX).into_iter().collect();
    let mut there = BTreeSet::new();
    if !missing.is_empty() {
        let each = |record: &crate::service::Record| {
            let number = content.recognise(record).map(|seen| seen.number);
            there.extend(number.filter(|number| missing.contains(number)));
        };
        traffic::read_all(client, each).await?;
    }
    let skipped = missing.intersection(&there).count() as u64;
    let old = |number: &&u64| outcome.left_behind.contains(number) && !there.contains(number);
    let on_old_disk = missing.iter().filter(old).count() as u64;
    let lost = missing.len() as u64 - skipped - on_old_disk;

    let reread = content.clone();
    let digest = blocking(move || reread.digest()).await?;
    let mut altered = account.altered;
    if missing.is_empty() && altered == 0 && digest.is_some_and(|digest| digest != account.digest) {
        if let Some(path) = content.changed() {
            return Err(DemoError::InputChanged(path.to_owned()));
        }
        altered = 1;
    }
    Ok(Summary {
        acked: account.acked,
        consumed: account.consumed,
        lost,
        skipped,
        on_old_disk,
        altered,
        duplicates: account.duplicates,
        two_owners: account.two_owners,
        decommissioned: outcome.decommissioned.clone(),
        killed: outcome.killed.clone(),
        promoted: outcome.promoted.clone(),
        waited: outcome.waited.clone(),
        longest_silence_ms: summary::millis(account.longest_silence),
        reigns: account.reigns,
        files: content.files(),
        ..Summary::default()
    })
}

/// Runs something that waits for a disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DemoError> + Send + 'static,
) -> Result<T, DemoError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| DemoError::Internal(error.to_string()))?
}

/// Waits for SIGINT or SIGTERM; for ever if no signals can be received.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => drop(terminated.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        Ok(()) = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
