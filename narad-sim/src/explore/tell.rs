//! Words for what happens, so that a person can read a path.

use narad_core::host;
use narad_core::metastore::{Command, Fence, Reply};
use narad_core::node::{Gating, Operation, Shipping, Staging};
use narad_core::peer::{Answer, Request};

use super::action::Action;
use super::world::{Message, Running, World};

pub(super) fn action(world: &World, action: Action) -> String {
    let message = |at: u8| world.wire.get(usize::from(at)).map_or_else(String::new, |m| wire(m));
    match action {
        Action::Apply(id) => {
            let entry = world.log.after(world.applied(narad_core::ids::NodeId(id.into())));
            let entry = entry.map_or_else(String::new, |entry| command(&entry.command));
            format!("n{id} applies {entry}")
        }
        Action::Perform(id, at) => {
            let process = world.process(narad_core::ids::NodeId(id.into()));
            let running = process.and_then(|p| p.running.values().nth(at.into()));
            let what = match running {
                Some(Running::Pending(work)) => operation(work),
                _ => String::new(),
            };
            format!("n{id} {what}")
        }
        Action::Deliver(at) => match world.wire.get(usize::from(at)).map(|m| &**m) {
            Some(Message::Proposal { from, entry, .. }) => {
                format!("LOG: {} of {from:?} COMMITS", command(&entry.command))
            }
            _ => format!("{} arrives", message(at)),
        },
        Action::Admit(id) => format!("n{id}: record r{} passes the gate", world.ghost.produced + 1),
        Action::Write(id) => format!("n{id}: the record is durable"),
        Action::Ack(id) => format!("n{id}: the gate is asked again, then the record acknowledged"),
        Action::Plan(to) => format!("LOG: SetTarget, the partition is to move to n{to}"),
        Action::Restart(id) => format!("n{id} starts again"),
        Action::Heal(id) => format!("HEAL: n{id} is reached again"),
        Action::Arrive(at) => {
            let late = world.held.get(usize::from(at)).map(|m| &**m);
            match late {
                Some(Message::Proposal { from, entry, .. }) => {
                    format!("LOG: the late {} of {from:?} COMMITS", command(&entry.command))
                }
                late => format!("late, {} arrives", late.map_or_else(String::new, wire)),
            }
        }
        Action::CatchUp(id) => format!("n{id} goes on applying"),
        Action::MarkDead(id) => format!("LOG: MarkDead, n{id} was silent for too long"),
        Action::Pause => "time passes, since nobody has anything else to do".to_owned(),
        Action::Lose(at) => format!("FAULT: {} is lost, whoever waits times out", message(at)),
        Action::Late(at) => format!("FAULT: {} is late, whoever waits times out", message(at)),
        Action::Duplicate(at) => format!("FAULT: {} arrives, and will again", message(at)),
        Action::Hold(at) => format!("FAULT: {} takes its time", message(at)),
        Action::Lag(id) => format!("FAULT: n{id} applies nothing for now"),
        Action::Dawdle(id) => format!("FAULT: the append at n{id} takes its time"),
        Action::Crash(id) => format!("FAULT: n{id} crashes"),
        Action::Cut(id) => format!("FAULT: n{id} is cut off from the log"),
        Action::Isolate(id) => format!("FAULT: n{id} is cut off from the log and from all nodes"),
        Action::Cancel => "OPERATOR: ClearTarget, the move is cancelled".to_owned(),
        Action::Declare => "OPERATOR: DeclareLost, what the owner has is given up".to_owned(),
        Action::Delete => "OPERATOR: DeleteTopic".to_owned(),
        Action::Expire => "FAULT: time passes although something could have happened".to_owned(),
    }
}

/// Names an action for programs.
pub(super) const fn kind(action: Action) -> &'static str {
    match action {
        Action::Apply(_) => "apply",
        Action::Perform(..) => "perform",
        Action::Deliver(_) => "deliver",
        Action::Admit(_) => "admit",
        Action::Write(_) => "write",
        Action::Ack(_) => "ack",
        Action::Plan(_) => "plan",
        Action::Restart(_) => "restart",
        Action::Heal(_) => "heal",
        Action::Arrive(_) => "arrive",
        Action::CatchUp(_) => "catch-up",
        Action::MarkDead(_) => "mark-dead",
        Action::Hold(_) => "hold",
        Action::Lag(_) => "lag",
        Action::Dawdle(_) => "dawdle",
        Action::Pause => "pause",
        Action::Lose(_) => "lose",
        Action::Late(_) => "late",
        Action::Duplicate(_) => "duplicate",
        Action::Crash(_) => "crash",
        Action::Cut(_) => "cut",
        Action::Isolate(_) => "isolate",
        Action::Cancel => "cancel",
        Action::Declare => "declare",
        Action::Delete => "delete",
        Action::Expire => "expire",
    }
}

