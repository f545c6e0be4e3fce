//! What a page promises: whole, safe, stable, honest about what it leaves out.

use crate::trace::Kind;

use super::{Page, ReportError, figures, of_rows, of_trace, sample, thin};

fn page() -> Page {
    of_trace(&sample::text(&sample::lines(1, 12))).unwrap()
}

/// Where `REPORT_OUT` names a folder, the pages are written there to be looked at.
fn keep(name: &str, page: &Page) {
    let Some(folder) = std::env::var_os("REPORT_OUT") else { return };
    let folder = std::path::PathBuf::from(folder);
    std::fs::write(folder.join(format!("{name}.html")), page.html()).unwrap();
    for (file, svg) in page.svgs() {
        std::fs::write(folder.join(format!("{name}-{file}")), svg).unwrap();
    }
}

/// A page is one file: nothing in it is fetched.
#[test]
fn a_page_needs_nothing_from_outside() {
    for page in [page(), of_rows(&sample::rows(40))] {
        for outside in [" src=", "url(http", "@import", "<iframe", "fetch(", "XMLHttpRequest"] {
            assert!(!page.html().contains(outside), "{outside}");
        }
        let links = page.html().matches("http").count();
        let names = page.html().matches("http://www.w3.org/2000/svg").count();
        let viewport = page.html().matches("http-equiv").count();
        assert_eq!(links, names + viewport, "only the names of the SVG format");
    }
}

/// Words of a trace are words, wherever they land.
#[test]
fn nothing_in_a_trace_becomes_markup() {
    let evil = "</script><img src=x onerror=alert(1)>'\"&\u{0}\u{1b}";
    let mut lines = sample::lines(2, 4);
    for line in &mut lines {
        line.text = format!("{} {evil}", line.text);
        if line.kind == Kind::Fault || line.kind == Kind::Phase || line.kind == Kind::Violation {
            line.name = evil.to_owned();
        }
        line.partition = line.partition.take().map(|name| format!("{name}{evil}"));
        line.node = line.node.take().map(|name| format!("{name}{evil}"));
    }
    let page = of_trace(&sample::text(&lines)).unwrap();
    assert!(!page.html().contains("<img"));
    assert_eq!(page.html().matches("</script>").count(), 2, "the data and the script");
    for (name, svg) in page.svgs() {
        assert!(!svg.contains("<img"), "{name}");
        assert!(!svg.contains(['\u{0}', '\u{1b}']), "{name}: XML forbids control characters");
    }

    let mut row = sample::row(evil, 1, Some(1.0));
    row.notes.insert(evil.to_owned(), 1);
    row.waiting.push(evil.to_owned());
    let page = of_rows(&[row]);
    assert!(!page.html().contains("<img"));
    assert!(page.svgs().iter().all(|(_, svg)| !svg.contains("<img")));
}

/// S17 for pages: a report can be compared byte by byte.
#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(page(), page());
    let mut rows = sample::rows(60);
    let first = of_rows(&rows);
    rows.reverse();
    assert_eq!(first, of_rows(&rows), "and the order of the rows does not matter");
}

#[test]
fn a_page_shows_what_happened() {
    let page = page();
    keep("run", &page);
    for words in [
        "Two owners &amp; &lt;one&gt; partition",
        "safety violated",
        "narad-sim run h02-two-owners.toml --seed 7",
        "both acknowledge in epoch 2 &lt;script&gt;",
        "href=\"#mark-1\"",
        "id=\"mark-1\"",
        "Longest freeze",
        "at most 2 s (freeze_max)",
        "Moves at once",
        "20 records ahead",
        "not finished",
        "Silence between two owners",
    ] {
        assert!(page.html().contains(words), "{words}");
    }
    assert_eq!(page.svgs().len(), 1);
}

#[test]
fn a_run_without_lines_has_a_page() {
    let page = of_trace(&sample::text(&[])).unwrap();
    keep("empty", &page);
    assert!(page.html().contains("Nothing happened"));
}

#[test]
fn an_empty_file_is_refused() {
    assert!(matches!(of_trace(""), Err(ReportError::Empty)));
    assert!(matches!(of_trace("\n \n"), Err(ReportError::Empty)));
}

