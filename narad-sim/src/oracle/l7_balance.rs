//! L7: placement converges to balance.
//!
//! Judged at the end of the healing: a plan of the committed state is empty, unless moves are under
//! way or paused, or nobody leads.

use narad_core::controller::placement;
use narad_core::metastore::Member;
use narad_core::plan::{Limits, plan};

use super::healing::Healed;
use super::sink::{Cx, Subject};

pub(super) fn check(all: &Healed<'_>, cx: &mut Cx<'_>) {
    if all.leader.is_none() || all.state.policy().paused || !all.reported.is_empty() {
        return;
    }
    // The rest may have to wait for moves that are under way, which L1 judges.
    if all.state.targeted().len() > 0 {
        return;
    }
    let receiver = all.state.members().any(Member::is_receiver);
    if let Some(unassigned) = all.state.unassigned().next().filter(|_| receiver) {
        cx.breach("L7", unassigned, || "nobody has been given it".into());
    }
    let Some(placement) = placement(all.state, |_, _| false) else { return };
    if let Some(planned) = plan(&placement, &Limits::UNLIMITED).all(&placement).next() {
        cx.breach("L7", Subject::Cluster, || format!("it is not balanced: {planned} is missing"));
    }
}