fn wire(message: &Message) -> String {
    match message {
        Message::Request { from, to, request: asked, .. } => {
            format!("{} from {from:?} to {to:?}", request(asked))
        }
        Message::Answer { from, to, answer: said, .. } => {
            format!("the answer of {from:?} to {to:?}, {},", answer(said))
        }
        Message::Proposal { from, entry, .. } => {
            format!("the proposal of {from:?}, {},", command(&entry.command))
        }
    }
}

pub(super) fn request(request: &Request) -> String {
    match request {
        Request::Heartbeat { .. } => "heartbeat".to_owned(),
        Request::Propose(entry) => command(&entry.command),
        Request::Join { .. } => "join".to_owned(),
        Request::List { move_id, check, .. } => {
            format!("list(move {move_id}{})", if check.is_empty() { "" } else { ", compare" })
        }
        Request::Prepare { attempt, .. } => format!("prepare({attempt:?})"),
        Request::Renew { token, .. } => format!("renew({token:?})"),
        Request::Release { token, .. } => format!("release({token:?})"),
        Request::TakeAcks { .. } => "take-acks".to_owned(),
    }
}

pub(super) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Heartbeat { index } => format!("heard, log at {index}"),
        Answer::Accepted => "accepted".to_owned(),
        Answer::Joined { node, .. } => format!("joined as {node:?}"),
        Answer::Listing(listing) => {
            format!("listing {}..{} hwm {}", listing.start, listing.end, listing.hwm)
        }
        Answer::Capture(capture) => {
            let listing = &capture.listing;
            let token = capture.token;
            format!(
                "FROZEN under {token:?}, {}..{} hwm {}",
                listing.start, listing.end, listing.hwm
            )
        }
        Answer::Noted => "noted".to_owned(),
        Answer::Refused(refusal) => format!("refused, {refusal}"),
    }
}

pub(super) fn command(command: &Command) -> String {
    match command {
        Command::Register { node, incarnation, .. } => {
            format!("Register({node:?} life {incarnation})")
        }
        Command::MarkDead { node, .. } => format!("MarkDead({node:?})"),
        Command::Report { node, hwms, .. } => {
            let hwm = hwms.first().map_or(0, |(_, _, hwm)| hwm.0);
            format!("Report({node:?} hwm {hwm})")
        }
        Command::SetTarget { to, .. } => format!("SetTarget({to:?})"),
        Command::ClearTarget { move_id, .. } => format!("ClearTarget(move {move_id})"),
        Command::CompleteMove { attempt, fence, end, hwm, .. } => {
            let why = match fence {
                Fence::Normal { token } => format!("freeze {token:?}"),
                Fence::Forced { generation } => format!("death {generation}"),
            };
            format!("CompleteMove({attempt:?}, {why}, end {end}, hwm {hwm})")
        }
        Command::Resolve { attempt, .. } => format!("Resolve({attempt:?})"),
        Command::Revoke { token, .. } => format!("Revoke({token:?})"),
        Command::AssignPartition { node, .. } => format!("AssignPartition({node:?})"),
        other => format!("{other:?}"),
    }
}

pub(super) fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Applied(applied) => format!("{applied:?}"),
        Reply::Rejected(reason) => format!("no: {reason}"),
    }
}

fn operation(operation: &Operation) -> String {
    match operation {
        Operation::Stage(_, staging) => match staging {
            Staging::Copy { source, position, bytes, .. } => {
                format!("copies bytes {position}..{} from {source:?}", position + bytes)
            }
            Staging::Checkpoint(_) => "makes the copy and its manifest durable".to_owned(),
            Staging::Trim(_) => "trims the copy".to_owned(),
            Staging::Probe { .. } => "probes its disk".to_owned(),
            Staging::Verify(_) => "verifies the copy".to_owned(),
            Staging::Install { attempt, .. } => format!("installs the copy as {attempt:?}"),
            Staging::Restage(attempt) => format!("makes {attempt:?} the staging area again"),
            Staging::SetAside(what) => format!("sets {what:?} aside"),
        },
        Operation::Host(_, work) => match work {
            host::Operation::Open { data, .. } => format!("opens {data:?}"),
            host::Operation::Expose { .. } => "exposes what is durable in its log".to_owned(),
            host::Operation::Close => "closes its log".to_owned(),
        },
        Operation::Gate(_, gating) => match gating {
            Gating::Stand(standing) => format!("has its gate stand as {standing:?}"),
            Gating::List { .. } => "lists its log".to_owned(),
            Gating::Freeze { .. } => "freezes its gate".to_owned(),
            Gating::Thaw(token) => format!("thaws {token:?}"),
            Gating::Resume(_) => "lets consumers go on".to_owned(),
            Gating::HandOver { .. } => "lets consumers have no more".to_owned(),
            Gating::Take(_) => "takes acknowledgements of a past owner".to_owned(),
        },
        Operation::Ship(Shipping::Salvage { what, from, .. }) => {
            format!("accepts once more what {what:?} has from {from:?} on")
        }
        Operation::NextIncarnation => "makes its next incarnation durable".to_owned(),
        other => format!("{other:?}"),
    }
}
