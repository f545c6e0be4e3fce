//! `report` and `explore`.

use narad_sim::cli::ExitCode;

use crate::harness::{dir, path, sim, tree};

#[test]
fn a_run_and_a_sweep_become_pages() {
    let dir = dir();
    let [trace, out] = [path(&dir, "three.jsonl"), path(&dir, "out")];
    sim(&["run", "--seed", "3", "--trace", &trace]);
    sim(&["sweep", "--seeds", "0..8", "--out", &out]);
    for source in [&trace, &out] {
        let [page, pictures] = [path(&dir, "page.html"), path(&dir, "pictures")];
        let ran = sim(&["report", source, "-o", &page, "--svg", &pictures, "--json"]);
        assert_eq!(ran.code, ExitCode::Good, "{}", ran.err);
        let html = std::fs::read_to_string(&page).expect("a page");
        assert!(html.contains("two owners"), "what was violated is on it");
        let told = ran.last()["pictures"].as_array().map_or(0, Vec::len);
        assert!(
            told > 0
                && tree(&pictures).iter().all(|(name, _)| std::path::Path::new(name)
                    .extension()
                    .is_some_and(|it| it == "svg"))
        );
        std::fs::remove_dir_all(&pictures).expect("a folder");
    }
}

#[test]
fn what_is_no_trace_makes_no_page() {
    let dir = dir();
    let page = path(&dir, "page.html");
    let ran = sim(&["report", &path(&dir, "none"), "-o", &page]);
    assert_eq!(ran.code, ExitCode::Usage);
    let trace = path(&dir, "cut.jsonl");
    std::fs::write(&trace, "{}").expect("a file");
    let ran = sim(&["report", &trace, "-o", &page]);
    assert!(ran.err.contains("cut.jsonl: line 1 is not the header"), "{}", ran.err);
    let ran = sim(&["report", dir.path().to_str().expect("a path"), "-o", &page]);
    assert_eq!(ran.code, ExitCode::Usage);
    assert!(!std::path::Path::new(&page).exists());
}

#[test]
fn a_small_world_is_walked_to_its_end() {
    let line = ["explore", "--faults", "0", "--records", "0", "--json"];
    let ran = sim(&line);
    assert_eq!(ran.code, ExitCode::Good, "{}", ran.out);
    assert_eq!(ran.last()["complete"], true);
    assert!(sim(&line[..5]).out.contains("every schedule within the bounds was walked"));
    let ran = sim(&["explore", "--states-max", "10"]);
    assert_eq!(ran.code, ExitCode::Good);
    assert!(ran.out.contains("stopped early"), "{}", ran.out);
}
