use super::*;
use std::collections::BTreeSet;

/// Holes of the protocol that are known.
const HOLES: u8 = 47;

#[test]
fn every_switch_has_one_entry() {
    let listed: Vec<Bug> = all().map(|plant| plant.bug).collect();
    let distinct: BTreeSet<Bug> = listed.iter().copied().collect();
    assert_eq!(distinct.len(), listed.len(), "one entry for each switch");
    assert_eq!(distinct, Bug::ALL.iter().copied().collect());
}

#[test]
fn names_and_numbers_are_unique_and_in_order() {
    let numbers: Vec<&str> = all().map(Plant::number).collect();
    let holes = (1..=HOLES).map(|hole| format!("h{hole:02}"));
    let slips = (1..=numbers.len() - usize::from(HOLES)).map(|slip| format!("c{slip:02}"));
    assert_eq!(numbers, holes.chain(slips).collect::<Vec<_>>());
    let words: BTreeSet<&str> = all().map(|plant| &plant.name[4..]).collect();
    assert_eq!(words.len(), numbers.len(), "no two mistakes are called alike");
}

/// Covers H1 to H47: each has a switch, or says what it waits for.
#[test]
fn every_hole_has_a_switch_or_a_reason() {
    for hole in 1..=HOLES {
        let switches = all().filter(|plant| plant.rule == Rule::Hole(hole)).count();
        let waits = not_yet().iter().any(|not_yet| not_yet.hole == hole);
        assert!(switches == 1 || (switches == 0 && waits), "H{hole}: {switches} switches");
        if let Some(plant) = find(&format!("h{hole:02}")) {
            assert_eq!(plant.rule, Rule::Hole(hole));
        }
    }
    assert!(all().filter(|plant| plant.rule == Rule::Slip).count() >= 24);
}

#[test]
fn every_entry_says_everything() {
    let safety = (1..=18).map(|number| format!("S{number}"));
    let known: BTreeSet<String> = safety.chain((1..=7).map(|n| format!("L{n}"))).collect();
    for plant in all() {
        let name = plant.name;
        assert!(!plant.noticed_by.is_empty(), "{name} breaks something");
        for invariant in plant.noticed_by {
            assert!(known.contains(*invariant), "{name}: there is no {invariant}");
        }
        for text in [plant.removes, plant.hint].into_iter().chain(plant.net) {
            assert!(text.ends_with('.'), "{name}: {text}");
            assert!(!text.contains("  "), "{name}: {text}");
        }
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(is_name), "{name}");
    }
}

/// A switch that is at another place than the catalogue says, or at none, is found here.
#[test]
fn every_switch_is_where_the_catalogue_says() {
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut missing = Vec::new();
    for plant in all() {
        for place in plant.place.split("; ") {
            let (path, function) = place.split_once(", ").expect("a file and a function");
            let source = std::fs::read_to_string(workspace.join(path));
            let source = source.unwrap_or_else(|error| panic!("{}: {path}: {error}", plant.name));
            let function = function.rsplit("::").next().unwrap_or(function);
            let switch = format!("Bug::{:?}", plant.bug);
            if !bodies(&source, function).any(|body| body.contains(&switch)) {
                missing.push(format!("{}: no {switch} in {function} of {path}", plant.name));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the texts of all functions of one name.
fn bodies<'a>(source: &'a str, function: &str) -> impl Iterator<Item = &'a str> {
    let starts = ["(", "<"].map(|next| format!("fn {function}{next}"));
    let starts =
        starts.map(|start| source.match_indices(&start).map(|(at, _)| at).collect::<Vec<_>>());
    starts.into_iter().flatten().map(|at| {
        let line = source[..at].rfind('\n').map_or(0, |end| end + 1);
        let indent = source[line..at].chars().take_while(|c| *c == ' ').count();
        let end = format!("\n{}}}\n", " ".repeat(indent));
        source[at..].find(&end).map_or(&source[at..], |length| &source[at..at + length])
    })
}

#[test]
fn the_listing_names_everything() {
    let text = text();
    assert!(all().all(|plant| text.contains(plant.name) && text.contains(plant.removes)));
    let json = serde_json::to_value(all().collect::<Vec<_>>()).expect("plain data");
    assert_eq!(json[0]["rule"], "H1");
    assert_eq!(json[0]["bias"][0], "late-flip");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn one_mistake_at_a_time() {
    use narad_core::planted::is_planted;

    let planted = || Bug::ALL.iter().copied().filter(|bug| is_planted(*bug)).collect::<Vec<_>>();
    for plant in all() {
        sow(Some(plant));
        assert_eq!(planted(), [plant.bug]);
    }
    sow(None);
    assert_eq!(planted(), []);
}
