//! Watching and changing the cluster.

use clap::Subcommand;

use super::salvage;
use super::table::{bytes, render};
use super::terminal::Terminal;
use super::{Failure, Format, Global};
use crate::service::{MemberStatus, MemberView, MoveView, Role};

/// Watching and changing the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show who is here, who drains, and how many partitions each owns
    Members {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
    },
    /// Show what moves from where to where, how far it is, and what it waits for
    Moves {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
    },
    /// Empty a node and take it out of the cluster
    Decommission {
        /// The member, such as narad-4
        id: String,
        /// Take it back; possible until the node is retired
        #[arg(long)]
        cancel: bool,
    },
    /// Move one partition by hand, and pin it there
    Move {
        /// The topic
        topic: String,
        /// The partition
        partition: u32,
        /// The member that is to own it
        #[arg(long, value_name = "ID")]
        to: String,
    },
    /// Show what promotions have left behind, and what lies in quarantine; restore or drop it
    Salvage {
        #[command(subcommand)]
        command: Option<SalvageCommand>,
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
    },
    /// Give up what only a dead owner holds, and have the partition served again
    ///
    /// For an owner that never comes back while no copy reaches all that was visible. Records that
    /// only its disk holds are lost, unless that disk comes back after all: then they are accepted
    /// again. Nothing ever does this by itself.
    DeclareLost {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_parser = partition)]
        partition: (String, u32),
        /// Do it; without this, only what would be lost is shown
        #[arg(long)]
        yes: bool,
        /// Why, who, which ticket: for the log
        #[arg(long, value_name = "TEXT", default_value = "declared lost by an operator")]
        receipt: String,
    },
}

