//! Stops this process exactly where an operator of tests wants it to.
//!
//! `NARAD_FAILPOINT` holds a comma-separated list of `WHERE:ACTION`, or `WHERE@N:ACTION` for the
//! N-th time only (default 1). `NARAD_FAILPOINT_FILE` names a file that holds such a list and may
//! come, change and go while the process runs: whenever its text is another one, that is what is
//! armed from then on.
//!
//! - `WHERE` is `before-` or `after-` and one of [`names`]. An operation is passed before it begins
//!   and after it has ended, before its outcome is known to the node. Of `target`, `flip`, `resolve`,
//!   `revoke` and `register`, which are commands of the replicated log, `before-` is passed where a
//!   node appends one or sends it to the leader, and `after-` by every node when one is committed and
//!   about to be applied there. `list`, `prepare`, `renew` and `release` are questions to a peer,
//!   `stand` and `thaw` take no time: they have no `after-`. `before-ack` is passed by an owner whose
//!   append is durable and not acknowledged yet.
//! - `ACTION` is `kill` (SIGKILL, as by the kernel's out-of-memory killer) or `stop` (SIGSTOP: the
//!   process stands still until SIGCONT, and can be killed there).
//!
//! Without the variables this costs one atomic load an operation.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use narad_core::host;
use narad_core::metastore::Command;
use narad_core::node::{
    Gating, GatingOutcome, Operation, Outcome, Shipping, ShippingOutcome, Staging, StagingOutcome,
};
use narad_core::peer::Request;
use rustix::process::{Signal, getpid, kill_process};

use crate::replica::Step;

/// The environment variable that arms failpoints.
pub const VARIABLE: &str = "NARAD_FAILPOINT";

/// The environment variable that names a file which arms failpoints.
pub const FILE_VARIABLE: &str = "NARAD_FAILPOINT_FILE";

/// Longest list in a file, in bytes.
const FILE_BYTES_MAX: usize = 4096;

/// What a process may be stopped before and after.
const OPERATIONS: [&str; 19] = [
    "open",
    "expose",
    "close",
    "copy",
    "checkpoint",
    "trim",
    "probe",
    "verify",
    "install",
    "restage",
    "set-aside",
    "listing",
    "freeze",
    "watermarks",
    "inspect",
    "send",
    "ingress-checkpoint",
    "carry",
    "salvage",
];

/// The same, for commands of the replicated log.
const COMMANDS: [&str; 5] = ["target", "flip", "resolve", "revoke", "register"];

/// What a process may be stopped before.
const BEGINNINGS: [&str; 7] = ["list", "prepare", "renew", "release", "stand", "thaw", "ack"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Kill,
    Stop,
}

/// How often each place is still to be passed, and what happens then.
type Places = BTreeMap<String, (u32, Action)>;

#[derive(Debug, Default)]
struct Armed {
    places: Places,
    file: Option<PathBuf>,
    /// What the file held when it was last looked at.
    text: String,
}

static ARMED: OnceLock<Option<Mutex<Armed>>> = OnceLock::new();

/// Why a text arms nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{VARIABLE}: {text:?} is not WHERE:kill or WHERE:stop, with @N after WHERE if wanted; WHERE is \
     before- or after- and one of {}", names().collect::<Vec<_>>().join(", ")
)]
pub struct FailpointError {
    text: String,
}

/// Returns everything that has a place before it.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.into_iter().chain(COMMANDS).chain(BEGINNINGS)
}

/// Arms what the environment asks for; called once, at the start of a server.
///
/// # Errors
///
/// If the variable holds something else than failpoints.
pub fn arm_from_environment() -> Result<(), FailpointError> {
    let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
    let file = std::env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
    let armed = if text.is_some() || file.is_some() {
        let places = text.as_deref().map(parse).transpose()?.unwrap_or_default();
        Some(Mutex::new(Armed { places, file, text: String::new() }))
    } else {
        None
    };
    // A second server in one process has the same environment.
    drop(ARMED.set(armed));
    Ok(())
}

