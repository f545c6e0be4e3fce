//! Topics.

use std::ops::Range;

use clap::Subcommand;
use narad_core::ids::{Name, Offset};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::cluster::partition;
use super::table::render;
use super::terminal::Terminal;
use super::{ExitCode, Failure, Format, Global};
use crate::client::Client;
use crate::http::json::OffsetsBody;
use crate::service::{
    NewTopic, OffsetsOf, OffsetsView, Read, Skip, Skipped, TopicDetail, TopicView,
};

/// Topics.
#[derive(Debug, Subcommand)]
pub enum TopicCommand {
    /// Create a topic
    Create {
        /// Its name
        #[arg(value_parser = name)]
        name: Name,
        /// How many partitions it has
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
        partitions: u32,
        /// The topic that feeds it, whose nodes it is kept off where balance allows
        #[arg(long, value_name = "NAME", value_parser = name)]
        parent: Option<Name>,
    },
    /// List the topics
    List,
    /// Show who serves a topic's partitions
    Show {
        /// Its name
        name: String,
    },
    /// Show where a topic's consumers stand
    Offsets {
        /// Its name
        name: String,
    },
    /// Give up damaged records that consumers are held up by
    ///
    /// For records that their owner's disk has damaged, as consumers are told of them. Nobody gets them
    /// any more; those that can be read are refused.
    Skip {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_parser = partition)]
        partition: (String, u32),
        /// The first damaged record
        #[arg(long, value_name = "OFFSET")]
        from: u64,
        /// The offset after the last one
        #[arg(long, value_name = "OFFSET")]
        to: u64,
        /// Do it; without this, only what would be given up is told
        #[arg(long)]
        yes: bool,
    },
    /// Delete a topic with all its records
    Delete {
        /// Its name
        name: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

/// `GET /v1/topics`.
#[derive(Deserialize)]
struct Topics {
    topics: Vec<TopicView>,
}

pub(super) async fn run(
    command: TopicCommand,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let client = global.client()?;
    let json = global.format(terminal) == Format::Json;
    match command {
        TopicCommand::Create { name, partitions, parent } => {
            let topic = client.create_topic(&NewTopic { name, partitions, parent }).await?;
            if json {
                let body = serde_json::to_vec(&topic).expect("a topic has text keys only");
                return terminal.print_json(&body);
            }
            let plural = if topic.partitions == 1 { "" } else { "s" };
            terminal.print(&format!("{} has {} partition{plural}", topic.name, topic.partitions))
        }
        TopicCommand::List => {
            let body = client.get_raw("/v1/topics").await?;
            if json {
                return terminal.print_json(&body);
            }
            let Topics { topics } = parsed(&body)?;
            if topics.is_empty() {
                return terminal.print("there are no topics");
            }
            let rows = topics.iter().map(|topic| {
                let parent = topic.parent.as_ref().map_or_else(|| "-".into(), Name::to_string);
                vec![topic.name.to_string(), topic.partitions.to_string(), parent]
            });
            let text = render(terminal.width, &["NAME", "PARTITIONS", "PARENT"], rows.collect());
            terminal.print(&text)
        }
        TopicCommand::Show { name } => {
            let topic = client.topic(&name).await?;
            if json {
                let body = serde_json::to_vec(&topic).expect("a topic has text keys only");
                return terminal.print_json(&body);
            }
            let text = show_routes(terminal.width, &topic);
            terminal.print(&text)
        }
        TopicCommand::Offsets { name } => {
            let path =
                format!("/v1/topics/{}/offsets", utf8_percent_encode(&name, NON_ALPHANUMERIC));
            let body = client.get_raw(&path).await?;
            if json {
                return terminal.print_json(&body);
            }
            let offsets: OffsetsBody = parsed(&body)?;
            terminal.print(&show_offsets(terminal.width, &offsets))?;
            for OffsetsView { partition, unknown, .. } in offsets.partitions {
                if let Some(why) = unknown {
                    terminal.note(&format!("{name}/{partition}: {why}"));
                }
            }
            Ok(())
        }
        TopicCommand::Skip { partition, from, to, yes } => {
            let range = Offset(from)..Offset(to);
            skip(&client, partition, range, yes, json, terminal).await
        }
        TopicCommand::Delete { name, yes } => {
            let what = format!("{name} would be deleted with all its records");
            terminal.confirm(yes, &what).await?;
            client.delete_topic(&name).await?;
            if json {
                return Ok(());
            }
            terminal.print(&format!("{name} is deleted"))?;
            terminal
                .note("its logs lie in quarantine for a while: narad cluster salvage shows them");
            Ok(())
        }
    }
}

/// Gives up damaged records, in as many steps as it takes, or says what that would mean.
async fn skip(
    client: &Client,
    (topic, partition): (String, u32),
    range: Range<Offset>,
    yes: bool,
    json: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let Range { start: from, end: to } = range;
    if !yes {
        let message = format!(
            "the records from offset {from} to before {to} of {topic}/{partition} would be given up: no \
             consumer gets them any more"
        );
        return Err(Failure::new(ExitCode::Usage, message).with_hint("add --yes to do it"));
    }
    let views = client.offsets(&topic, Read::Barrier).await?;
    let view = views.into_iter().find(|view| view.partition == partition);
    let Some(OffsetsView { offsets, unknown, .. }) = view else {
        let message = format!("{topic} has no partition {partition} that anybody owns");
        return Err(Failure::new(ExitCode::NotFound, message));
    };
    let Some(OffsetsOf { epoch, .. }) = offsets else {
        return Err(Failure::new(ExitCode::Unavailable, unknown.unwrap_or_default()));
    };
    let mut all = Skipped { records: 0, next: from };
    while all.next < to {
        let step = client.skip(&topic, partition, &Skip { epoch, from: all.next, to }).await;
        let step = step.map_err(|error| {
            let failure = Failure::from(error);
            let Skipped { records, next } = all;
            if records == 0 {
                return failure;
            }
            let why = &failure.message;
            let message = format!("{records} records were given up, to before {next}; then: {why}");
            Failure { message, ..failure }
        })?;
        all.records += step.records;
        // One that says nothing new would be asked for ever.
        all.next = step.next.max(all.next.next());
    }
    if json {
        let body = serde_json::to_vec(&all).expect("it has text keys only");
        return terminal.print_json(&body);
    }
    let plural = if all.records == 1 { " was" } else { "s were" };
    terminal.print(&format!(
        "{} damaged record{plural} given up; the consumers of {topic}/{partition} go on behind them",
        all.records
    ))
}

/// Reads an answer's body.
pub(super) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the answer is not what a Narad node says: {error}");
        Failure::new(ExitCode::Failure, message).with_hint("--json shows what was answered")
    })
}