#[test]
fn what_is_no_trace_is_refused() {
    assert!(matches!(of_trace("seed,events\n1,2\n"), Err(ReportError::NotATrace { .. })));
    let future = r#"{"narad_trace":2}"#;
    assert!(matches!(of_trace(future), Err(ReportError::Version { found: 2 })));
}

/// Wherever a file is cut off, the error names the last line that is there.
#[test]
fn a_truncated_trace_is_refused_by_its_last_line() {
    let whole = sample::text(&sample::lines(3, 1));
    let second = whole.match_indices('\n').nth(1).unwrap().0;
    for (end, line) in [(second, 2), (second + 1, 2), (second + 10, 3)] {
        match of_trace(&whole[..end]) {
            Err(ReportError::Truncated { line: found }) => assert_eq!(found, line),
            other => panic!("{other:?} after {end} bytes"),
        }
    }
    let summary = whole.trim_end().len() - 20;
    let rows = whole.lines().count();
    let refused = of_trace(&whole[..summary]).unwrap_err();
    assert!(refused.to_string().contains(&format!("line {rows}")), "{refused}");
}

#[test]
fn a_damaged_line_is_named() {
    let whole = sample::text(&sample::lines(3, 1));
    let mut rows: Vec<&str> = whole.lines().collect();
    rows[4] = "{\"n\":4,\"kind\":\"nonsense\"}";
    let refused = of_trace(&rows.join("\n")).unwrap_err();
    assert!(matches!(refused, ReportError::Damaged { line: 5, .. }), "{refused}");
}

/// The largest and the smallest of every number.
#[test]
fn huge_numbers_are_shown() {
    let mut lines = sample::lines(4, 2);
    let last = lines.len() - 1;
    lines[last].at_us = u64::MAX;
    lines[last].bytes = Some(u64::MAX);
    lines[last].n = u64::MAX;
    lines[last].of = Some(u64::MAX);
    assert!(of_trace(&sample::text(&lines)).unwrap().html().contains("213,503,982 d"));

    let mut rows = sample::rows(4);
    for row in &mut rows {
        row.events = u64::MAX;
        row.freezes_us = vec![0, u64::MAX];
        row.copied_bytes = u64::MAX;
        row.duplicates = u64::MAX;
        row.seed = u64::MAX;
    }
    rows[0].write_over_copy = Some(1e300);
    rows[1].write_over_copy = Some(f64::MIN_POSITIVE);
    let page = of_rows(&rows);
    assert!(!page.html().contains("NaN") && !page.html().contains("inf\""));
}

#[test]
fn time_that_runs_backwards_does_no_harm() {
    let mut lines = sample::lines(5, 2);
    let end = lines.len();
    lines[end / 2].at_us = 0;
    assert!(of_trace(&sample::text(&lines)).is_ok());
}

#[test]
fn a_sweep_shows_its_plots_and_how_to_run_it_again() {
    let page = of_rows(&sample::rows(600));
    keep("sweep", &page);
    for words in [
        "600 runs, seeds 0 to 599",
        "narad-sim run rolling-restart.toml --seed 199",
        "Freeze time over W/B",
    ] {
        assert!(page.html().contains(words), "{words}");
    }
    let names: Vec<_> = page.svgs().iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"freeze-over-load.svg"), "{names:?}");
    assert!(page.svgs().iter().all(|(_, svg)| svg.starts_with("<?xml")));
}

#[test]
fn a_sweep_without_rows_or_loads_says_so() {
    let page = of_rows(&[]);
    keep("no-rows", &page);
    assert!(page.html().contains("0 runs"));
    let unloaded = of_rows(&[sample::row("drawn", 1, None)]);
    assert!(unloaded.html().contains("no run says its write_over_copy"));
    let height = |name: &str| {
        let (_, svg) =
            unloaded.svgs().iter().find(|(file, _)| file == name).expect("it is plotted");
        let view = svg.split("viewBox=\"0 0 440 ").nth(1).expect("a view");
        view.split('"').next().and_then(|height| height.parse::<f64>().ok()).expect("a height")
    };
    // A phone shows one below the other.
    assert!(height("freeze-over-load.svg") < height("freeze-distribution.svg") / 4.0);
}

