//! Receiving records.

use std::io::Write as _;
use std::time::Duration;

use clap::Args;
use narad_core::ids::Offset;

use super::terminal::Terminal;
use super::{Failure, Format, Global};
use crate::client::{AckOutcome, Consumer, ConsumerOptions, Delivery, StartAt};
use crate::http::json::Message;

/// Receiving records.
///
/// Prints each record's value on a line of its own, or, with --json, each record as JSON.
#[derive(Debug, Args)]
pub struct SubArgs {
    /// The topic
    topic: String,
    /// End after so many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Start with the first record that is there, acknowledged or not
    #[arg(long)]
    from_beginning: bool,
    /// Leave the acknowledged position where it is
    #[arg(long)]
    no_ack: bool,
    /// Wait for further records instead of ending where the topic ends
    #[arg(long, short)]
    follow: bool,
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
    let interrupt = terminal.interrupt.clone();
    let options = ConsumerOptions {
        start: if args.from_beginning { StartAt::Beginning } else { StartAt::Committed },
        follow: args.follow,
        acknowledges: !args.no_ack,
        unavailable_max: (!args.follow).then_some(UNAVAILABLE_MAX),
        ..ConsumerOptions::default()
    };
    let client = global.client();
    let mut consumer = tokio::select! {
        consumer = client.consumer(&args.topic, options) => consumer?,
        () = interrupt.cancelled() => return Err(Failure::interrupted()),
    };
    // A line per record is what the next command in a pipe wants; JSON is there on request.
    let json = global.asked() == Some(Format::Json);
    let mut left = args.max.unwrap_or(u64::MAX);
    while left > 0 {
        let delivery = tokio::select! {
            biased;
            // The usual way to end; what was printed has been acknowledged.
            () = interrupt.cancelled() => return Ok(()),
            delivery = consumer.next() => delivery?,
        };
        let Some(delivery) = delivery else { return Ok(()) };
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(delivery.records.len());
        let shown = show(&args, json, &delivery, take, terminal);
        // Acknowledged only once it is out of our hands.
        shown.map_err(|error| Failure::from_output(&error))?;
        left -= take as u64;
        if !args.no_ack {
            acknowledge(&consumer, &delivery, take, terminal).await?;
        }
    }
    Ok(())
}

fn show(
    args: &SubArgs,
    json: bool,
    delivery: &Delivery,
    take: usize,
    terminal: &mut Terminal,
) -> std::io::Result<()> {
    let out = &mut terminal.out;
    for (offset, record) in &delivery.records[..take] {
        if json {
            let message = Message::new(*offset, record.clone());
            let mut message = serde_json::to_value(message)?;
            message["partition"] = delivery.partition.into();
            writeln!(out, "{message}")?;
            continue;
        }
        if let Some(separator) = &args.key_separator {
            out.write_all(record.key.as_deref().unwrap_or_default())?;
            out.write_all(separator.as_bytes())?;
        }
        out.write_all(&record.value)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

async fn acknowledge(
    consumer: &Consumer,
    delivery: &Delivery,
    take: usize,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let up_to = if take == delivery.records.len() {
        delivery.next
    } else {
        Offset(delivery.records[take - 1].0.0 + 1)
    };
    let Delivery { partition, epoch, .. } = *delivery;
    match consumer.ack(partition, epoch, up_to).await {
        Ok(AckOutcome::Acknowledged) => {}
        Ok(AckOutcome::Superseded) => {
            let note = format!("partition {partition} has moved; its last records may come again");
            terminal.note(&note);
        }
        Err(error) => {
            let failure = Failure::from(error);
            let message = format!(
                "printed, but not acknowledged, so it will come again: {}",
                failure.message
            );
            return Err(Failure { message, ..failure });
        }
    }
    Ok(())
}
