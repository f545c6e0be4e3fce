//! Every scenario file of a hole, with the rule that closes the hole left out.
//!
//! A switch is thrown for the whole process, so this is a process of its own, with one test.

mod files;

use narad_sim::plant;

/// A scenario that says what it `violates` does so once its rule is left out, so that it would
/// notice if the rule were lost.
#[test]
fn every_scenario_notices_the_bug_that_it_is_about() {
    let mut unnoticed = Vec::new();
    for file in files::all() {
        let violates = &file.scenario.head.violates;
        let bug = file.number.as_deref().and_then(bug);
        let Some(bug) = bug.filter(|_| !violates.is_empty()) else { continue };
        plant::sow(Some(bug));
        let summary = file.run(file.scenario.cluster.metastore);
        plant::sow(None);
        if !summary.violations.iter().any(|it| violates.contains(&it.invariant)) {
            unnoticed.push(format!("{} with {}", file.tell(&summary), bug.name));
        }
    }
    let count = unnoticed.len();
    assert!(unnoticed.is_empty(), "{count} scenarios noticed nothing:\n{}", unnoticed.join("\n"));
}

/// Returns the bug of a hole: `h01-..` of `H1`.
fn bug(number: &str) -> Option<&'static plant::Plant> {
    let hole: u8 = number.strip_prefix('H')?.parse().ok()?;
    plant::all().find(|plant| plant.rule == plant::Rule::Hole(hole))
}
