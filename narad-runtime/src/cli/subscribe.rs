//! Receiving records.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use narad_core::ids::{Delivery as Count, Offset};

use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global};
use crate::client::{Client, ConsumerOptions, Delivery, ReaderOptions, StartAt};
use crate::http::json::Message;
use crate::service::{HandedRecord, Record};
use crate::units::parse_duration;

/// Receiving records.
///
/// Prints each record's value on a line of its own, or, with --json, each record as JSON, and
/// acknowledges it once it is printed. Several subscribers share the records of a topic: while one has
/// a record, no other one gets it, unless it is not acknowledged in time. With --no-ack or --from
/// records are only read, and nothing changes for anybody.
#[derive(Debug, Args)]
pub struct SubArgs {
    /// The topic
    topic: String,
    /// End after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// End once no record has come for so long, instead of where the topic ends
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "follow")]
    wait: Option<Duration>,
    /// Wait for further records instead of ending where the topic ends
    #[arg(long, short)]
    follow: bool,
    /// How long nobody else gets a record that was received and not printed yet
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    visibility: Duration,
    /// Only read, from the acknowledged position on
    #[arg(long)]
    no_ack: bool,
    /// Only read, from here on: beginning, committed, or an offset
    #[arg(long, value_name = "PLACE", value_parser = place)]
    from: Option<StartAt>,
    /// The same as --from beginning
    #[arg(long, conflicts_with = "from")]
    from_beginning: bool,
    /// Only read, of one partition
    #[arg(long, value_name = "N", requires = "from")]
    partition: Option<u32>,
    /// Print each record's key, then this text, then its value
    #[arg(long, value_name = "TEXT")]
    key_separator: Option<String>,
}

/// How long a partition may be out of reach before reading to the end is given up.
const UNAVAILABLE_MAX: Duration = Duration::from_mins(1);

pub(super) async fn run(
    args: SubArgs,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let only_reads = args.no_ack || args.from_beginning || args.from.is_some();
    let mut printer = Printer {
        // A line per record is what the next command in a pipe wants; JSON is there on request.
        json: global.asked() == Some(Format::Json),
        key_separator: args.key_separator.clone(),
        left: args.max.unwrap_or(u64::MAX),
        terminal,
    };
    if only_reads {
        read(&args, &global.client(), &mut printer).await
    } else {
        consume(&args, &global.client(), &mut printer).await
    }
}

/// Works on records: prints them, and acknowledges what was printed.
async fn consume(
    args: &SubArgs,
    client: &Client,
    printer: &mut Printer<'_>,
) -> Result<(), Failure> {
    let interrupt = printer.terminal.interrupt.clone();
    let follow = args.follow || args.wait.is_some();
    let options = ConsumerOptions {
        // No more than is going to be printed.
        records_max: usize::try_from(printer.left).unwrap_or(usize::MAX).min(100),
        visibility: args.visibility,
        follow,
        unavailable_max: (!args.follow).then_some(UNAVAILABLE_MAX),
        ..ConsumerOptions::default()
    };
    let mut consumer = tokio::select! {
        consumer = client.consumer(&args.topic, options) => consumer?,
        () = interrupt.cancelled() => return Err(Failure::interrupted()),
    };
    let (mut printed, mut again) = (0, 0);
    let mut is_damaged = false;
    let mut ended = Ok(());
    while printer.left > 0 {
        let delivery = tokio::select! {
            biased;
            // The usual way to end; what was printed has been acknowledged.
            () = interrupt.cancelled() => break,
            delivery = within(args.wait, consumer.next()) => delivery,
        };
        let delivery = match delivery {
            Ok(Some(delivery)) => delivery,
            Ok(None) => break,
            // The other partitions go on, and so does this one once the damage is given up.
            Err(error) if error.is_damage() => {
                printer.terminal.note(&error.to_string());
                is_damaged = true;
                continue;
            }
            Err(error) => {
                ended = Err(error.into());
                break;
            }
        };
        let take = printer.take(delivery.records.len());
        let (shown, left) = delivery.records.split_at(take);
        let lines = shown.iter().map(|one| (one.offset, &one.record, Some(one.delivery)));
        let is_out = printer.print(delivery.partition, lines);
        // Acknowledged only once it is out of our hands.
        ended = match is_out {
            Ok(()) => {
                printed += take as u64;
                again += shown.iter().filter(|one| one.delivery > Count(1)).count() as u64;
                acknowledge(&consumer, &delivery, shown, printer.terminal).await
            }
            Err(error) => Err(Failure::from_output(&error)),
        };
        let left = left.iter().map(|record| record.ticket);
        if left.len() > 0 {
            // Best effort: they come again anyway.
            drop(consumer.nack(left, Duration::ZERO).await);
        }
        if ended.is_err() {
            break;
        }
    }
    consumer.close().await;
    if again > 0 {
        let note = format!("{again} of {printed} records had been delivered before");
        printer.terminal.note(&note);
    }
    ended.and_then(|()| if is_damaged { Err(incomplete()) } else { Ok(()) })
}

