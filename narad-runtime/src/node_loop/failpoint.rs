//! Stops this process exactly where an operator of tests wants it to.
//!
//! `NARAD_FAILPOINT` holds a comma-separated list of `WHERE:ACTION`, or `WHERE@N:ACTION` for the
//! N-th time only (default 1):
//!
//! - `WHERE` is `before-` or `after-` and one of `list`, `copy`, `checkpoint`, `trim`, `prepare`,
//!   `renew`, `release`, `verify`, `install`, `restage`, `set-aside`, `flip`, `resolve`, `revoke`,
//!   `register`, `open`, `expose`, `close`, `freeze`, `thaw`, `stand`, `watermarks`. Proposals and
//!   calls have no `after-`: what became of them is not known to the sender.
//! - `ACTION` is `kill` (SIGKILL, as by the kernel's out-of-memory killer) or `stop` (SIGSTOP: the
//!   process stands still until SIGCONT, and can be killed there).
//!
//! Without the variable this costs one atomic load an operation.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use narad_core::host;
use narad_core::metastore::Command;
use narad_core::node::{Gating, GatingOutcome, Operation, Outcome, Staging, StagingOutcome};
use narad_core::peer::Request;
use rustix::process::{Signal, getpid, kill_process};

/// The environment variable that arms failpoints.
pub const VARIABLE: &str = "NARAD_FAILPOINT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Kill,
    Stop,
}

#[derive(Debug, Default)]
struct Armed {
    /// How often each place is still to be passed, and what happens then.
    places: BTreeMap<String, (u32, Action)>,
}

static ARMED: OnceLock<Option<Mutex<Armed>>> = OnceLock::new();

/// Why a text arms nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{VARIABLE}: {text:?} is not WHERE:kill or WHERE:stop, with @N after WHERE if wanted")]
pub struct FailpointError {
    text: String,
}

/// Arms what the environment asks for; called once, at the start of a server.
///
/// # Errors
///
/// If the variable holds something else than failpoints.
pub fn arm_from_environment() -> Result<(), FailpointError> {
    let armed = match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => Some(Mutex::new(parse(&text)?)),
        Ok(_) | Err(_) => None,
    };
    // A second server in one process has the same environment.
    drop(ARMED.set(armed));
    Ok(())
}

fn parse(text: &str) -> Result<Armed, FailpointError> {
    let places = text.split(',').map(parse_one).collect::<Result<_, _>>()?;
    Ok(Armed { places })
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
    let known = place.starts_with("before-") || place.starts_with("after-");
    if !known || times == 0 {
        return Err(error());
    }
    Ok((place.to_owned(), (times, action)))
}

/// Passes the place before an operation.
pub(super) fn before(operation: &Operation) {
    if let Some(name) = ARMED.get().and_then(Option::as_ref).and(name_of(operation)) {
        pass(&format!("before-{name}"));
    }
}

/// Passes the place after an operation.
pub(super) fn after(outcome: &Outcome) {
    if let Some(name) = ARMED.get().and_then(Option::as_ref).and(name_of_outcome(outcome)) {
        pass(&format!("after-{name}"));
    }
}

fn pass(place: &str) {
    let Some(Some(armed)) = ARMED.get() else { return };
    let mut armed = armed.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((times, action)) = armed.places.get_mut(place) else { return };
    *times -= 1;
    if *times > 0 {
        return;
    }
    let action = *action;
    armed.places.remove(place);
    drop(armed);
    let signal = match action {
        Action::Kill => Signal::KILL,
        Action::Stop => Signal::STOP,
    };
    tracing::warn!(place, ?action, "failpoint");
    if let Err(error) = kill_process(getpid(), signal) {
        tracing::error!(place, %error, "the failpoint did not work");
    }
}

fn name_of(operation: &Operation) -> Option<&'static str> {
    match operation {
        Operation::Append(entry) => name_of_command(&entry.command),
        Operation::Call { request, .. } => match request {
            Request::Propose(entry) => name_of_command(&entry.command),
            Request::List { .. } => Some("list"),
            Request::Prepare { .. } => Some("prepare"),
            Request::Renew { .. } => Some("renew"),
            Request::Release { .. } => Some("release"),
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
        }),
        Operation::Watermarks(_) => Some("watermarks"),
        Operation::Barrier
        | Operation::Survey
        | Operation::Configure(_)
        | Operation::Transfer { .. }
        | Operation::NextIncarnation
        | Operation::Inspect(_)
        | Operation::CloseAccept
        | Operation::OpenAccept => None,
    }
}

fn name_of_command(command: &Command) -> Option<&'static str> {
    match command {
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
            GatingOutcome::Stand | GatingOutcome::Thaw => None,
        },
        Outcome::Watermarks(_) => Some("watermarks"),
        Outcome::Append(_)
        | Outcome::Barrier(_)
        | Outcome::Survey(_)
        | Outcome::Configure(_)
        | Outcome::Transfer
        | Outcome::Call(_)
        | Outcome::NextIncarnation(_)
        | Outcome::Inspect(_)
        | Outcome::CloseAccept(_)
        | Outcome::OpenAccept => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_places_is_read() {
        let armed = parse("before-flip:kill, after-install@3:stop").expect("two places");
        assert_eq!(armed.places["before-flip"], (1, Action::Kill));
        assert_eq!(armed.places["after-install"], (3, Action::Stop));
    }

    #[test]
    fn anything_else_is_refused_with_the_form_that_is_wanted() {
        for text in ["flip:kill", "before-flip", "before-flip:burn", "before-flip@0:kill", ":kill"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
