//! Axes: where a number goes on paper, and which numbers are written beside it.

use super::text;

/// A linear or logarithmic axis from `low..=high` to `from..=to` in units of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// An even axis that covers the two numbers; a range without length is given one.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, log: false }
    }

    /// An axis of powers of ten. Both ends must be above zero.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low * 10.0 };
        Self { low, high, from, to, log: true }
    }

    /// Returns the place of a number; those outside stay at the edge.
    pub(super) fn at(&self, number: f64) -> f64 {
        let share = if self.log {
            (number.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (number - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns up to about `most` round numbers on the axis.
    pub(super) fn ticks(&self, most: u32) -> Vec<f64> {
        if self.log { self.log_ticks(most) } else { nice_ticks(self.low, self.high, most) }
    }

    /// Returns the numbers between the powers of ten of a short logarithmic axis.
    pub(super) fn fine_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        if !self.log || last - first > 6 {
            return Vec::new();
        }
        (first..last)
            .flat_map(|power| (2..10).map(move |lead| f64::from(lead) * 10f64.powi(power)))
            .filter(|tick| *tick >= self.low && *tick <= self.high)
            .collect()
    }

    fn log_ticks(&self, most: u32) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let decades = (last - first).max(1).unsigned_abs();
        let within = |tick: &f64| *tick >= self.low * 0.999 && *tick <= self.high * 1.001;
        if decades * 3 <= most {
            return (first..=last)
                .flat_map(|power| [1.0, 2.0, 5.0].map(|lead| lead * 10f64.powi(power)))
                .filter(within)
                .collect();
        }
        let step = decades.div_ceil(most.max(1)).max(1) as usize;
        (first..=last).step_by(step).map(|power| 10f64.powi(power)).filter(within).collect()
    }
}

/// Returns the multiples of 1, 2 or 5 times a power of ten that lie in the range.
pub(super) fn nice_ticks(low: f64, high: f64, most: u32) -> Vec<f64> {
    let step = nice_step(high - low, most);
    let first = (low / step).ceil() as i64;
    let last = ((high / step) * (1.0 + 1e-12)).floor() as i64;
    (first..=last.min(first.saturating_add(100))).map(|place| place as f64 * step).collect()
}

/// Returns the smallest 1, 2 or 5 times a power of ten that cuts the span into at most `most`.
pub(super) fn nice_step(span: f64, most: u32) -> f64 {
    let rough = (span / f64::from(most.max(1))).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let lead = rough / power;
    let nice = [1.0, 2.0, 5.0, 10.0].into_iter().find(|nice| lead <= nice * (1.0 + 1e-9));
    power * nice.unwrap_or(10.0)
}

/// Returns a tick of a plain number.
pub(super) fn plain(number: f64) -> String {
    let size = number.abs();
    if size >= 1e15 {
        return format!("{number:.1e}");
    }
    if size >= 1e4 {
        return text::count(number as u64);
    }
    text::decimal(number, if size >= 100.0 { 0 } else { 3 })
}

/// Returns a tick of a time in microseconds.
pub(super) fn time(us: f64) -> String {
    text::duration(us.max(0.0).round() as u64)
}

/// Returns a tick of a point in time, which is given in microseconds, in seconds.
pub(super) fn seconds(us: f64) -> String {
    let us = us.max(0.0).round() as u64;
    let part = text::decimal((us % 1_000_000) as f64 / 1e6, 6);
    format!("{}{} s", text::count(us / 1_000_000), part.trim_start_matches('0'))
}

/// Returns a tick of a percentage.
pub(super) fn percent(number: f64) -> String {
    format!("{} %", text::decimal(number, 2))
}

/// Returns a tick of bytes, in powers of ten as the axis has them.
pub(super) fn bytes(number: f64) -> String {
    const UNITS: [(f64, &str); 5] =
        [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match UNITS.iter().find(|(size, _)| number >= *size * 0.999) {
        Some((size, unit)) => format!("{} {unit}", text::decimal(number / size, 2)),
        None => format!("{} B", text::decimal(number, 0)),
    }
}