fn parse(text: &str) -> Result<Places, FailpointError> {
    text.split(',').map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<(String, (u32, Action)), FailpointError> {
    let error = || FailpointError { text: text.to_owned() };
    let (place, action) = text.trim().split_once(':').ok_or_else(error)?;
    let action = match action {
        "kill" => Action::Kill,
        "stop" => Action::Stop,
        _ => return Err(error()),
    };
    let (place, times) = match place.split_once('@') {
        Some((place, times)) => (place, times.parse().map_err(|_| error())?),
        None => (place, 1),
    };
    let known = match place.split_once('-') {
        Some(("before", name)) => names().any(|known| known == name),
        Some(("after", name)) => OPERATIONS.contains(&name) || COMMANDS.contains(&name),
        Some(_) | None => false,
    };
    if !known || times == 0 {
        return Err(error());
    }
    Ok((place.to_owned(), (times, action)))
}

/// Passes the place before an operation.
pub(super) fn before(operation: &Operation) {
    if let Some(name) = ARMED.get().and_then(Option::as_ref).and_then(|_| name_of(operation)) {
        pass(&format!("before-{name}"));
    }
}

/// Passes the place after an operation.
pub(super) fn after(outcome: &Outcome) {
    if let Some(name) = ARMED.get().and_then(Option::as_ref).and_then(|_| name_of_outcome(outcome))
    {
        pass(&format!("after-{name}"));
    }
}

/// Passes the place between an append and its acknowledgement.
pub(super) fn acknowledging() {
    if ARMED.get().is_some_and(Option::is_some) {
        pass("before-ack");
    }
}

/// Passes the places of the replicated log.
pub(super) fn step(step: Step<'_>) {
    if ARMED.get().is_none_or(Option::is_none) {
        return;
    }
    let (side, command) = match step {
        Step::Appending(command) => ("before", command),
        Step::Applying(command) => ("after", command),
    };
    if let Some(name) = name_of_command(command) {
        pass(&format!("{side}-{name}"));
    }
}

fn pass(place: &str) {
    let Some(Some(armed)) = ARMED.get() else { return };
    let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
    armed.look();
    let Some((times, action)) = armed.places.get_mut(place) else { return };
    *times -= 1;
    if *times > 0 {
        return;
    }
    let action = *action;
    armed.places.remove(place);
    tracing::warn!(place, ?action, "failpoint");
    let signal = match action {
        Action::Kill => Signal::KILL,
        Action::Stop => Signal::STOP,
    };
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(place, %error, "the failpoint did not work");
    }
    // The kernel stops the threads of a process one after the other, this one perhaps last. While
    // the lock is held no other thread passes a place.
    std::thread::sleep(Duration::from_millis(20));
}

impl Armed {
    /// Arms what the file holds, if that is something else than before.
    fn look(&mut self) {
        let Some(file) = &self.file else { return };
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if text == self.text || text.len() > FILE_BYTES_MAX {
            return;
        }
        self.places = match parse(text.trim()) {
            Ok(places) => places,
            Err(error) => {
                if !text.trim().is_empty() {
                    tracing::error!(%error, file = %file.display(), "nothing is armed");
                }
                Places::new()
            }
        };
        self.text = text;
    }
}

fn name_of(operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::Call { request, .. } => match request {
            Request::Propose(entry) => name_of_command(&entry.command),
            Request::List { .. } => Some("list"),
            Request::Prepare { .. } => Some("prepare"),
            Request::Renew { .. } => Some("renew"),
            Request::Release { .. } => Some("release"),
            Request::TakeAcks { .. } => Some("forward-acks"),
            Request::Heartbeat { .. } | Request::Join { .. } => None,
        },
        Operation::Host(_, work) => Some(match work {
            host::Operation::Open { .. } => "open",
            host::Operation::Expose { .. } => "expose",
            host::Operation::Close => "close",
        }),
        Operation::Stage(_, work) => Some(match work {
            Staging::Copy { .. } => "copy",
            Staging::Checkpoint(_) => "checkpoint",
            Staging::Trim(_) => "trim",
            Staging::Probe { .. } => "probe",
            Staging::Verify(_) => "verify",
            Staging::Install { .. } => "install",
            Staging::Restage(_) => "restage",
            Staging::SetAside(_) => "set-aside",
        }),
        Operation::Gate(_, gating) => Some(match gating {
            Gating::Stand(_) => "stand",
            Gating::List { .. } => "listing",
            Gating::Freeze { .. } => "freeze",
            Gating::Thaw(_) => "thaw",
            Gating::Resume(_) => "resume",
            Gating::HandOver { .. } => "hand-over",
            Gating::Take(_) => "take-acks",
        }),
        Operation::Ship(shipping) => Some(match shipping {
            Shipping::Send { .. } => "send",
            Shipping::Checkpoint(_) => "ingress-checkpoint",
            Shipping::Carry(_) => "carry",
            Shipping::Salvage { .. } => "salvage",
        }),
        Operation::Watermarks(_) => Some("watermarks"),
        Operation::Inspect(_) => Some("inspect"),
        // The replica keeps most of these to itself; of what it appends it tells by a [`Step`].
        Operation::Append(_)
        | Operation::Barrier
        | Operation::Survey
        | Operation::Configure(_)
        | Operation::Transfer { .. }
        | Operation::NextIncarnation
        | Operation::CloseAccept
        | Operation::OpenAccept => None,
    }
}

