//! The scenario files of this package.

use std::path::{Path, PathBuf};

use narad_sim::guard;
use narad_sim::lab::{Laboratory as _, Stop};
use narad_sim::narad::Narad;
use narad_sim::outcome::Summary;
use narad_sim::scenario::{MetastoreKind, Scenario};

/// A scenario file, read.
pub(crate) struct ScenarioFile {
    /// Its path below `scenarios/`, for people.
    pub(crate) path: String,
    /// The number that its name begins with, as `covers` writes it: `H1` of `h01b-late-flip.toml`.
    /// Only files in a folder for numbered things need have one.
    pub(crate) number: Option<String>,
    pub(crate) scenario: Scenario,
}

impl ScenarioFile {
    /// Runs it with the seed that it asks for.
    pub(crate) fn run(&self, metastore: MetastoreKind) -> Summary {
        let (lab, mut scenario) = (Narad, self.scenario.clone());
        let seed = lab.seed(&scenario);
        lab.adjust(&mut scenario, seed, Some(metastore));
        guard::run(&lab, &scenario, seed, None, Stop::NEVER).summary
    }

    /// Tells what a run came to, with everything that did not hold.
    pub(crate) fn tell(&self, summary: &Summary) -> String {
        let head = format!("{} ({}): {:?}", self.path, summary.metastore, summary.verdict());
        let mut lines = vec![head];
        for violation in &summary.violations {
            let at = violation.at_us / 1_000;
            lines.push(format!("    {} at {at} ms: {}", violation.invariant, violation.text));
        }
        lines.join("\n")
    }
}

/// Reads all files below `scenarios/`, in the order of their paths.
pub(crate) fn all() -> Vec<ScenarioFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "there are scenarios in {}", root.display());
    paths.iter().map(|path| read(&root, path)).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder of scenarios can be listed") {
        let path = entry.expect("its entries can be read").path();
        if path.is_dir() {
            walk(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "toml") {
            found.push(path);
        }
    }
}

fn read(root: &Path, path: &Path) -> ScenarioFile {
    let shown = path.strip_prefix(root).expect("it was found there").display().to_string();
    let text = std::fs::read_to_string(path).expect("a scenario is a text");
    let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name");
    let scenario = Narad.parse(&text, &shown).unwrap_or_else(|error| panic!("{shown}: {error}"));
    ScenarioFile { path: shown, number: number(stem), scenario }
}

/// Returns `H1` of `h01-late-flip` and of `h01b-late-flip`.
fn number(stem: &str) -> Option<String> {
    let digits = stem.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let letters = &stem[..stem.len() - digits.len()];
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: u16 = digits[..end].parse().ok()?;
    Some(format!("{}{number}", letters.to_ascii_uppercase()))
}
