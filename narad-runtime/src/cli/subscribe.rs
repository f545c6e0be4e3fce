//! Receiving records.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use narad_core::ids::{Delivery as Count, Offset};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::patience::{Patience, out_of_reach};
use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global};
use crate::client::{
    Client, ClientError, Consumer, ConsumerOptions, Delivery, Reader, ReaderOptions, StartAt,
    Stretch, Waiting,
};
use crate::http::json::Message;
use crate::service::{HandedRecord, Record};
use crate::units::parse_duration;

/// Receiving records.
///
/// Prints each record's value on a line of its own, or, with --json, each record as JSON, and
/// acknowledges it once it is printed. Several subscribers share the records of a topic: while one has
/// a record, no other one gets it, unless it is not acknowledged in time. With --no-ack, --from or
/// --partition records are only read, and nothing changes for anybody.
#[derive(Debug, Args)]
#[command(after_help = "\
Several subscribers share the records of a topic: while one has a record, no other one gets it, unless
it is not acknowledged in time. With --no-ack, --from or --partition records are only read, and nothing
changes for anybody.

What is printed into a pipe is acknowledged, whether or not the next command looks at it: use --max N
to take N records, not head.")]
pub struct SubArgs {
    /// The topic
    topic: String,
    /// End after so many records; further ones are not acknowledged
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max: Option<u64>,
    /// End once no record has come for so long, instead of where the topic ends
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "follow")]
    wait: Option<Duration>,
    /// Wait for further records instead of ending where the topic ends
    #[arg(long, short)]
    follow: bool,
    /// How long nobody else gets a record that was received and not printed yet; no longer than the
    /// nodes allow, which is 12h unless they are configured otherwise
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
    /// Only read, of one partition; from the acknowledged position on unless --from says otherwise
    #[arg(long, value_name = "N")]
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
    let only_reads =
        args.no_ack || args.from_beginning || args.from.is_some() || args.partition.is_some();
    let mut printer = Printer {
        // A line per record is what the next command in a pipe wants; JSON is there on request.
        json: global.asked() == Some(Format::Json),
        key_separator: args.key_separator.clone(),
        left: args.max.unwrap_or(u64::MAX),
        terminal,
    };
    if only_reads {
        read(&args, &global.client()?, &mut printer).await
    } else {
        consume(&args, &global.client()?, &mut printer).await
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
    let (mut ended, mut patience) = (Ok(()), Patience::default());
    let mut is_damaged = false;
    while printer.left > 0 {
        let heard = hear(args, &mut patience, &interrupt, &mut consumer, printer.terminal).await;
        let delivery = match heard {
            Heard::Some(delivery) => delivery,
            Heard::End => break,
            // What was printed has been acknowledged.
            Heard::Ended(failure) => {
                ended = Err(failure);
                break;
            }
            // The other partitions go on, and so does this one once the damage is given up.
            Heard::Error(error) if error.is_damage() => {
                printer.terminal.note(&error.to_string());
                is_damaged = true;
                continue;
            }
            Heard::Error(error) => {
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
    consumer: &Consumer,
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
        // It is gone with its records.
        Err(error) if error.code() == Some("unknown_topic") => Err(error.into()),
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
    let mut patience = Patience::default();
    let mut is_damaged = false;
    while printer.left > 0 {
        let heard = hear(args, &mut patience, &interrupt, &mut reader, printer.terminal).await;
        let stretch = match heard {
            Heard::Some(stretch) => stretch,
            Heard::End => break,
            Heard::Ended(failure) => return Err(failure),
            // The other partitions go on.
            Heard::Error(error) if error.is_damage() => {
                printer.terminal.note(&error.to_string());
                is_damaged = true;
                continue;
            }
            Heard::Error(error) => return Err(error.into()),
        };
        let take = printer.take(stretch.records.len());
        let lines = stretch.records[..take].iter().map(|(offset, record)| (*offset, record, None));
        printer.print(stretch.partition, lines).map_err(|error| Failure::from_output(&error))?;
    }
    if is_damaged { Err(incomplete()) } else { Ok(()) }
}

/// Where records come from.
trait Source {
    type Part;

    /// Returns the next part; safe to give up.
    async fn next(&mut self) -> Result<Option<Self::Part>, ClientError>;

    fn waiting(&self) -> Vec<Waiting>;
}

impl Source for Consumer {
    type Part = Delivery;

    async fn next(&mut self) -> Result<Option<Delivery>, ClientError> {
        Self::next(self).await
    }

    fn waiting(&self) -> Vec<Waiting> {
        Self::waiting(self)
    }
}

impl Source for Reader {
    type Part = Stretch;

    async fn next(&mut self) -> Result<Option<Stretch>, ClientError> {
        Self::next(self).await
    }

    fn waiting(&self) -> Vec<Waiting> {
        Self::waiting(self)
    }
}

/// What came next.
enum Heard<T> {
    Some(T),
    /// There is nothing more, as far as was asked for.
    End,
    /// It is over before it is done.
    Ended(Failure),
    Error(ClientError),
}

/// Waits for what comes next, but not for longer than was asked for; tells meanwhile what is out of
/// reach.
async fn hear<S: Source>(
    args: &SubArgs,
    patience: &mut Patience,
    interrupt: &CancellationToken,
    source: &mut S,
    terminal: &mut Terminal,
) -> Heard<S::Part> {
    let until = args.wait.map(|wait| Instant::now() + wait);
    loop {
        let look = Instant::now() + Patience::LOOK_EVERY;
        tokio::select! {
            biased;
            // The usual way to end what would go on for ever.
            () = interrupt.cancelled() => {
                return if args.follow { Heard::End } else { Heard::Ended(Failure::interrupted()) };
            }
            next = source.next() => return match next {
                Ok(Some(part)) => Heard::Some(part),
                Ok(None) => Heard::End,
                Err(error) => Heard::Error(error),
            },
            () = sleep_until(until.map_or(look, |until| until.min(look))) => {}
        }
        let waiting = source.waiting();
        patience.tell(&waiting, terminal);
        if until.is_some_and(|until| Instant::now() >= until) {
            // Nothing has come from there, which does not say that there is nothing.
            let missed = out_of_reach(&waiting).map(|told| {
                Failure::new(ExitCode::Unavailable, told)
                    .with_hint("what is there comes once it can be reached: try again")
            });
            return missed.map_or(Heard::End, Heard::Ended);
        }
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
    match parse_duration(text) {
        Some(time) if time.is_zero() => Err("it must be more than nothing".to_owned()),
        Some(time) => Ok(time),
        None => Err("a time is written as 500ms, 30s or 2min".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "it must be a whole number, at least 1".to_owned())
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