fn name_of_command(command: &Command) -> Option<&'static str> {
    match command {
        Command::SetTarget { .. } => Some("target"),
        Command::CompleteMove { .. } => Some("flip"),
        Command::Resolve { .. } => Some("resolve"),
        Command::Revoke { .. } => Some("revoke"),
        Command::Register { .. } => Some("register"),
        _ => None,
    }
}

fn name_of_outcome(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Host(work) => Some(match work {
            host::Outcome::Open(_) => "open",
            host::Outcome::Expose(_) => "expose",
            host::Outcome::Close => "close",
        }),
        Outcome::Stage(work) => Some(match work {
            StagingOutcome::Copy(_) => "copy",
            StagingOutcome::Checkpoint(_) => "checkpoint",
            StagingOutcome::Trim(_) => "trim",
            StagingOutcome::Probe(_) => "probe",
            StagingOutcome::Verify(_) => "verify",
            StagingOutcome::Install(_) => "install",
            StagingOutcome::Restage(_) => "restage",
            StagingOutcome::SetAside(_) => "set-aside",
        }),
        Outcome::Gate(gating) => match gating {
            GatingOutcome::List(_) => Some("listing"),
            GatingOutcome::Freeze(_) => Some("freeze"),
            GatingOutcome::HandOver(_) => Some("hand-over"),
            GatingOutcome::Take(_) => Some("take-acks"),
            GatingOutcome::Stand | GatingOutcome::Thaw | GatingOutcome::Resume => None,
        },
        Outcome::Ship(shipping) => Some(match shipping {
            ShippingOutcome::Send(_) | ShippingOutcome::Damaged(_) => "send",
            ShippingOutcome::Checkpoint(_) => "ingress-checkpoint",
            ShippingOutcome::Carry(_) => "carry",
            ShippingOutcome::Salvage(_) => "salvage",
        }),
        Outcome::Watermarks(_) => Some("watermarks"),
        Outcome::Append(_)
        | Outcome::Barrier(_)
        | Outcome::Survey(_)
        | Outcome::Configure(_)
        | Outcome::Transfer
        | Outcome::Call(_)
        | Outcome::NextIncarnation(_)
        | Outcome::CloseAccept(_)
        | Outcome::OpenAccept => None,
        Outcome::Inspect(_) => Some("inspect"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_places_is_read() {
        let armed = parse("before-flip:kill, after-install@3:stop").expect("two places");
        assert_eq!(armed["before-flip"], (1, Action::Kill));
        assert_eq!(armed["after-install"], (3, Action::Stop));
    }

    #[test]
    fn anything_else_is_refused_with_the_form_that_is_wanted() {
        let nonsense = [
            "",
            ":kill",
            "flip:kill",
            "before-flip",
            "before-flip:burn",
            "before-flip@0:kill",
            "before-flipp:kill",
            "after-prepare:kill",
        ];
        for text in nonsense {
            let error = parse(text).expect_err(text);
            assert!(error.to_string().contains("set-aside"), "{error}");
        }
    }

    #[test]
    fn the_file_arms_whenever_its_text_is_another_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("failpoints");
        let mut armed = Armed { file: Some(file.clone()), ..Armed::default() };
        armed.look();
        assert_eq!(armed.places, Places::new());

        std::fs::write(&file, "before-flip:kill\n").expect("written");
        armed.look();
        assert_eq!(armed.places["before-flip"], (1, Action::Kill));
        armed.places.clear();
        armed.look();
        assert_eq!(armed.places, Places::new(), "a place that was passed stays passed");

        std::fs::write(&file, "nonsense").expect("written");
        armed.look();
        assert_eq!(armed.places, Places::new());

        std::fs::write(&file, "after-open:stop").expect("written");
        armed.look();
        assert_eq!(armed.places["after-open"], (1, Action::Stop));
        std::fs::remove_file(&file).expect("removed");
        armed.look();
        assert_eq!(armed.places, Places::new());
    }
}
