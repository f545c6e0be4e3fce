//! How operations end, as a scenario says it and as a node is told.

use narad_core::dispatch::{LogFault, SendFault};
use narad_core::host;
use narad_core::mover::Fault;
use narad_core::node::{
    CallFault, Gating, GatingOutcome, Operation, Outcome, Shipping, ShippingOutcome, Staging,
    StagingOutcome,
};

use crate::scenario::{Ending, Failure};

/// Returns the outcome of an operation that fails so, if it can.
pub(super) fn failed(failure: Failure, operation: &Operation) -> Option<Outcome> {
    let fault = match failure {
        Failure::Disk => Fault::Disk,
        Failure::DiskFull => Fault::DiskFull,
        Failure::Unreachable => Fault::Unreachable,
        Failure::TimedOut => Fault::TimedOut,
    };
    let of_host = match failure {
        Failure::DiskFull => host::Fault::DiskFull,
        Failure::Disk | Failure::Unreachable | Failure::TimedOut => host::Fault::Disk,
    };
    Some(match operation {
        Operation::Call { .. } => Outcome::Call(Err(match failure {
            Failure::Unreachable => CallFault::Unreachable,
            Failure::Disk | Failure::DiskFull | Failure::TimedOut => CallFault::TimedOut,
        })),
        Operation::Append(_) => Outcome::Append(false),
        Operation::Barrier => Outcome::Barrier(None),
        Operation::Survey => Outcome::Survey(None),
        Operation::Configure(_) => Outcome::Configure(false),
        Operation::Transfer { .. } => Outcome::Transfer,
        Operation::NextIncarnation => Outcome::NextIncarnation(None),
        Operation::Inspect(_) => Outcome::Inspect(None),
        Operation::Host(_, host::Operation::Open { .. }) => {
            Outcome::Host(host::Outcome::Open(Err(of_host)))
        }
        Operation::Host(_, host::Operation::Expose { .. }) => {
            Outcome::Host(host::Outcome::Expose(Err(of_host)))
        }
        Operation::Stage(_, work) => Outcome::Stage(match work {
            Staging::Copy { .. } => StagingOutcome::Copy(Err(fault)),
            Staging::Checkpoint(_) => StagingOutcome::Checkpoint(Err(fault)),
            Staging::Trim(_) => StagingOutcome::Trim(Err(fault)),
            Staging::Probe { .. } => StagingOutcome::Probe(Err(fault)),
            Staging::Verify(_) => StagingOutcome::Verify(Err(fault)),
            Staging::Install { .. } => StagingOutcome::Install(Err(fault)),
            Staging::Restage(_) => StagingOutcome::Restage(Err(fault)),
            Staging::SetAside(_) => StagingOutcome::SetAside(Err(fault)),
        }),
        Operation::Ship(work) => Outcome::Ship(match work {
            Shipping::Send { .. } => ShippingOutcome::Send(Err(match failure {
                Failure::Disk => SendFault::Disk,
                Failure::DiskFull => SendFault::DiskFull,
                Failure::Unreachable => SendFault::Unreachable,
                Failure::TimedOut => SendFault::TimedOut,
            })),
            Shipping::Checkpoint(_) => ShippingOutcome::Checkpoint(Err(LogFault)),
            Shipping::Carry(_) => ShippingOutcome::Carry(Err(LogFault)),
            Shipping::Salvage { .. } => ShippingOutcome::Salvage(None),
        }),
        Operation::Gate(_, Gating::Take(_)) => Outcome::Gate(GatingOutcome::Take(None)),
        Operation::Gate(_, Gating::List { .. }) => Outcome::Gate(GatingOutcome::List(None)),
        Operation::Gate(
            _,
            Gating::Stand(_)
            | Gating::Freeze { .. }
            | Gating::Thaw(_)
            | Gating::Resume(_)
            | Gating::HandOver { .. },
        )
        | Operation::Host(_, host::Operation::Close)
        | Operation::Watermarks(_)
        | Operation::CloseAccept
        | Operation::OpenAccept => return None,
    })
}

/// Returns how an operation ended, in a scenario's words.
pub(super) fn ending_of(outcome: &Outcome) -> Option<Ending> {
    use narad_core::peer::{Answer, Refusal};
    let of = |result: bool| Some(if result { Ending::Ok } else { Ending::Failed });
    match outcome {
        Outcome::Call(Ok(Answer::Refused(Refusal::Unknown)) | Err(CallFault::TimedOut))
        | Outcome::Barrier(None)
        | Outcome::Survey(None) => Some(Ending::Unknown),
        Outcome::Call(Ok(Answer::Refused(_))) => Some(Ending::Rejected),
        Outcome::Call(Ok(_)) | Outcome::Barrier(_) | Outcome::Survey(_) | Outcome::Transfer => {
            Some(Ending::Ok)
        }
        Outcome::Call(Err(CallFault::Unreachable | CallFault::Malformed))
        | Outcome::Ship(ShippingOutcome::Damaged(_)) => Some(Ending::Failed),
        Outcome::Append(taken) | Outcome::Configure(taken) => of(*taken),
        Outcome::NextIncarnation(next) => of(next.is_some()),
        Outcome::Inspect(found) => of(found.is_some()),
        Outcome::Host(host::Outcome::Open(result)) => of(result.is_ok()),
        Outcome::Host(host::Outcome::Expose(result)) => of(result.is_ok()),
        Outcome::Host(host::Outcome::Close)
        | Outcome::Watermarks(_)
        | Outcome::OpenAccept
        | Outcome::Gate(
            GatingOutcome::Stand
            | GatingOutcome::Thaw
            | GatingOutcome::Resume
            | GatingOutcome::HandOver(_),
        ) => Some(Ending::Ok),
        Outcome::CloseAccept(empty) => of(*empty),
        Outcome::Gate(GatingOutcome::List(listing)) => of(listing.is_some()),
        Outcome::Gate(GatingOutcome::Take(taken)) => of(taken.is_some()),
        Outcome::Ship(ShippingOutcome::Send(result)) => match result {
            Ok(()) => Some(Ending::Ok),
            Err(SendFault::TimedOut) => Some(Ending::Unknown),
            Err(fault) if fault.is_answer() => Some(Ending::Rejected),
            Err(_) => Some(Ending::Failed),
        },
        Outcome::Ship(ShippingOutcome::Checkpoint(result)) => of(result.is_ok()),
        Outcome::Ship(ShippingOutcome::Carry(result)) => of(result.is_ok()),
        Outcome::Ship(ShippingOutcome::Salvage(salvaged)) => of(salvaged.is_some()),
        Outcome::Gate(GatingOutcome::Freeze(result)) => of(result.is_ok()),
        Outcome::Stage(outcome) => of(match outcome {
            StagingOutcome::Copy(result) => result.is_ok(),
            StagingOutcome::Verify(result) => result.is_ok(),
            StagingOutcome::Checkpoint(result)
            | StagingOutcome::Trim(result)
            | StagingOutcome::Probe(result)
            | StagingOutcome::Install(result)
            | StagingOutcome::Restage(result)
            | StagingOutcome::SetAside(result) => result.is_ok(),
        }),
    }
}
