//! Publishing lines.
//!
//! A thread reads lines, a budget of bytes bounds how many of them are not acknowledged yet, and each
//! partition has at most one batch under way, so that lines of one key stay in order. Lines that
//! come one by one leave one by one; lines that come faster gather while batches are under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use clap::Args;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::patience::Patience;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global, open};
use crate::client::{Ack, Delivered, Placement, Producer, ProducerOptions, SendError};
use crate::service::{Record, partition_of};

/// Publishing lines.
#[derive(Debug, Args)]
pub struct PubArgs {
    /// The topic
    topic: String,
    /// Read a file instead of standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// What separates a line's key from its value; without it there are no keys
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// Publish to this partition only
    #[arg(long, value_name = "N")]
    partition: Option<u32>,
    /// Whose word to wait for: any node's, which accepts a line and brings it to its partition, or the
    /// partition's owner's
    #[arg(long, value_enum, default_value_t)]
    ack: AckBy,
}

/// Whose word is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AckBy {
    /// Any node's
    #[default]
    Accepted,
    /// The owner's
    Owner,
}

impl From<AckBy> for Ack {
    fn from(by: AckBy) -> Self {
        match by {
            AckBy::Accepted => Self::Accepted,
            AckBy::Owner => Self::Owner,
        }
    }
}

/// Longest line. Nodes usually take less.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Bytes of lines that may be read and not acknowledged.
const UNACKNOWLEDGED_BYTES_MAX: u32 = 64 << 20;
/// What a line counts at least, so that many short ones are bounded too.
const LINE_BYTES_COUNTED_MIN: usize = 256;
/// A batch is closed when it has so many bytes or lines.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_LINES: usize = 1000;
/// Batches without a partition that may be under way.
const UNBOUND_MAX: usize = 8;

/// One line that is not acknowledged.
struct Line {
    number: u64,
    record: Record,
    _room: OwnedSemaphorePermit,
}

/// Lines that leave in order, one batch at a time: those of one partition; or those of none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Partition(u32),
    Unbound,
}

/// What has become of all lines.
#[derive(Default)]
struct Outcome {
    acknowledged: u64,
    unacknowledged: u64,
    failed: Option<(u64, Failure)>,
    /// Who acknowledged, as `host:port`.
    nodes: BTreeSet<String>,
}

pub(super) async fn run(
    args: PubArgs,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let format = global.format(terminal);
    let input = open(args.input, terminal)?;
    let options = ProducerOptions { ack: args.ack.into(), ..ProducerOptions::default() };
    let producer = global.client()?.producer(&args.topic, options);
    // Whether the topic is there is known before the first line is asked for.
    let partitions = tokio::select! {
        partitions = producer.partitions() => partitions?,
        () = terminal.interrupt.cancelled() => return Err(Failure::interrupted()),
    };
    let publisher = Publisher {
        producer: Arc::new(producer),
        pinned: args.partition,
        partitions,
        waiting: BTreeMap::new(),
        under_way: JoinSet::new(),
        busy: BTreeMap::new(),
        outcome: Outcome::default(),
        progress: progress(terminal),
    };
    let begun = Instant::now();
    let (publisher, ended) = publisher.publish(input, args.key_separator, &mut *terminal).await;
    publisher.progress.finish_and_clear();
    let Publisher { producer, outcome, .. } = publisher;
    let totals = producer.totals();
    let summary = match format {
        Format::Json => json!({
            "topic": args.topic,
            "acknowledged": outcome.acknowledged,
            "unacknowledged": outcome.unacknowledged,
            "nodes": outcome.nodes,
            "retries": totals.retries,
            "reroutes": totals.reroutes,
            "unknown_outcomes": totals.unknown_outcomes,
        })
        .to_string(),
        Format::Table | Format::Wide => format!(
            "{} acknowledged by {} in {:.1} s, {}, {}, {} not acknowledged",
            outcome.acknowledged,
            args.topic,
            begun.elapsed().as_secs_f64(),
            super::count(outcome.nodes.len() as u64, "node", "nodes"),
            super::count(totals.retries, "retry", "retries"),
            outcome.unacknowledged,
        ),
    };
    let printed = terminal.print(&summary);
    let acknowledged = outcome.acknowledged;
    let in_part = |failure: Failure| if acknowledged > 0 { failure.in_part() } else { failure };
    if let Some((line, failure)) = outcome.failed {
        let acknowledged = super::count(acknowledged, "line is", "lines are");
        let message = format!("line {line}: {} ({acknowledged} acknowledged)", failure.message);
        return Err(in_part(Failure { message, ..failure }));
    }
    // Whether all was published matters more than whether anybody wants to know.
    ended.map_err(in_part).and(printed)
}

