use narad_core::ids::NodeId;

use super::*;
use crate::server::node_service::draining::tests::moved;

const SILENCE: Duration = Duration::from_secs(30);

fn facts() -> Standing {
    Standing {
        id: NodeId(4),
        life: Life::Alive,
        takes_part: true,
        draining: false,
        leads: true,
        owned: 3,
        votes: Some((2, 2)),
    }
}

fn in_phase(from: &str, to: &str, phase: Phase) -> MoveView {
    MoveView { phase: Some(phase.to_string()), ..moved(1, from, to, None) }
}

fn codes(found: &[Advice]) -> Vec<Cause> {
    found.iter().map(|one| one.code).collect()
}

pub(in crate::server::node_service) fn causes() -> Vec<Cause> {
    let lonely = Standing { votes: Some((1, 2)), ..facts() };
    let retired = Standing { life: Life::Retired, ..facts() };
    [
        codes(&reasons("n4", &lonely, &[in_phase("n4", "n2", Phase::Flip)])),
        codes(&notes("n4", &facts(), Some(9), SILENCE)),
        codes(&for_good_reasons("n4", &facts())),
        codes(&for_good_reasons("n4", &retired)),
    ]
    .concat()
}

/// A restart leaves the disk: owning partitions and leading are costs, and no reason against it.
#[test]
fn an_owner_and_a_leader_may_restart() {
    assert_eq!(reasons("n4", &facts(), &[]), []);
    let costs = codes(&notes("n4", &facts(), Some(9), SILENCE));
    assert_eq!(costs, [Cause::Leads, Cause::OwnerDead, Cause::Backlog]);
    let idle = Standing { leads: false, owned: 0, ..facts() };
    assert_eq!(notes("n4", &idle, Some(0), SILENCE), []);
}

#[test]
fn the_last_vote_that_is_needed_may_not() {
    let lonely = Standing { votes: Some((1, 2)), ..facts() };
    assert_eq!(codes(&reasons("n4", &lonely, &[])), [Cause::LastMajority]);
    let learner = Standing { votes: None, ..facts() };
    assert_eq!(reasons("n4", &learner, &[]), []);
    // Nobody waits for one that is dead already.
    let dead = Standing { life: Life::Dead, ..lonely };
    assert_eq!(reasons("n4", &dead, &[]), []);
    assert_eq!(codes(&notes("n4", &dead, None, SILENCE)), [Cause::MemberDead]);
}

#[test]
fn neither_end_of_a_hand_over_may() {
    for (phase, cuts) in [
        (Phase::CatchUp, false),
        (Phase::Waiting, false),
        (Phase::Prepare, true),
        (Phase::Drain, true),
        (Phase::Verify, true),
        (Phase::Install, true),
        (Phase::Flip, true),
        (Phase::Promote, true),
    ] {
        for (from, to, concerned) in [("n4", "n2", true), ("n2", "n4", true), ("n1", "n2", false)] {
            let found = codes(&reasons("n4", &facts(), &[in_phase(from, to, phase)]));
            let expected: &[Cause] = if cuts && concerned { &[Cause::CutOver] } else { &[] };
            assert_eq!(found, expected, "{phase} from {from} to {to}");
        }
    }
}

/// Field fault 43: a disk may go only with a member that has been taken out.
#[test]
fn a_disk_stays_until_its_member_is_out() {
    assert_eq!(codes(&for_good_reasons("n4", &facts())), [Cause::NotRetired]);
    let retired = Standing { life: Life::Retired, ..facts() };
    assert_eq!(codes(&for_good_reasons("n4", &retired)), [Cause::Voting]);
}
