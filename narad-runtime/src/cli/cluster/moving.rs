//! What moves, and what has just moved: how long its freeze was said to last, and how long it did.

use std::collections::BTreeMap;

use narad_core::ids::MoveId;

use super::history::{frozen, outcome};
use super::words::lasts;
use super::{Desk, path, show};
use crate::cli::Failure;
use crate::cli::topic::parsed;
use crate::client::Client;
use crate::service::{HistoryView, MoveView, PastMove, Read};

/// How long a move that is over is shown beside those that are not, in milliseconds.
const RECENT_MS: i64 = 60_000;

/// `GET /v1/cluster/moves`.
#[derive(serde::Deserialize)]
struct Moves {
    moves: Vec<MoveView>,
}

/// Shows the moves, and those that ended within the last minute.
pub(super) async fn show(desk: &mut Desk<'_>, stale: bool) -> Result<(), Failure> {
    let mut body = desk.client.get_raw(&path("/v1/cluster/moves", stale)).await?;
    let Moves { moves } = parsed(&body)?;
    let read = if stale { Read::Stale } else { Read::Barrier };
    let HistoryView { moves: past, .. } = desk.client.history(read).await?;
    let ended = recent(past, crate::clock::wall_ms());
    if desk.json() {
        let mut view: serde_json::Value = parsed(&body)?;
        view["ended"] = serde_json::json!(ended);
        body = view.to_string().into();
        return desk.terminal.print_json(&body);
    }
    // Whoever asks for all columns has the room for them.
    let width = if desk.wide() { u16::MAX } else { desk.terminal.width };
    let text = show::moves(width, desk.wide(), &moves, &ended);
    desk.terminal.print(&text)
}

fn recent(past: Vec<PastMove>, now: i64) -> Vec<PastMove> {
    // Clocks of others may be ahead.
    past.into_iter().filter(|past| now.saturating_sub(past.ended_ms) <= RECENT_MS).collect()
}

/// Returns how long a freeze lasted, and how long it was said to; nothing if there was none.
pub(super) fn freeze(past: &PastMove) -> Option<String> {
    let predicted = past.predicted_us.map(|us| format!(" (~{})", frozen(us)));
    (past.frozen_us > 0).then(|| frozen(past.frozen_us) + &predicted.unwrap_or_default())
}

/// Returns how a move ended, on one line.
pub(super) fn ending(past: &PastMove) -> String {
    let took = u64::try_from(past.ended_ms.saturating_sub(past.began_ms)).unwrap_or(0);
    let freeze = freeze(past).map_or_else(String::new, |freeze| format!(", frozen for {freeze}"));
    let (from, to) = (&past.from, &past.to);
    format!("{} from {from} to {to} in {}{freeze}", outcome(past.outcome), lasts(took))
}

/// The moves that somebody watches.
#[derive(Default)]
pub(super) struct Watched {
    /// By their partitions: which moves they are.
    known: BTreeMap<String, MoveId>,
    /// Those that are over, how they ended not being known yet, and how often that was asked.
    over: BTreeMap<String, (MoveId, u32)>,
}

impl Watched {
    /// How often it is asked how a move ended: its destination may hear last that it has.
    const ASKS_MAX: u32 = 4;

    /// Notes what moves now. Returns those that do not any more, once anybody says how they ended.
    pub(super) async fn ended(&mut self, client: &Client, moves: &[MoveView]) -> Vec<PastMove> {
        let now: BTreeMap<String, MoveId> =
            moves.iter().map(|moved| (moved.place(), moved.move_id)).collect();
        let before = std::mem::replace(&mut self.known, now);
        let gone = before.into_iter().filter(|(place, id)| self.known.get(place) != Some(id));
        self.over.extend(gone.map(|(place, id)| (place, (id, 0))));
        if self.over.is_empty() {
            return Vec::new();
        }
        // Whoever cannot be told how they ended still sees that they did.
        let past = client.history(Read::Barrier).await.unwrap_or_default().moves;
        let is_one = |past: &PastMove| {
            self.over.get(&past.place()).is_some_and(|(id, _)| *id == past.move_id)
        };
        let ended: Vec<PastMove> = past.into_iter().filter(is_one).collect();
        for past in &ended {
            self.over.remove(&past.place());
        }
        self.over.retain(|_, (_, asks)| {
            *asks += 1;
            *asks < Self::ASKS_MAX
        });
        ended
    }
}