/// What is done about the quarantine.
#[derive(Debug, Subcommand)]
pub enum SalvageCommand {
    /// Accept the records of a quarantined copy again, as if they had just been produced
    Restore {
        /// The copy, as MEMBER/ID
        #[arg(value_name = "MEMBER/ID", value_parser = quarantined)]
        what: (String, String),
    },
    /// Delete a quarantined copy before its time
    Drop {
        /// The copy, as MEMBER/ID
        #[arg(value_name = "MEMBER/ID", value_parser = quarantined)]
        what: (String, String),
        /// Do it; without this, nothing is deleted
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn partition(text: &str) -> Result<(String, u32), String> {
    let parsed = text.rsplit_once('/').and_then(|(topic, number)| {
        Some((topic.to_owned(), number.parse().ok()?)).filter(|_| !topic.is_empty())
    });
    parsed.ok_or_else(|| "it is written as TOPIC/NUMBER, such as orders/3".to_owned())
}

fn quarantined(text: &str) -> Result<(String, String), String> {
    let parsed = text.split_once('/').filter(|(member, id)| !member.is_empty() && !id.is_empty());
    let parsed = parsed.map(|(member, id)| (member.to_owned(), id.to_owned()));
    parsed
        .ok_or_else(|| "it is written as MEMBER/ID, as `narad cluster salvage` shows it".to_owned())
}

/// `GET /v1/cluster/members`.
#[derive(serde::Deserialize)]
struct Members {
    members: Vec<MemberView>,
}

/// `GET /v1/cluster/moves`.
#[derive(serde::Deserialize)]
struct Moves {
    moves: Vec<MoveView>,
}

pub(super) async fn run(
    command: ClusterCommand,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let client = global.client();
    let json = global.format(terminal) == Format::Json;
    match command {
        ClusterCommand::Members { stale } => {
            let body = client.get_raw(&path("/v1/cluster/members", stale)).await?;
            if json {
                return terminal.print_json(&body);
            }
            let Members { mut members } = super::topic::parsed(&body)?;
            members.sort_by(|a, b| a.id.cmp(&b.id));
            let text = show_members(terminal.width, &members);
            terminal.print(&text)
        }
        ClusterCommand::Moves { stale } => {
            let body = client.get_raw(&path("/v1/cluster/moves", stale)).await?;
            if json {
                return terminal.print_json(&body);
            }
            let Moves { moves } = super::topic::parsed(&body)?;
            if moves.is_empty() {
                return terminal.print("nothing is moving");
            }
            let text = show_moves(terminal.width, &moves);
            terminal.print(&text)
        }
        ClusterCommand::Decommission { id, cancel } => {
            client.decommission(&id, !cancel).await?;
            match (json, cancel) {
                // The API has nothing to say either.
                (true, _) => Ok(()),
                (false, false) => terminal.print(&format!(
                    "{id} is draining and goes on serving what it still owns\n\
                     narad cluster members shows when it is retired, and so may be stopped"
                )),
                (false, true) => terminal.print(&format!("{id} stays in the cluster")),
            }
        }
        ClusterCommand::Move { topic, partition, to } => {
            client.move_partition(&topic, partition, &to).await?;
            if json {
                return Ok(());
            }
            terminal.print(&format!("{topic}/{partition} is to move to {to}, and stay there"))
        }
        ClusterCommand::Salvage { command: None, stale } => {
            let body = client.get_raw(&path("/v1/cluster/salvage", stale)).await?;
            if json {
                return terminal.print_json(&body);
            }
            let text = salvage::show(terminal.width, &super::topic::parsed(&body)?);
            terminal.print(&text)
        }
        ClusterCommand::Salvage { command: Some(command), .. } => {
            salvage::act(&client, command, json, terminal).await
        }
        ClusterCommand::DeclareLost { partition, yes, receipt } => {
            salvage::declare_lost(&client, partition, yes, receipt, json, terminal).await
        }
    }
}

fn path(path: &str, stale: bool) -> String {
    format!("{path}{}", if stale { "?stale=true" } else { "" })
}

fn show_members(width: u16, members: &[MemberView]) -> String {
    let header = ["ID", "STATUS", "ROLE", "DRAINING", "OWNED", "IN", "OUT", "ADDR"];
    let rows = members.iter().map(|member| {
        let status = match member.status {
            MemberStatus::Alive => "alive",
            MemberStatus::Dead => "dead",
            MemberStatus::Retired => "retired",
            MemberStatus::Unknown => "?",
        };
        let role = match member.role {
            _ if member.leader => "leader",
            Role::Voter => "voter",
            Role::Learner => "learner",
            Role::None => "-",
        };
        let draining = match (member.draining, member.drained_out) {
            (false, _) => "no",
            (true, false) => "yes",
            (true, true) => "drained",
        };
        vec![
            member.id.to_string(),
            status.into(),
            role.into(),
            draining.into(),
            member.owned_partitions.to_string(),
            member.inbound_moves.to_string(),
            member.outbound_moves.to_string(),
            member.addr.clone(),
        ]
    });
    render(width, &header, rows.collect())
}

fn show_moves(width: u16, moves: &[MoveView]) -> String {
    let header = ["PARTITION", "FROM", "TO", "PHASE", "COPIED", "RATE", "FREEZE", "WAITING FOR"];
    let unknown = || "-".to_owned();
    let rows = moves.iter().map(|row| {
        let copied = match (row.bytes_staged, row.bytes_total) {
            (Some(staged), Some(total)) => format!("{} of {}", bytes(staged), bytes(total)),
            (Some(staged), None) => bytes(staged),
            (None, _) => unknown(),
        };
        let from =
            if row.source_dead { format!("{} (dead)", row.from) } else { row.from.to_string() };
        vec![
            format!("{}/{}", row.topic, row.partition),
            from,
            row.to.to_string(),
            row.phase.clone().unwrap_or_else(unknown),
            copied,
            row.bytes_per_second.map_or_else(unknown, |rate| format!("{}/s", bytes(rate))),
            row.predicted_freeze_ms.map_or_else(unknown, |ms| format!("{ms} ms")),
            row.waiting.clone().unwrap_or_else(unknown),
        ]
    });
    render(width, &header, rows.collect())
}
