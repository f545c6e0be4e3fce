//! `plant`.

use narad_sim::cli::ExitCode;

use crate::fake::Lab;
use crate::harness::{sim, sim_in};

fn lab() -> Lab {
    Lab { has_bugs: true, ..Lab::default() }
}

#[test]
fn bugs_are_found_by_the_first_run_that_fails_by_them() {
    for jobs in ["1", "4"] {
        let line = ["plant", "all", "--seeds", "200", "--json", "--jobs", jobs];
        let ran = sim_in(&lab(), "", &line);
        assert_eq!(ran.code, ExitCode::Unexpected, "one was missed: {}", ran.err);
        let rows = ran.json();
        // Seeds 3 fails anyway, which is an alarm and no find.
        assert_eq!((rows[0]["seeds"].clone(), rows[0]["seed"].clone()), (5.into(), 4.into()));
        assert_eq!(rows[0]["alarms"], 1);
        assert_eq!((rows[1]["seeds"].clone(), rows[1]["hinted"].clone()), (3.into(), true.into()));
        assert_eq!(
            (rows[2]["found"].clone(), rows[2]["seeds"].clone()),
            (false.into(), 200.into())
        );
        let bag = ran.last();
        assert_eq!((bag["found"].clone(), bag["total"].clone()), (2.into(), 3.into()));
        assert_eq!(bag["median_seeds"], 5);
        assert_eq!(bag["missed"][0], "c01-never");
    }
}

#[test]
fn people_get_a_table() {
    let ran = sim_in(&lab(), "", &["plant", "h02", "--seeds", "30"]);
    assert_eq!(ran.code, ExitCode::Good, "{}", ran.err);
    assert!(ran.out.contains("S9, hinted"), "{}", ran.out);
    assert!(ran.out.contains("1 of 1 bug found, in the median after 3 runs"), "{}", ran.out);
    let ran = sim_in(&lab(), "", &["plant", "--list"]);
    assert!(ran.out.contains("h01-early") && ran.out.ends_with("3 bugs\n"), "{}", ran.out);
}

#[test]
fn a_build_without_bugs_says_how_to_make_one() {
    for line in [&["plant", "all"][..], &["plant", "--list"]] {
        let ran = sim(line);
        assert_eq!(ran.code, ExitCode::Usage);
        assert!(ran.err.contains("--features planted-bugs"), "{}", ran.err);
    }
    let ran = sim_in(&lab(), "", &["plant", "h01-erly"]);
    assert!(ran.err.contains("did you mean h01-early?"), "{}", ran.err);
}
