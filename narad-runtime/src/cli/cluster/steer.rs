//! What operators tell the cluster to do, or to leave alone.

use clap::Subcommand;
use narad_core::config::Policy;

use super::Desk;
use crate::cli::table::render;
use crate::cli::{ExitCode, Failure};
use crate::service::{Abort, PolicyChange, PolicyView, Read};
use crate::settings::{Given, Settings, keys};

/// What is done about the policy.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show it, with what each key means
    Show,
    /// Change it, on all nodes at once
    Set {
        /// What to change, such as `max_in_flight=4` or `copy_rate_bytes_per_second=50MiB`
        #[arg(required = true, value_name = "KEY=VALUE")]
        changes: Vec<String>,
    },
}

/// Gives a move up.
pub(super) async fn abort(
    desk: &mut Desk<'_>,
    (topic, partition): &(String, u32),
    pin: bool,
    yes: bool,
) -> Result<(), Failure> {
    let mut how = Abort { pin, force: false };
    let place = format!("{topic}/{partition}");
    let moves = desk.client.moves(Read::Barrier).await?;
    let moved = moves.iter().find(|one| one.place() == place);
    if moved.is_some_and(|one| one.source_dead) {
        let what = format!(
            "the owner of {place} is dead: what the move has copied may be all that is left of it"
        );
        desk.terminal.confirm(yes, &what).await?;
        how.force = true;
    }
    desk.client.abort(topic, *partition, how).await?;
    if pin {
        return desk.say(&format!("{place} stays where it is, and is pinned there"));
    }
    desk.say(&format!(
        "{place} stays where it is; the planner may plan the same again: narad cluster pin {place} \
         keeps it"
    ))
}

/// Pins a partition, or lets the planner have it again.
pub(super) async fn pin(
    desk: &mut Desk<'_>,
    (topic, partition): &(String, u32),
    on: bool,
) -> Result<(), Failure> {
    desk.client.pin(topic, *partition, on).await?;
    let text = if on { "is pinned: the planner leaves it alone" } else { "is the planner's again" };
    desk.say(&format!("{topic}/{partition} {text}"))
}

/// Lets no more moves begin, or lets them begin again.
pub(super) async fn pause(desk: &mut Desk<'_>, on: bool) -> Result<(), Failure> {
    let change = PolicyChange { paused: Some(on), ..PolicyChange::default() };
    let view = desk.client.change_policy(&change).await?;
    if desk.json() {
        return desk.print_view(&view);
    }
    desk.terminal.print(if on {
        "no move begins until narad cluster resume; those under way go on"
    } else {
        "moves begin again"
    })
}

/// Limits what nodes copy.
pub(super) async fn throttle(
    desk: &mut Desk<'_>,
    rate: &str,
    node: Option<&str>,
) -> Result<(), Failure> {
    let wrong = |allowed: &str| {
        Failure::new(ExitCode::Usage, format!("{rate:?} is no rate: write {allowed}"))
    };
    if let ("policy", Some(node)) = (rate, node) {
        desk.client.throttle(node, None).await?;
        return desk.say(&format!("{node} copies as fast as the policy lets every node"));
    }
    let wanted = if rate == "off" { "0" } else { rate.strip_suffix("/s").unwrap_or(rate) };
    let allowed = "bytes per second, such as 50MiB, or off";
    let policy = with(Policy::default(), "copy_rate_bytes_per_second", wanted)
        .map_err(|_| wrong(allowed))?;
    let bytes = policy.copy_rate_bytes_per_second;
    if bytes == 0 && rate != "off" {
        return Err(wrong(allowed));
    }
    let limit =
        if bytes == 0 { "without a limit".to_owned() } else { format!("{wanted}/s at most") };
    if let Some(node) = node {
        desk.client.throttle(node, Some(bytes)).await?;
        return desk.say(&format!(
            "{node} copies {limit} until it restarts; narad cluster throttle policy --node {node} \
             takes it back"
        ));
    }
    let change =
        PolicyChange { copy_rate_bytes_per_second: Some(bytes), ..PolicyChange::default() };
    let view = desk.client.change_policy(&change).await?;
    if desk.json() {
        return desk.print_view(&view);
    }
    desk.terminal.print(&format!("every node copies {limit}"))
}

/// Shows the policy, or changes it.
pub(super) async fn policy(
    desk: &mut Desk<'_>,
    command: Option<&PolicyCommand>,
) -> Result<(), Failure> {
    let view = match command {
        None | Some(PolicyCommand::Show) => desk.client.policy(Read::Barrier).await?,
        Some(PolicyCommand::Set { changes }) => {
            let before = Policy::from(&desk.client.policy(Read::Barrier).await?);
            let mut after = before.clone();
            for change in changes {
                let Some((key, value)) = change.split_once('=') else {
                    let message = format!("{change:?} is no change: write KEY=VALUE");
                    return Err(Failure::new(ExitCode::Usage, message));
                };
                after = with(after, key.trim(), value.trim())?;
            }
            desk.client.change_policy(&PolicyChange::between(&before, &after)).await?
        }
    };
    if desk.json() {
        return desk.print_view(&view);
    }
    let text = table(desk.terminal.width, &view);
    desk.terminal.print(&text)?;
    if matches!(command, Some(PolicyCommand::Set { .. })) {
        desk.terminal.note(
            "where the file of a node has a [policy], change it there as well: it is refused when it \
             starts again with anything but other rates",
        );
    }
    Ok(())
}

/// Returns the policy with one key changed, read as a configuration file would be.
fn with(policy: Policy, key: &str, value: &str) -> Result<Policy, Failure> {
    let mut settings = Settings { policy, ..Settings::default() };
    let known = keys().find(|known| known.path.strip_prefix("policy.") == Some(key));
    let Some(known) = known else {
        let message = format!("the policy has no key {key:?}");
        return Err(Failure::new(ExitCode::Usage, message)
            .with_hint("narad cluster policy show lists the keys"));
    };
    known.set(&mut settings, &Given::Text(value)).map_err(|allowed| {
        Failure::new(ExitCode::Usage, format!("{key} is {value:?}, but must be {allowed}"))
    })?;
    Ok(settings.policy)
}

fn table(width: u16, view: &PolicyView) -> String {
    let mut settings = Settings { policy: Policy::from(view), ..Settings::default() };
    let rows = keys().filter_map(|key| {
        let name = key.path.strip_prefix("policy.")?;
        let value = key.show(&mut settings)?;
        Some(vec![name.to_owned(), value.trim_matches('"').to_owned(), key.doc.to_owned()])
    });
    render(width, &["KEY", "VALUE", "MEANING"], rows.collect())
}
