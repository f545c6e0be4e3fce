//! Schedules of several steps that have broken designs like this one.

mod alone;
mod death;
mod disk;
mod hunted;
mod late;
mod membership;
mod slow;

use super::strike::{AT_DESTINATION, AT_SOURCE, Blow, IN_LOG};
use super::{Bias, Draft};
use crate::scenario::{Step, Via};

pub(super) use alone::{refused_at_first, untold};
pub(super) use hunted::promoted;
pub(super) use slow::{thaw_of_a_past_life, word_of_an_earlier_life, word_of_who_leads};

/// One kind of schedule.
pub(super) struct Gadget {
    /// The biases that it serves.
    pub(super) of: &'static [Bias],
    /// Draws the steps of one.
    pub(super) draw: fn(&mut Draft<'_>),
}

macro_rules! gadgets {
    ($($draw:path => $($bias:ident)+;)+) => {
        &[$(Gadget { of: &[$(Bias::$bias),+], draw: $draw },)+]
    };
}

/// All of them.
pub(super) const GADGETS: &[Gadget] = gadgets! {
    late::flip => Flip Freeze;
    late::proposal => Flip Leader Membership;
    late::lost_answer => Flip Leader Network;
    late::twice => Flip Museum;
    late::two_lives => Flip Restart;
    late::planned_again => Flip Topics;
    late::old_message => Museum Freeze;
    late::old_proposal => Museum Flip;
    late::heartbeat => Leader Clock Death;
    late::commit_in_flight => Freeze Clock;
    late::answer => Network Freeze;
    late::corrupted => Network Disk;
    death::of_source => Death Restart;
    death::twice => Death Flip;
    death::zombie => Death Network;
    death::behind_a_cut => Death Network;
    death::of_both => Death Restart Power;
    death::deposed_leader => Leader Death Network;
    death::soon_after_flip => Power Restart Death;
    disk::crash_within => Power Restart;
    disk::failing_work => Disk;
    disk::full => Disk;
    disk::failing_steps => Disk Power;
    disk::rot => Disk;
    disk::retention => Topics Disk;
    membership::carousel => Membership;
    membership::cancel_at_retire => Membership Flip;
    membership::move_to_leaving => Membership;
    membership::rolling_restart => Restart Membership;
    membership::stale_command => Flip Membership Leader;
    membership::deleted_in_the_middle => Topics Flip;
    membership::moved_on => Freeze Flip;
    hunted::exodus => Freeze Topics;
    hunted::late_thaw => Freeze;
    hunted::late_capture => Freeze;
    hunted::slow_destination => Freeze Clock;
    hunted::hidden_tail => Freeze Death Disk Restart;
    hunted::fetched_ahead => Death;
    hunted::old_session => Death Network Flip;
    hunted::drained_after_death => Death Membership;
    hunted::erased => Disk Power;
    hunted::far_behind => Death Network;
    hunted::target_of_dead => Death Membership;
    hunted::died_before => Death Clock Restart;
    hunted::condemned => Clock Leader;
    hunted::leader_asleep => Leader Clock Death Network;
    hunted::blackout => Power Restart;
    hunted::flicker => Power Restart;
    hunted::left_behind => Leader;
    hunted::full_then_dead => Disk Death;
    hunted::slow_stand => Disk Death Network;
    hunted::new_life_lost => Power Restart;
    restart_at_destination => Restart Flip;
    restart_at_source => Restart Freeze;
    power_at_a_point => Power;
    restart_by_log => Restart Leader;
    leader_at_a_point => Leader;
    disk_at_a_point => Disk;
    link_at_a_point => Network;
    time_at_a_point => Clock Freeze;
    lag_at_a_point => Leader;
    any_time => Restart Power Network Disk Clock;
    clocks => Clock;
    written_around_a_freeze => Freeze Flip;
};

fn restart_at_destination(draft: &mut Draft<'_>) {
    draft.strike(AT_DESTINATION, &[Blow::Kill, Blow::Stop, Blow::Power]);
}

fn restart_at_source(draft: &mut Draft<'_>) {
    draft.strike(AT_SOURCE, &[Blow::Kill, Blow::Stop, Blow::Power]);
}

fn power_at_a_point(draft: &mut Draft<'_>) {
    let points = if draft.dice.happens(50) { AT_SOURCE } else { AT_DESTINATION };
    draft.strike(points, &[Blow::Power]);
}

fn restart_by_log(draft: &mut Draft<'_>) {
    draft.strike(IN_LOG, &[Blow::Kill, Blow::Power, Blow::Lag]);
}

fn leader_at_a_point(draft: &mut Draft<'_>) {
    use crate::scenario::{Action, Who};
    let partition = draft.partition();
    let points = *draft.dice.pick(&[AT_DESTINATION, AT_SOURCE, IN_LOG]);
    let when = draft.point(points, &partition);
    let action = if draft.dice.happens(40) {
        draft.blow(Who::Leader, &[Blow::Kill, Blow::Pause, Blow::Cut, Blow::CutOut, Blow::CutIn])
    } else {
        Action::Transfer { to: Who::Follower }
    };
    draft.push(Step::new(when, action));
}

fn disk_at_a_point(draft: &mut Draft<'_>) {
    let points = if draft.dice.happens(30) { AT_SOURCE } else { AT_DESTINATION };
    draft.strike(points, &[Blow::DiskFail, Blow::DiskFull, Blow::DiskSlow, Blow::DiskStuck]);
}

fn link_at_a_point(draft: &mut Draft<'_>) {
    let points = *draft.dice.pick(&[AT_DESTINATION, AT_SOURCE, IN_LOG]);
    draft.strike(points, &[Blow::Cut, Blow::CutOut, Blow::CutIn, Blow::Clog, Blow::Slow]);
}

fn time_at_a_point(draft: &mut Draft<'_>) {
    let points = *draft.dice.pick(&[AT_SOURCE, AT_DESTINATION]);
    draft.strike(points, &[Blow::Pause, Blow::Suspend, Blow::WallJump]);
}

fn lag_at_a_point(draft: &mut Draft<'_>) {
    let points = *draft.dice.pick(&[IN_LOG, AT_DESTINATION, AT_SOURCE]);
    draft.strike(points, &[Blow::Lag, Blow::Clog]);
}

/// Faults at a time rather than at a point of a move.
fn any_time(draft: &mut Draft<'_>) {
    const KINDS: &[Blow] = &[
        Blow::Kill,
        Blow::Power,
        Blow::Cut,
        Blow::Pause,
        Blow::CutOut,
        Blow::CutIn,
        Blow::Clog,
        Blow::Lag,
        Blow::DiskStuck,
        Blow::DiskSlow,
        Blow::DiskFail,
        Blow::DiskFull,
        Blow::Suspend,
        Blow::Stop,
    ];
    for _ in 0..draft.dice.within(1, 4) {
        let (when, node) = (draft.moment(), draft.anyone());
        let action = draft.blow(node, KINDS);
        draft.push(Step::new(when, action));
    }
}

/// Clocks that run at different rates, within the bound that the policy allows for.
fn clocks(draft: &mut Draft<'_>) {
    for number in 1..=draft.scenario.cluster.nodes {
        if draft.dice.happens(60) {
            let node = crate::scenario::Who::Node(crate::scenario::Machine(number));
            let kinds = [Blow::ClockRate, Blow::ClockRate, Blow::WallJump];
            let (when, action) = (draft.moment(), draft.blow(node, &kinds));
            draft.push(Step::new(when, action));
        }
    }
}

/// Records that are written just before, in and just after a freeze.
fn written_around_a_freeze(draft: &mut Draft<'_>) {
    use crate::scenario::{Action, On, Stage, When, Who};
    let partition = draft.partition();
    let points = [
        (Stage::Freeze, "begin"),
        (Stage::Freeze, "end"),
        (Stage::Committed, "flip"),
        (Stage::Committed, "revoke"),
        (Stage::Effect, "freeze"),
        (Stage::Deliver, "prepare"),
    ];
    for _ in 0..draft.dice.within(1, 3) {
        let (stage, name) = *draft.dice.pick(&points);
        let mut on: On = Draft::first(stage, name, &partition);
        on.filter.times = 0;
        let mut step = Step::new(
            When::on(on),
            Action::Produce {
                partition: partition.clone(),
                records: *draft.dice.pick(&[1, 3, 20]),
                bytes: None,
                // Who is asked does not know better than its own replica.
                node: Some(Who::Here),
                via: Some(Via::Direct),
                address: None,
            },
        );
        if draft.dice.happens(50) {
            step.when.after = draft.dice.millis(1, 100);
        }
        draft.push(step);
    }
}
