//! Members and moves as tables.

use super::history::outcome;
use super::moving::freeze;
use super::words::lasts;
use crate::cli::table::{bytes, render};
use crate::service::{MemberStatus, MemberView, MoveView, PastMove, Role, Verdict};

/// Narrowest terminal that is shown how fast a move copies.
const RATE_WIDTH: u16 = 96;

pub(super) fn members(width: u16, wide: bool, members: &[MemberView]) -> String {
    let mut header = vec!["ID", "STATUS", "ROLE", "DRAINING", "OWNED", "IN", "OUT", "ADDR"];
    if wide {
        header.extend(["PEER ADDR", "NODE", "LIFE"]);
    }
    let mut members: Vec<&MemberView> = members.iter().collect();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    let rows = members.into_iter().map(|member| {
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
        let mut row = vec![
            member.id.to_string(),
            status(member.status).into(),
            role.into(),
            draining.into(),
            member.owned_partitions.to_string(),
            member.inbound_moves.to_string(),
            member.outbound_moves.to_string(),
            member.addr.clone(),
        ];
        if wide {
            let MemberView { peer_addr, node, incarnation, .. } = member;
            row.extend([peer_addr.clone(), node.to_string(), incarnation.to_string()]);
        }
        row
    });
    render(width, &header, rows.collect())
}

pub(super) const fn status(status: MemberStatus) -> &'static str {
    match status {
        MemberStatus::Alive => "alive",
        MemberStatus::Dead => "dead",
        MemberStatus::Retired => "retired",
        MemberStatus::Unknown => "?",
    }
}

pub(super) fn moves(width: u16, wide: bool, moves: &[MoveView], ended: &[PastMove]) -> String {
    if moves.is_empty() && ended.is_empty() {
        return "nothing is moving".to_owned();
    }
    // A narrow terminal does without what the time left says as well.
    let rate = width >= RATE_WIDTH;
    let mut header = vec!["PARTITION", "FROM", "TO", "PHASE", "COPIED"];
    header.extend(rate.then_some("RATE"));
    header.extend(["LEFT", "FREEZE", "WAITING FOR"]);
    if wide {
        header.extend(["WHO CAN HELP", "MOVE", "TRIES"]);
    }
    let rows = moves.iter().map(|row| {
        let from =
            if row.source_dead { format!("{} (dead)", row.from) } else { row.from.to_string() };
        let mut cells = vec![
            row.place(),
            from,
            row.to.to_string(),
            row.phase.clone().unwrap_or_else(unknown),
            copied(row),
        ];
        let per_second = |rate| format!("{}/s", bytes(rate));
        cells.extend(rate.then(|| row.bytes_per_second.map_or_else(unknown, per_second)));
        cells.extend([
            left(row),
            row.predicted_freeze_ms.map_or_else(unknown, |ms| format!("~{ms} ms")),
            waits_for(row),
        ]);
        if wide {
            cells.extend([
                who(row),
                row.move_id.to_string(),
                row.attempts.map_or_else(unknown, |tries| tries.to_string()),
            ]);
        }
        cells
    });
    let now = crate::clock::wall_ms();
    let over = ended.iter().map(|past| {
        let ago = u64::try_from(now.saturating_sub(past.ended_ms)).unwrap_or(0);
        let mut cells = vec![
            past.place(),
            past.from.to_string(),
            past.to.to_string(),
            outcome(past.outcome).to_owned(),
            bytes(past.bytes),
        ];
        cells.extend(rate.then(unknown));
        cells.extend([
            unknown(),
            freeze(past).unwrap_or_else(unknown),
            format!("ended {} ago", lasts(ago)),
        ]);
        if wide {
            cells.extend([unknown(), past.move_id.to_string(), unknown()]);
        }
        cells
    });
    render(width, &header, rows.chain(over).collect())
}

fn unknown() -> String {
    "-".to_owned()
}

pub(super) fn copied(row: &MoveView) -> String {
    match (row.bytes_staged, row.bytes_total) {
        (Some(staged), Some(total)) => of(staged, total),
        (Some(staged), None) => bytes(staged),
        (None, _) => unknown(),
    }
}

/// Shows a part of some bytes, with one unit if they have the same.
pub(super) fn of(part: u64, total: u64) -> String {
    let (part, total) = (bytes(part), bytes(total));
    let unit = |text: &str| text.rsplit_once(' ').map(|(_, unit)| unit.to_owned());
    let short = part.split(' ').next().filter(|_| unit(&part) == unit(&total));
    format!("{} of {total}", short.unwrap_or(&part))
}

fn left(row: &MoveView) -> String {
    match row.verdict {
        Some(Verdict::Progressing { eta_ms: Some(ms), .. }) => lasts(ms),
        _ => unknown(),
    }
}

/// Returns what a move waits for; a node of an older version has no verdict on it.
pub(super) fn waits_for(row: &MoveView) -> String {
    match &row.verdict {
        Some(Verdict::Waiting { reason, .. }) => reason.clone(),
        Some(Verdict::Blocked { reason, .. }) => format!("BLOCKED: {reason}"),
        Some(Verdict::Progressing { .. } | Verdict::Done { .. }) | None => {
            row.waiting.clone().unwrap_or_else(unknown)
        }
    }
}

fn who(row: &MoveView) -> String {
    match &row.verdict {
        Some(Verdict::Waiting { who, .. }) => who.clone(),
        Some(Verdict::Blocked { remedy, .. }) => remedy.clone(),
        Some(Verdict::Progressing { .. } | Verdict::Done { .. }) | None => unknown(),
    }
}
