//! C1 to C4 and T1: what a copy takes.

use std::path::Path;

use narad_core::ids::Name;
use narad_runtime::tls::authority::{Authority, Validity};
use narad_runtime::tls::{Files, Tls, Who};

use super::Options;
use super::bars::{Bar, Threshold};
use super::peers::{self, cp, plain, raw, rsync};
use super::report::{Report, Row};
use super::rig::{How, Rig, Run};

/// The congestion control of a source's listener by default.
pub(crate) const CONGESTION: &str = "cubic";
/// One that a process may choose for a network of its own.
const SAME: &str = "reno";
const STREAMS: usize = 2;

const LAX: How<'_> = How { congestion: Some(CONGESTION), is_durable: false, rate: 0, tls: None };
const DURABLE: How<'_> = How { is_durable: true, ..LAX };

/// Measures those of the bars that are wanted.
pub(crate) fn measure(options: &Options, wanted: &[Bar], report: &mut Report) {
    let rig = Rig::new(options.dir.path(), options.bytes);
    let bench = Bench { rig: &rig, pairs: options.pairs };
    let is = |bar| wanted.contains(&bar);
    if let Some(why) = peers::missing("rsync") {
        for bar in [Bar::C1, Bar::C2, Bar::C4].into_iter().filter(|&bar| is(bar)) {
            report.skip(bar, &why);
        }
    } else {
        bench.beside_rsync(wanted, report);
    }
    if is(Bar::C1) {
        let runs = bench.pairs(|| rig.run(LAX, None), || cp(&rig));
        report.row(bench.speed(Bar::C1, "cp -r, no network", &runs, Threshold::None));
    }
    if is(Bar::C2) {
        let runs = bench.pairs(|| rig.run(DURABLE, None), || plain(&rig));
        let least = Threshold::AtLeast(0.85);
        report.row(bench.speed(Bar::C2, "write and fsync 64 MiB files", &runs, least));
    }
    if is(Bar::C3) {
        let limit = || raw(&rig, STREAMS, Some(CONGESTION));
        let runs = bench.pairs(|| rig.run(LAX, None), limit);
        let beside = "sendfile, splice, 2 streams, no checks";
        report.row(bench.speed(Bar::C3, beside, &runs, Threshold::AtLeast(0.75)));
    }
    if is(Bar::T1) {
        let tls = certificates(options.dir.path());
        let beside = [
            (DURABLE, "the same without TLS", Threshold::AtLeast(0.55)),
            (LAX, "the same without TLS, syncs do nothing", Threshold::None),
        ];
        for (how, beside, enough) in beside {
            let secret = How { tls: Some(&tls), ..how };
            let runs = bench.pairs(|| rig.run(secret, None), || rig.run(how, None));
            report.row(bench.speed(Bar::T1, beside, &runs, enough));
            report.row(bench.cpu(Bar::T1, beside, &runs, Threshold::None));
        }
    }
}

/// Makes the certificates of a source and a destination.
fn certificates(dir: &Path) -> [Tls; 2] {
    let name = |text: &str| Name::new(text).expect("a name");
    let authority = Authority::create(&name("bench"), Validity::days(1)).expect("an authority");
    let ca = dir.join("ca.crt");
    std::fs::write(&ca, &authority.own().cert).expect("a disk");
    ["source", "destination"].map(|node| {
        let issued = authority.issue(&Who::Node(name(node)), node, &[], Validity::days(1));
        let issued = issued.expect("a certificate");
        let at = |ending: &str| dir.join(format!("{node}.{ending}"));
        let files = Files { ca: ca.clone(), cert: at("crt"), key: at("key") };
        std::fs::write(&files.cert, issued.cert).expect("a disk");
        std::fs::write(&files.key, issued.key).expect("a disk");
        Tls::open(files).expect("they were just made")
    })
}

struct Bench<'a> {
    rig: &'a Rig,
    pairs: u32,
}

impl Bench<'_> {
    fn beside_rsync(&self, wanted: &[Bar], report: &mut Report) {
        let rig = self.rig;
        let is = |bar| wanted.contains(&bar);
        if is(Bar::C1) || is(Bar::C4) {
            let runs = self.pairs(|| rig.run(LAX, None), || rsync(rig, "-a", None));
            if is(Bar::C1) {
                report.row(self.speed(Bar::C1, "rsync -a", &runs, Threshold::AtLeast(2.8)));
            }
            if is(Bar::C4) {
                report.row(self.cpu(Bar::C4, "rsync -a", &runs, Threshold::AtMost(0.4)));
            }
        }
        if is(Bar::C2) {
            let flags = "-a --fsync";
            let runs = self.pairs(|| rig.run(DURABLE, None), || rsync(rig, flags, None));
            report.row(self.speed(Bar::C2, "rsync -a --fsync", &runs, Threshold::AtLeast(2.3)));
        }
        let same = [
            (Bar::C1, LAX, "-a", Threshold::AtLeast(2.3)),
            (Bar::C2, DURABLE, "-a --fsync", Threshold::AtLeast(2.0)),
        ];
        for (bar, how, flags, least) in same.into_iter().filter(|same| is(same.0)) {
            if let Some(why) = peers::no_namespace(SAME) {
                report.skip(bar, &why);
                continue;
            }
            let how = How { congestion: Some(SAME), ..how };
            let runs = self.pairs(|| rig.run(how, None), || rsync(rig, flags, Some(SAME)));
            report.row(self.speed(bar, &format!("rsync {flags}, both on {SAME}"), &runs, least));
        }
    }

    /// Runs both sides in turn; the first pair warms up.
    fn pairs(&self, ours: impl Fn() -> Run, theirs: impl Fn() -> Run) -> Vec<(Run, Run)> {
        let pairs: Vec<(Run, Run)> = (0..=self.pairs).map(|_| (ours(), theirs())).collect();
        pairs[1..].to_vec()
    }

    fn speed(&self, bar: Bar, beside: &str, runs: &[(Run, Run)], enough: Threshold) -> Row {
        let rate = |run: &Run| mib(self.rig.bytes) / run.took.as_secs_f64();
        let pairs: Vec<(f64, f64)> =
            runs.iter().map(|(ours, theirs)| (rate(ours), rate(theirs))).collect();
        Row::of_pairs(bar, beside, "MiB/s", &pairs, enough)
    }

    fn cpu(&self, bar: Bar, beside: &str, runs: &[(Run, Run)], enough: Threshold) -> Row {
        let cost = |run: &Run| run.cpu_seconds / mib(self.rig.bytes) * 1024.0;
        let pairs: Vec<(f64, f64)> =
            runs.iter().map(|(ours, theirs)| (cost(ours), cost(theirs))).collect();
        Row::of_pairs(bar, beside, "CPU s/GiB", &pairs, enough)
    }
}

/// Returns bytes in MiB.
#[expect(clippy::cast_precision_loss, reason = "no partition has so many bytes")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