/// Invariant 3: what a long trace leaves out is said.
#[test]
fn a_long_trace_is_thinned_and_says_so() {
    let lines = sample::lines(6, 60);
    let kept = thin::thin(&lines, 900);
    assert!(kept.lines.len() < 1_000);
    assert!(!kept.left_out.is_empty());
    let left: usize = kept.left_out.iter().map(|(some, ..)| some).sum();
    assert_eq!(left + kept.lines.len(), lines.len());
    for (place, line) in lines.iter().enumerate() {
        if matches!(line.kind, Kind::Violation | Kind::Phase | Kind::Freeze | Kind::Fault) {
            assert!(kept.lines.binary_search(&place).is_ok(), "{line:?}");
        }
    }
    let all = thin::thin(&lines, lines.len());
    assert_eq!(all.lines.len(), lines.len());
    assert!(all.left_out.is_empty());
}

/// What became of a message stays or goes with the line that sent it.
#[test]
fn no_kept_delivery_lacks_its_sender() {
    let lines = sample::lines(7, 60);
    for most in [100, 700, 1_500, 2_500] {
        let kept = thin::thin(&lines, most);
        let sent: Vec<u64> = kept.lines.iter().map(|place| lines[*place].n).collect();
        for of in kept.lines.iter().filter_map(|place| lines[*place].of) {
            assert!(sent.contains(&of), "{of} of {most}");
        }
    }
}

/// With `REPORT_OUT` set the trace has the length that a page must bear; writing that down takes
/// a debug build long, so it is short otherwise.
#[test]
fn a_page_is_not_much_longer_than_its_trace() {
    let rounds = if std::env::var_os("REPORT_OUT").is_some() { 5_000 } else { 100 };
    let text = sample::text(&sample::lines(8, rounds));
    let page = of_trace(&text).unwrap();
    keep("big", &page);
    assert!(page.html().len() < text.len() + 400_000);
}

/// The script is told the names of the kinds by their place.
#[test]
fn kinds_are_named_as_in_a_trace() {
    for (place, name) in figures::KINDS.iter().enumerate() {
        let kind: Kind = serde_json::from_str(&format!("\"{name}\"")).unwrap();
        assert_eq!(usize::from(figures::kind_number(kind)), place);
    }
}

/// A value may be printed as the code prints it, and a lagging replica tells nothing new.
#[test]
fn what_a_replica_applies_late_changes_no_owner() {
    let mut run = sample::Recorder::new(9);
    let flip = |index: u64, to: &str| {
        format!("entry {index} by {to}: CompleteMove {{ move_id: m4, end: 12, hwm: 11 }}")
    };
    run.say(Kind::Note, "leader", ["n1", "", ""], "Leader(Some(n1))");
    let phase = "Progress { phase: Flip, source: Some(n1), move_id: Some(m4), attempt: None }";
    run.say(Kind::Phase, "flip", ["n2", "", "orders/0"], phase);
    run.pass(10).say(Kind::Applied, "flip", ["n1", "", "orders/0"], &flip(7, "n2"));
    run.pass(10).say(Kind::Phase, "over", ["n2", "", "orders/0"], "");
    run.pass(10).say(Kind::Applied, "flip", ["n1", "", "orders/0"], &flip(9, "n1"));
    run.pass(10).say(Kind::Applied, "flip", ["n3", "", "orders/0"], &flip(7, "n2"));
    run.pass(10).say(Kind::Note, "leader", ["n1", "", ""], "Leader(None)");

    let trace = super::read::trace(&sample::text(&run.lines)).unwrap();
    let story = super::story::story(&trace);
    let owners: Vec<_> =
        story.reigns.iter().map(|reign| story.nodes[reign.node].as_str()).collect();
    assert_eq!(owners, ["n2", "n1"]);
    assert_eq!((story.leaders.len(), story.leaders[0].when.length_us()), (1, 50));
    let moves = super::moves::moves(&trace.lines, &story);
    assert_eq!(moves.len(), 1);
    assert_eq!(moves[0].from.map(|node| story.nodes[node].as_str()), Some("n1"));
    assert_eq!(moves[0].end, super::moves::End::Done);
}