fn show_routes(width: u16, topic: &TopicDetail) -> String {
    let rows = topic.routes.iter().map(|route| {
        let state = match (route.alive, route.moving) {
            (true, false) => "served",
            (true, true) => "moving",
            (false, false) => "owner dead",
            (false, true) => "owner dead, moving",
        };
        vec![
            format!("{}/{}", topic.topic.name, route.partition),
            route.owner.to_string(),
            state.into(),
            route.epoch.to_string(),
            route.addr.clone(),
        ]
    });
    render(width, &["PARTITION", "OWNER", "STATE", "EPOCH", "ADDR"], rows.collect())
}

fn show_offsets(width: u16, offsets: &OffsetsBody) -> String {
    let rows = offsets.partitions.iter().map(|view| {
        let mut row = vec![format!("{}/{}", offsets.topic, view.partition), view.owner.to_string()];
        match view.offsets {
            Some(of) => row.extend([
                of.start.to_string(),
                of.hwm.to_string(),
                of.committed.map_or_else(|| "-".into(), |committed| committed.to_string()),
                of.acked_ahead.to_string(),
                of.in_flight.to_string(),
                of.backlog.to_string(),
                of.epoch.to_string(),
            ]),
            None => row.extend(std::iter::repeat_n("?".to_owned(), 7)),
        }
        row
    });
    let columns = [
        "PARTITION",
        "OWNER",
        "START",
        "END",
        "COMMITTED",
        "AHEAD",
        "IN-FLIGHT",
        "BACKLOG",
        "EPOCH",
    ];
    render(width, &columns, rows.collect())
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(|error| error.to_string())
}