fn progress(terminal: &Terminal) -> ProgressBar {
    let target = if terminal.err_is_terminal {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    ProgressBar::with_draw_target(None, target).with_style(
        indicatif::ProgressStyle::with_template("{human_pos} acknowledged, {rate}/s")
            .expect("the template is a constant that a test draws")
            .with_key("rate", |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // Nobody can do anything with a part of a line. A terminal that is gone is no matter.
                let _ = write!(out, "{}", HumanCount(whole(state.per_sec())));
            }),
    )
}

fn whole(rate: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float saturates, and a rate is not negative"
    )]
    let whole = rate.round() as u64;
    whole
}

struct Publisher {
    producer: Arc<Producer>,
    pinned: Option<u32>,
    partitions: u32,
    waiting: BTreeMap<Track, VecDeque<Line>>,
    under_way: JoinSet<(Track, Vec<Line>, Result<Delivered, SendError>)>,
    busy: BTreeMap<Track, usize>,
    outcome: Outcome,
    progress: ProgressBar,
}

impl Publisher {
    /// Publishes until the input ends or somebody interrupts, and then what was read by then; or
    /// until a line is refused, and then only what is under way.
    async fn publish(
        mut self,
        input: Box<dyn BufRead + Send>,
        key_separator: Option<String>,
        terminal: &mut Terminal,
    ) -> (Self, Result<(), Failure>) {
        const RECEIVE_MAX: usize = 1000;
        let mut lines = read_lines(input, key_separator);
        let mut patience = Patience::default();
        let mut look = tokio::time::interval(Patience::LOOK_EVERY);
        let interrupt = terminal.interrupt.clone();
        let mut ended = None;
        let mut received = Vec::new();
        loop {
            if self.outcome.failed.is_some() {
                self.give_up_waiting();
            }
            self.launch();
            if self.under_way.is_empty() && (ended.is_some() || self.outcome.failed.is_some()) {
                let ended = ended.unwrap_or(Ok(()));
                return (self, ended);
            }
            let reading = ended.is_none() && self.outcome.failed.is_none();
            tokio::select! {
                count = lines.recv_many(&mut received, RECEIVE_MAX), if reading => {
                    if count == 0 {
                        ended = Some(Ok(()));
                    }
                    for line in received.drain(..) {
                        match line {
                            Ok(line) => self.admit(line),
                            Err(failure) => ended = Some(Err(failure)),
                        }
                    }
                }
                Some(done) = self.under_way.join_next(), if !self.under_way.is_empty() => {
                    let (track, lines, result) = done.expect("a delivery neither panics nor is aborted");
                    self.settle(track, &lines, result);
                }
                _ = look.tick(), if !self.under_way.is_empty() => {
                    let waiting = self.producer.waiting();
                    self.progress.suspend(|| patience.tell(&waiting, terminal));
                }
                () = interrupt.cancelled(), if reading => {
                    ended = Some(Err(Failure::interrupted()));
                }
            }
        }
    }

    fn admit(&mut self, line: Line) {
        let track = match (self.pinned, &line.record.key) {
            (Some(partition), _) => Track::Partition(partition),
            (None, Some(key)) => Track::Partition(partition_of(key, self.partitions)),
            (None, None) => Track::Unbound,
        };
        self.waiting.entry(track).or_default().push_back(line);
    }

    /// Sends what may leave.
    fn launch(&mut self) {
        let tracks: Vec<Track> = self.waiting.keys().copied().collect();
        for track in tracks {
            let most = if track == Track::Unbound { UNBOUND_MAX } else { 1 };
            while self.busy.get(&track).is_none_or(|&busy| busy < most) {
                let Some(batch) = self.next_batch(track) else { break };
                *self.busy.entry(track).or_default() += 1;
                let placement = match (track, self.pinned) {
                    (Track::Unbound, _) => Placement::Any,
                    (Track::Partition(partition), Some(_)) => Placement::Pinned(partition),
                    (Track::Partition(partition), None) => Placement::Prefer(partition),
                };
                let producer = self.producer.clone();
                self.under_way.spawn(async move {
                    let records: Vec<Record> =
                        batch.iter().map(|line| line.record.clone()).collect();
                    let result = producer.send(placement, &records).await;
                    (track, batch, result)
                });
            }
        }
    }

