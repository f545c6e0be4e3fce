//! The marks that pictures and script share: kinds, phases, faults.

use crate::trace::Kind;

/// Shapes of faults in a box of 12 by 12 around their middle, by class. The script draws the same.
pub(super) const ICONS: [(&str, &str); 8] = [
    ("down", "M-4-4L4 4M4-4L-4 4"),
    ("up", "M0-4.5L4.5 4H-4.5Z"),
    ("pause", "M-2.5-4.5V4.5M2.5-4.5V4.5"),
    ("link", "M-5.5 0H-2L-.5-4L.5 4L2 0H5.5"),
    ("heal", "M-5.5 0H5.5M-3-2.5V2.5M3-2.5V2.5"),
    ("clock", "M4.5 0A4.5 4.5 0 1 1-4.5 0A4.5 4.5 0 1 1 4.5 0M0-2.8V0L2 1.5"),
    ("disk", "M-4.5-3A4.5 1.8 0 1 0 4.5-3A4.5 1.8 0 1 0-4.5-3V3A4.5 1.8 0 0 0 4.5 3V-3"),
    ("other", "M0-4.5L4.5 0L0 4.5L-4.5 0Z"),
];

/// What each of [`ICONS`] stands for.
pub(super) const ICON_WORDS: [&str; 8] = [
    "killed, stopped, power lost",
    "started, resumed",
    "paused, suspended",
    "link cut, slow",
    "link healed",
    "clock",
    "disk",
    "other",
];

/// Returns the class of a fault: an index into [`ICONS`].
pub(super) fn icon(fault: &str) -> usize {
    let has = |words: &[&str]| words.iter().any(|word| fault.contains(word));
    match fault {
        "kill" | "power-loss" | "stop" | "stopped" | "panic" | "halt" | "down" => 0,
        "start" | "restart" | "join" | "resume" | "up" => 1,
        "pause" | "suspend" => 2,
        _ if has(&["heal", "unclog"]) => 4,
        _ if has(&["cut", "clog", "slow-link", "link", "reset"]) || fault == "slow" => 3,
        _ if has(&["clock", "wall"]) => 5,
        _ if has(&["disk", "rot", "erase", "io", "sync", "torn"]) => 6,
        _ => 7,
    }
}

/// Names of the kinds, in the order of [`kind_number`].
pub(super) const KINDS: [&str; 15] = [
    "wake",
    "effect",
    "done",
    "send",
    "deliver",
    "drop",
    "applied",
    "note",
    "ack",
    "read",
    "phase",
    "freeze",
    "fault",
    "step",
    "violation",
];

/// Returns the place of a kind in [`KINDS`].
pub(super) const fn kind_number(kind: Kind) -> u8 {
    kind as u8
}

/// Phases that have a look of their own, in the order of a move.
pub(super) const PHASES: [&str; 11] = [
    "locate", "resolve", "catch-up", "prepare", "drain", "verify", "install", "flip", "promote",
    "waiting", "closing",
];

/// Returns the class of a phase in the style sheet.
pub(super) fn phase_class(phase: &str) -> &'static str {
    match PHASES.iter().position(|known| *known == phase) {
        Some(0 | 1) => "ph-locate",
        Some(2) => "ph-catch-up",
        Some(3) => "ph-prepare",
        Some(4) => "ph-drain",
        Some(5) => "ph-verify",
        Some(6) => "ph-install",
        Some(7) => "ph-flip",
        Some(8) => "ph-promote",
        _ => "ph-waiting",
    }
}

/// Returns the class of a message in the style sheet.
pub(super) fn message_class(name: &str) -> &'static str {
    match name {
        "prepare" | "renew" | "release" | "list" | "copy" => "ms-move",
        "produce" | "produce-answer" | "fetch" | "fetch-answer" | "ack" | "ack-answer" => "ms-data",
        _ if name.starts_with("raft-") => "ms-raft",
        _ => "ms-call",
    }
}