/// What was drawn has no file.
#[test]
fn a_row_is_run_again_as_it_was() {
    let command = |name: &str| super::reproduce(&sample::row(name, 3, None));
    assert_eq!(command("h01-late-flip"), "narad-sim run h01-late-flip.toml --seed 3");
    assert_eq!(command("it's"), r"narad-sim run 'it'\''s.toml' --seed 3");
    assert_eq!(command("drawn-3"), "narad-sim run --seed 3");
}

/// Ticks are round, at most as many as asked for, and written shortly.
#[test]
fn ticks_are_round() {
    use super::scale::{Scale, bytes, nice_ticks, seconds, time};
    let shown = |ticks: Vec<f64>| ticks.into_iter().map(super::scale::plain).collect::<Vec<_>>();
    assert_eq!(shown(nice_ticks(0.0, 1.0, 5)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    assert_eq!(shown(nice_ticks(0.0, 7.3, 4)), ["0", "2", "4", "6"]);
    let decades = Scale::log(900.0, 2e6, 0.0, 1.0).ticks(6);
    assert_eq!(shown(decades), ["1000", "10,000", "100,000", "1,000,000"]);
    assert_eq!(shown(Scale::log(3.0, 70.0, 0.0, 1.0).ticks(6)), ["5", "10", "20", "50"]);
    assert_eq!([seconds(0.0), seconds(2_500_000.0), seconds(1e10)], ["0 s", "2.5 s", "10,000 s"]);
    assert_eq!([time(2e3), time(1.5e6), bytes(5e6)], ["2 ms", "1.5 s", "5 MB"]);
}

/// A place outside an axis is drawn at its edge.
#[test]
fn nothing_is_drawn_outside_the_frame() {
    let scale = super::scale::Scale::linear(0.0, 10.0, 50.0, 150.0);
    let places = [-5.0, 0.0, 5.0, 10.0, 1e300].map(|x| format!("{:.1}", scale.at(x)));
    assert_eq!(places, ["50.0", "50.0", "100.0", "150.0", "150.0"]);
}

/// The first owner is known from what the first command expects, and each copy of a message has
/// its own fate.
#[test]
fn a_story_is_told_from_what_is_seen() {
    use super::story::Fate;
    let mut run = sample::Recorder::new(10);
    let first = run.say(Kind::Send, "prepare", ["n2", "n1", "orders/0"], "");
    run.say(Kind::Send, "renew", ["n2", "n1", "orders/0"], "");
    for _ in 0..2 {
        run.pass(5).say(Kind::Deliver, "prepare", ["n1", "n2", "orders/0"], "");
        run.lines.last_mut().unwrap().of = Some(first);
    }
    let expected =
        "entry 3 by n2: CompleteMove { expect: Expect { owner: n1, epoch: e4, move_id: m2 } }";
    run.pass(10).say(Kind::Applied, "flip", ["n2", "", "orders/0"], expected);
    run.pass(10).say(Kind::Freeze, "begin", ["n2", "", "orders/0"], "");
    run.pass(10).say(Kind::Fault, "power-loss", ["n2", "", ""], "");
    run.pass(10).say(Kind::Fault, "start", ["n2", "", ""], "");

    let trace = super::read::trace(&sample::text(&run.lines)).unwrap();
    let story = super::story::story(&trace);
    let owners: Vec<_> = story.reigns.iter().map(|reign| (reign.node, reign.what)).collect();
    assert_eq!(owners, [(0, Some(4)), (1, Some(5))]);
    let fates: Vec<_> = story.messages.iter().map(|message| (message.line, message.fate)).collect();
    let arrived = |line| Fate::Arrived { line };
    assert_eq!(fates, [(0, arrived(2)), (0, arrived(3)), (1, Fate::Unseen)]);
    assert_eq!(story.freezes[0].when.length_us(), 10, "it ended with its process");
    let lives: Vec<_> =
        story.lives.iter().filter(|life| life.node == 1).map(|life| life.what).collect();
    assert_eq!(lives, [super::story::Life::Up, super::story::Life::Down]);
}