    fn next_batch(&mut self, track: Track) -> Option<Vec<Line>> {
        let waiting = self.waiting.get_mut(&track)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(line) = waiting.front() {
            bytes += line.record.payload_bytes();
            // A line that is longer than any batch goes alone.
            if !batch.is_empty() && (bytes > BATCH_BYTES || batch.len() == BATCH_LINES) {
                break;
            }
            batch.extend(waiting.pop_front());
        }
        if waiting.is_empty() {
            self.waiting.remove(&track);
        }
        Some(batch).filter(|batch| !batch.is_empty())
    }

    fn settle(&mut self, track: Track, lines: &[Line], result: Result<Delivered, SendError>) {
        if let Some(busy) = self.busy.get_mut(&track) {
            *busy -= 1;
        }
        let count = lines.len() as u64;
        match result {
            Ok(delivered) => {
                self.outcome.acknowledged += count;
                self.outcome.nodes.insert(delivered.endpoint.to_string());
                self.progress.inc(count);
            }
            Err(error) => {
                self.outcome.unacknowledged += count;
                let first = lines.first().map_or(0, |line| line.number);
                let known = self.outcome.failed.as_ref();
                if known.is_none_or(|(number, _)| *number > first) {
                    self.outcome.failed = Some((first, error.into()));
                }
            }
        }
    }

    /// Leaves what has not left yet, and counts it.
    fn give_up_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.outcome.unacknowledged +=
            waiting.values().map(|lines| lines.len() as u64).sum::<u64>();
    }
}

/// Reads lines in a thread of its own, as far ahead as the budget allows.
fn read_lines(
    mut input: Box<dyn BufRead + Send>,
    key_separator: Option<String>,
) -> mpsc::Receiver<Result<Line, Failure>> {
    const CHANNEL_LINES: usize = 1024;
    let (sender, receiver) = mpsc::channel(CHANNEL_LINES);
    let budget = Arc::new(Semaphore::new(UNACKNOWLEDGED_BYTES_MAX as usize));
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || {
        for number in 1.. {
            let line = match read_line(&mut input, number) {
                Ok(Some(text)) => record(number, text, key_separator.as_deref()),
                Ok(None) => return,
                Err(failure) => Err(failure),
            };
            let ended = line.is_err();
            let line = line.map(|record| {
                let bytes = record.payload_bytes().max(LINE_BYTES_COUNTED_MIN);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(UNACKNOWLEDGED_BYTES_MAX);
                let room = runtime.block_on(budget.clone().acquire_many_owned(bytes));
                let room = room.expect("the semaphore is never closed");
                Line { number, record, _room: room }
            });
            if sender.blocking_send(line).is_err() || ended {
                return;
            }
        }
    });
    receiver
}

/// Reads one line without its end; no more than may be a line is held.
fn read_line(input: &mut Box<dyn BufRead + Send>, number: u64) -> Result<Option<Vec<u8>>, Failure> {
    let mut text = Vec::new();
    let read = input.take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text);
    if let Err(error) = read {
        let message = format!("line {number} cannot be read: {error}");
        return Err(Failure::new(ExitCode::Failure, message));
    }
    if text.is_empty() {
        return Ok(None);
    }
    if text.last() == Some(&b'\n') {
        text.pop();
    } else if text.len() as u64 > LINE_BYTES_MAX {
        let message = format!("line {number} is longer than {} MiB", LINE_BYTES_MAX >> 20);
        return Err(Failure::new(ExitCode::Usage, message));
    }
    Ok(Some(text))
}

fn record(number: u64, text: Vec<u8>, key_separator: Option<&str>) -> Result<Record, Failure> {
    let text = Bytes::from(text);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let bare = Record { timestamp_ms, ..Record::default() };
    let Some(separator) = key_separator.map(str::as_bytes) else {
        return Ok(Record { value: text, ..bare });
    };
    match text.windows(separator.len()).position(|window| window == separator) {
        Some(at) => Ok(Record {
            key: Some(text.slice(..at)),
            value: text.slice(at + separator.len()..),
            ..bare
        }),
        None => Err(Failure::new(ExitCode::Usage, format!("line {number} has no key separator"))
            .with_hint("lines before it are published; give the separator that the input has")),
    }
}
