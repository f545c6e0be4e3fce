//! Watching and changing the cluster.

mod audit;
mod history;
mod leaving;
mod moving;
mod plan;
mod show;
mod status;
mod steer;
mod stop;
mod watch;
pub(super) mod words;

use clap::Subcommand;

use super::salvage;
use super::terminal::Terminal;
use super::{Failure, Format, Global, Output};
use crate::client::Client;
use crate::service::MemberView;
use steer::PolicyCommand;

/// Watching and changing the cluster.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show the whole cluster on one page: who leads and votes, what moves, and what to do next
    Status {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
        /// Exit with 9 if something is blocked, so that somebody has to do something
        #[arg(long)]
        check: bool,
    },
    /// Show who is here, who drains, and how many partitions each owns
    Members {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
    },
    /// Show what moves from where to where, how far it is, and what it waits for
    ///
    /// A freeze that is yet to come is shown as it is predicted (~). Moves that have ended within the last
    /// minute are shown with the freeze that there was.
    Moves {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
        /// Go on showing it until interrupted
        #[arg(long, conflicts_with = "stale")]
        watch: bool,
    },
    /// Empty nodes and take them out of the cluster
    ///
    /// First it is checked whether they can all leave together, and nothing is changed if they
    /// cannot: whether enough voters stay, whether the others can take what these own, whether it
    /// fits onto their disks. They go on serving what they still own until that has moved.
    Decommission {
        /// The members, such as narad-4
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Only show what would move, and what stands in the way
        #[arg(long, conflicts_with_all = ["wait", "cancel"])]
        dry_run: bool,
        /// Wait until they are out; exits with 9 if that cannot go on by itself
        #[arg(long, conflicts_with = "cancel")]
        wait: bool,
        /// Take it back; possible until the node is retired
        #[arg(long)]
        cancel: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Take a dead node out for good, with whatever its disk still holds
    ///
    /// A node that is decommissioned says itself that nothing is left on it. One that never comes back
    /// cannot. Its partitions have to be served elsewhere by then: give up those that only it holds
    /// with declare-lost first.
    Forget {
        /// The member, such as narad-4
        id: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        /// Why, who, which ticket: for the log
        #[arg(long, value_name = "TEXT", default_value = "taken out by an operator")]
        receipt: String,
    },
    /// Tell whether a node may be stopped now: exits with 0 if so, and with 10 if not
    ///
    /// For an orchestrator's preStop hook: `narad cluster safe-to-stop narad-4 --wait 60s`. A stop for
    /// a restart leaves the disk, so owning partitions does not speak against it.
    SafeToStop {
        /// The member, such as narad-4
        id: String,
        /// Whether its disk may go with it: only once it has been taken out
        #[arg(long)]
        for_good: bool,
        /// Wait until it may, for at most this long; then exits with 10
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<std::time::Duration>,
    },
    /// Move one partition by hand, and pin it there
    Move {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
        /// The member that is to own it
        #[arg(long, value_name = "ID")]
        to: String,
    },
    /// Give up the move of a partition; it stays where it is
    Abort {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
        /// Pin it, so that the planner does not plan the same again
        #[arg(long)]
        pin: bool,
        /// Do not ask, also if its owner is dead and the copy may be all that is left
        #[arg(short, long)]
        yes: bool,
    },
    /// Keep the planner from a partition
    Pin {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
    },
    /// Let the planner have a partition again
    Unpin {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
    },
    /// Begin no more moves; those under way go on
    Pause,
    /// Let moves begin again
    Resume,
    /// Limit what a node copies, for the whole cluster or for one node until it restarts
    Throttle {
        /// Bytes per second, such as 50MiB; off is no limit; policy, with --node, is what the others
        /// have
        #[arg(value_name = "RATE|off|policy")]
        rate: String,
        /// Only this member
        #[arg(long, value_name = "ID")]
        node: Option<String>,
    },
    /// Show or change what the whole cluster agrees on
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    /// Show what the planner would do now, and why
    Plan,
    /// Show what the planner is about to do; it needs no command to do it
    Rebalance {
        /// Only show it
        #[arg(long, conflicts_with = "wait")]
        dry_run: bool,
        /// Wait until the cluster is balanced; exits with 9 if that cannot go on by itself
        #[arg(long)]
        wait: bool,
    },
    /// Tell why a partition is where it is, why it is nowhere else, and what would change that
    Explain {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
    },
    /// Write down what the last move of a partition was told, for `narad-sim replay`
    ///
    /// A move follows from nothing but that: the simulator drives the same code through it, event by
    /// event. Destinations keep it for their last moves until they restart. --output FILE says where to.
    Trace {
        /// The partition, as TOPIC/NUMBER
        #[arg(value_name = "TOPIC/NUMBER", value_parser = partition)]
        partition: (String, u32),
    },
    /// Show the last moves, how they ended and how long each phase took
    History {
        /// Show what a node knows; needs no leader
        #[arg(long)]
        stale: bool,
    },
    /// Show what admins have asked for lately, who they were and how it ended
    ///
    /// Each node writes down what it was asked; all that answer are asked for it, which takes the role
    /// admin.
    Audit {
        /// How many actions to show
        #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 50,
            value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
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
        /// Do not ask
        #[arg(short, long)]
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
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
}

pub(super) fn partition(text: &str) -> Result<(String, u32), String> {
    let parsed = text.rsplit_once('/').and_then(|(topic, number)| {
        Some((topic.to_owned(), number.parse().ok()?)).filter(|_| !topic.is_empty())
    });
    parsed.ok_or_else(|| "it is written as TOPIC/NUMBER, such as orders/3".to_owned())
}

fn duration(text: &str) -> Result<std::time::Duration, String> {
    crate::units::parse_duration(text)
        .ok_or_else(|| "write a duration such as 60s or 5m".to_owned())
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

impl ClusterCommand {
    /// Returns what an interrupt makes of the command: whoever only watched has seen enough.
    pub(super) fn interrupted(&self) -> Result<(), Failure> {
        match self {
            Self::Moves { watch: true, .. } => Ok(()),
            Self::Decommission { wait: true, .. } => Err(Failure::interrupted()
                .with_hint("the decommission goes on; --cancel takes it back")),
            _ => Err(Failure::interrupted()),
        }
    }
}

/// What a command works with.
struct Desk<'a> {
    client: Client,
    format: Format,
    terminal: &'a mut Terminal,
}

impl Desk<'_> {
    fn json(&self) -> bool {
        self.format == Format::Json
    }

    fn wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// Shows what the API answers to a read: as it came, or as `show` words it.
    async fn read<T: serde::de::DeserializeOwned>(
        &mut self,
        path: &str,
        show: impl FnOnce(u16, bool, &T) -> String,
    ) -> Result<T, Failure> {
        let body = self.client.get_raw(path).await?;
        let view = super::topic::parsed(&body)?;
        if self.json() {
            self.terminal.print_json(&body)?;
        } else {
            // Whoever asks for all columns has the room for them.
            let width = if self.wide() { u16::MAX } else { self.terminal.width };
            let text = show(width, self.wide(), &view);
            self.terminal.print(&text)?;
        }
        Ok(view)
    }

    /// Says what was done, to people.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        // For programs the API has nothing to say, and the exit code says it all.
        if self.json() { Ok(()) } else { self.terminal.print(text) }
    }

    /// Prints JSON on a line of its own, for whoever reads one after the other.
    fn print_line(&mut self, view: &serde_json::Value) -> Result<(), Failure> {
        self.terminal.write(format!("{view}\n").as_bytes())
    }

    /// Prints a view as the API would.
    fn print_view(&mut self, view: &impl serde::Serialize) -> Result<(), Failure> {
        let body = serde_json::to_vec(view).expect("these views have text keys only");
        self.terminal.print_json(&body)
    }
}