/// Records are missing that were named already.
fn incomplete() -> Failure {
    Failure::new(ExitCode::Failure, "")
}

async fn acknowledge(
    consumer: &crate::client::Consumer,
    delivery: &Delivery,
    shown: &[HandedRecord],
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    match consumer.ack(shown.iter().map(|record| record.ticket)).await {
        Ok(settled) => {
            let mut lost = settled.iter().filter(|view| !view.is_done());
            if let Some(first) = lost.next() {
                let count = 1 + lost.count();
                let why = first.error.as_deref().unwrap_or(&first.code);
                let partition = delivery.partition;
                let note =
                    format!("{count} records of partition {partition} may come again: {why}");
                terminal.note(&note);
            }
            Ok(())
        }
        Err(error) => {
            let failure = Failure::from(error);
            let message = format!(
                "printed, but not acknowledged, so it will come again: {}",
                failure.message
            );
            Err(Failure { message, ..failure })
        }
    }
}

/// Reads records, and changes nothing.
async fn read(args: &SubArgs, client: &Client, printer: &mut Printer<'_>) -> Result<(), Failure> {
    let interrupt = printer.terminal.interrupt.clone();
    let start = if args.from_beginning { Some(StartAt::Beginning) } else { args.from };
    let options = ReaderOptions {
        start: start.unwrap_or(StartAt::Committed),
        partition: args.partition,
        follow: args.follow || args.wait.is_some(),
        unavailable_max: (!args.follow).then_some(UNAVAILABLE_MAX),
        ..ReaderOptions::default()
    };
    let mut reader = tokio::select! {
        reader = client.reader(&args.topic, options) => reader?,
        () = interrupt.cancelled() => return Err(Failure::interrupted()),
    };
    let mut is_damaged = false;
    while printer.left > 0 {
        let stretch = tokio::select! {
            biased;
            () = interrupt.cancelled() => return Ok(()),
            stretch = within(args.wait, reader.next()) => stretch,
        };
        let stretch = match stretch {
            Ok(Some(stretch)) => stretch,
            Ok(None) => break,
            // The other partitions go on.
            Err(error) if error.is_damage() => {
                printer.terminal.note(&error.to_string());
                is_damaged = true;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let take = printer.take(stretch.records.len());
        let lines = stretch.records[..take].iter().map(|(offset, record)| (*offset, record, None));
        printer.print(stretch.partition, lines).map_err(|error| Failure::from_output(&error))?;
    }
    if is_damaged { Err(incomplete()) } else { Ok(()) }
}

/// Waits for what comes next, but not for longer than was asked for.
async fn within<T, E>(
    wait: Option<Duration>,
    next: impl Future<Output = Result<Option<T>, E>>,
) -> Result<Option<T>, E> {
    match wait {
        Some(wait) => tokio::time::timeout(wait, next).await.unwrap_or(Ok(None)),
        None => next.await,
    }
}

/// Prints records.
struct Printer<'a> {
    json: bool,
    key_separator: Option<String>,
    /// How many are still to be printed.
    left: u64,
    terminal: &'a mut Terminal,
}

impl Printer<'_> {
    /// Returns how many of so many records are to be printed.
    fn take(&mut self, count: usize) -> usize {
        let take = usize::try_from(self.left).unwrap_or(usize::MAX).min(count);
        self.left -= take as u64;
        take
    }

    fn print<'r>(
        &mut self,
        partition: u32,
        records: impl Iterator<Item = (Offset, &'r Record, Option<Count>)>,
    ) -> std::io::Result<()> {
        let out = &mut self.terminal.out;
        for (offset, record, delivery) in records {
            if self.json {
                let message = Message { delivery, ..Message::new(offset, record.clone()) };
                let mut message = serde_json::to_value(message)?;
                message["partition"] = partition.into();
                writeln!(out, "{message}")?;
                continue;
            }
            if let Some(separator) = &self.key_separator {
                out.write_all(record.key.as_deref().unwrap_or_default())?;
                out.write_all(separator.as_bytes())?;
            }
            out.write_all(&record.value)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let read = parse_duration(text).filter(|time| !time.is_zero());
    read.ok_or_else(|| "a time is written as 500ms, 30s or 2min".to_owned())
}

fn place(text: &str) -> Result<StartAt, String> {
    match text {
        "beginning" => Ok(StartAt::Beginning),
        "committed" => Ok(StartAt::Committed),
        offset => match offset.parse() {
            Ok(offset) => Ok(StartAt::Offset(Offset(offset))),
            Err(_) => Err("a place is beginning, committed, or an offset".to_owned()),
        },
    }
}
