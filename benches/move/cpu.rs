//! Processor time of this process and of its children that have ended.

/// Ticks of `/proc/self/stat` in a second; the same on every Linux.
const TICKS: f64 = 100.0;

/// Returns the seconds of processor time so far, of all threads and of all children that were waited
/// for; NaN where the system does not say.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name, in brackets, may have blanks.
    let Some((_, rest)) = text.rsplit_once(')') else { return f64::NAN };
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() < 4 { f64::NAN } else { ticks.iter().sum::<f64>() / TICKS }
}