pub(super) async fn run(
    command: &ClusterCommand,
    global: &Global,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let format = global.format(terminal);
    let mut desk = Desk { client: global.client()?, format, terminal };
    match command {
        ClusterCommand::Status { stale, check } => status::show(&mut desk, *stale, *check).await,
        ClusterCommand::Members { stale } => {
            let show = |width, wide, all: &Members| show::members(width, wide, &all.members);
            desk.read(&path("/v1/cluster/members", *stale), show).await.map(drop)
        }
        ClusterCommand::Moves { watch: true, .. } => watch::moves(&mut desk).await,
        ClusterCommand::Moves { stale, watch: false } => moving::show(&mut desk, *stale).await,
        ClusterCommand::Decommission { ids, dry_run, wait, cancel, yes } => {
            if *cancel {
                return leaving::cancel(&mut desk, ids).await;
            }
            leaving::decommission(&mut desk, ids, *dry_run, *wait, *yes).await
        }
        ClusterCommand::Forget { id, yes, receipt } => {
            leaving::forget(&mut desk, id, *yes, receipt).await
        }
        ClusterCommand::SafeToStop { id, for_good, wait } => {
            stop::safe_to_stop(&mut desk, id, *for_good, *wait).await
        }
        ClusterCommand::Move { partition: (topic, partition), to } => {
            desk.client.move_partition(topic, *partition, to).await?;
            desk.say(&format!("{topic}/{partition} is to move to {to}, and stay there"))
        }
        ClusterCommand::Abort { partition, pin, yes } => {
            steer::abort(&mut desk, partition, *pin, *yes).await
        }
        ClusterCommand::Pin { partition } => steer::pin(&mut desk, partition, true).await,
        ClusterCommand::Unpin { partition } => steer::pin(&mut desk, partition, false).await,
        ClusterCommand::Pause => steer::pause(&mut desk, true).await,
        ClusterCommand::Resume => steer::pause(&mut desk, false).await,
        ClusterCommand::Throttle { rate, node } => {
            steer::throttle(&mut desk, rate, node.as_deref()).await
        }
        ClusterCommand::Policy { command } => steer::policy(&mut desk, command.as_ref()).await,
        ClusterCommand::Plan => plan::show(&mut desk).await,
        ClusterCommand::Rebalance { dry_run, wait } => {
            plan::rebalance(&mut desk, *dry_run, *wait).await
        }
        ClusterCommand::Explain { partition } => plan::explain(&mut desk, partition).await,
        ClusterCommand::Trace { partition } => {
            let file = match &global.output {
                Some(Output::File(file)) => Some(file.as_path()),
                Some(Output::Shown(_)) | None => None,
            };
            history::trace(&mut desk, partition, file).await
        }
        ClusterCommand::History { stale } => {
            desk.read(&path("/v1/cluster/history", *stale), history::show).await.map(drop)
        }
        ClusterCommand::Audit { limit } => audit::show(&mut desk, global, *limit).await,
        ClusterCommand::Salvage { command: None, stale } => {
            let show = |width, _, view: &_| salvage::show(width, view);
            desk.read(&path("/v1/cluster/salvage", *stale), show).await.map(drop)
        }
        ClusterCommand::Salvage { command: Some(command), .. } => {
            salvage::act(&desk.client, command, format == Format::Json, desk.terminal).await
        }
        ClusterCommand::DeclareLost { partition, yes, receipt } => {
            let json = format == Format::Json;
            salvage::declare_lost(&desk.client, partition, *yes, receipt, json, desk.terminal).await
        }
    }
}

fn path(path: &str, stale: bool) -> String {
    format!("{path}{}", if stale { "?stale=true" } else { "" })
}

/// Makes a text fit for one step of a path.
fn encoded(text: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC)
}
