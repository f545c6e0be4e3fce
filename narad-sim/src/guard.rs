//! Catches what panics in a run, so that a sweep goes on and tells the seed.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use crate::lab::{Finished, Laboratory, Pulse, RunOptions, Stop, Watch};
use crate::outcome::{Summary, Violation};

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a scenario; a panic becomes a violation of its own, called `panic`.
pub fn run<L: Laboratory>(
    lab: &L,
    scenario: &L::Scenario,
    seed: u64,
    watch: Option<&mut dyn Watch>,
    stop: Stop<'_>,
) -> Finished {
    let pulse = Pulse::default();
    // Shortens two lifetimes, which needs a place where the object is made anew.
    let watch = watch.map(|watch| -> &mut dyn Watch { watch });
    let options = RunOptions { seed, watch, stop, pulse: &pulse };
    // Nothing of a world that panicked is looked at again, except the pulse, which is two numbers.
    let outcome = quietly(|| panic::catch_unwind(AssertUnwindSafe(|| lab.run(scenario, options))));
    outcome.unwrap_or_else(|payload| {
        let seen = SEEN.take();
        let text = seen.unwrap_or_else(|| message(payload.as_ref()).to_owned());
        let (event, at_us) = (pulse.event.get(), pulse.at_us.get());
        let violation = Violation { invariant: "panic".into(), at_us, event, text };
        let mut summary = bare(lab.name(scenario), seed, violation);
        summary.metastore = lab.metastore(scenario).word().into();
        summary.nodes = u32::try_from(lab.burden(scenario).nodes).unwrap_or(u32::MAX);
        Finished { summary, complete: true }
    })
}

/// Does something whose panics are caught and reported by itself: nothing is printed.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    hook();
    let before = WATCHED.replace(true);
    let result = work();
    WATCHED.set(before);
    result
}

/// Keeps what a watched run panics with, and prints nothing; leaves all other panics alone.
fn hook() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            if !WATCHED.get() {
                return usual(info);
            }
            let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
            let text = format!("{}{}", message(info.payload()), place.unwrap_or_default());
            SEEN.set(Some(text));
        }));
    });
}

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
}

/// All that is known about a run that did not get to count.
fn bare(scenario: &str, seed: u64, violation: Violation) -> Summary {
    Summary {
        scenario: scenario.into(),
        seed,
        events: violation.event,
        simulated_us: violation.at_us,
        violations: vec![violation],
        ..Summary::default()
    }
}
