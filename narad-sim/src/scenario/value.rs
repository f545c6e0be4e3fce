//! Numbers, times, sizes and probabilities, as people write them.

use std::time::Duration;

use toml::de::DeValue;

use super::name::{Label, Machine, PartitionName, TopicName, Who};
use super::read::{Cx, Item};
use super::table::Value;

/// A value that is going to be written, with its keys in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Out {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    List(Vec<Out>),
    Table(Vec<(&'static str, Out)>),
}

/// Something that a scenario mentions and that must exist.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mention<'a> {
    Machine(Machine),
    Who(&'a Who),
    Topic(&'a TopicName),
    Partition(&'a PartitionName),
    Label(&'a Label),
}

/// A probability, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Chance(pub f64);

/// How often, per second or per minute as its key says; not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A time to draw from: at least and at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Between {
    /// The shortest.
    pub least: Duration,
    /// The longest; not shorter than the shortest.
    pub most: Duration,
}

impl Between {
    /// Returns a time that is always the same.
    #[must_use]
    pub const fn exactly(time: Duration) -> Self {
        Self { least: time, most: time }
    }

    /// Returns a range in microseconds.
    #[must_use]
    pub const fn micros(least: u64, most: u64) -> Self {
        Self { least: Duration::from_micros(least), most: Duration::from_micros(most) }
    }
}

/// How far a wall clock is moved, in milliseconds; backwards if negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shift {
    /// Milliseconds.
    pub ms: i64,
}

const SECOND: u128 = 1_000_000_000;
const TIMES: [(&str, u128); 7] = [
    ("d", 86_400 * SECOND),
    ("h", 3_600 * SECOND),
    ("min", 60 * SECOND),
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const SIZES: [(&str, u128); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `250ms`, `1.5s`, `2min`, `3h`.
pub(super) fn parse_time(text: &str) -> Option<Duration> {
    let nanos = parse_amount(text, &TIMES)?;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

/// Writes a time as a person would: `250ms`, `3.5s`, `2min`.
pub(super) fn show_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    if nanos == 0 {
        return "0s".into();
    }
    let minute = 60 * SECOND;
    if nanos.is_multiple_of(60 * minute) {
        return format!("{}h", nanos / (60 * minute));
    }
    if nanos.is_multiple_of(minute) {
        return format!("{}min", nanos / minute);
    }
    let units = [("s", SECOND), ("ms", 1_000_000), ("us", 1_000)];
    let fitting =
        units.iter().find(|(_, unit)| nanos >= *unit && nanos.is_multiple_of(unit / 1_000));
    let Some((name, unit)) = fitting else {
        return format!("{nanos}ns");
    };
    let (whole, part) = (nanos / unit, nanos % unit / (unit / 1_000));
    if part == 0 {
        return format!("{whole}{name}");
    }
    let part = format!("{part:03}");
    format!("{whole}.{}{name}", part.trim_end_matches('0'))
}

/// Reads `512B`, `64KiB`, `1.5MiB`.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    parse_amount(text, &SIZES).and_then(|bytes| u64::try_from(bytes).ok())
}

/// Writes a size in the largest unit that leaves nothing over.
pub(super) fn show_bytes(bytes: u64) -> String {
    let bytes = u128::from(bytes);
    let fitting = SIZES.iter().find(|(_, factor)| bytes > 0 && bytes.is_multiple_of(*factor));
    fitting.map_or_else(|| "0B".into(), |(unit, factor)| format!("{}{unit}", bytes / factor))
}

/// Reads a decimal number and a unit, exactly.
fn parse_amount(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 12 || (number.contains('.') && fraction.is_empty()) {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = digits.checked_mul(*factor)?;
    scaled.is_multiple_of(scale).then(|| scaled / scale)
}

impl Value for Duration {
    const SHORT: &'static str = "time";

    fn kind() -> String {
        "a time, such as \"250ms\", \"1.5s\" or \"2min\" (ns, us, ms, s, min, h, d)".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let time = parse_time(cx.text(item, path, &Self::kind())?);
        if time.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        time
    }

    fn write(&self) -> Out {
        Out::Text(show_time(*self))
    }
}

impl Value for Between {
    const SHORT: &'static str = "time or range of times";

    fn kind() -> String {
        "two times, such as [\"0.2ms\", \"2ms\"], between which it is drawn, or one".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let Some(list) = item.get_ref().as_array() else {
            return Duration::read(cx, item, path).map(Self::exactly);
        };
        let items: Vec<&Item<'_>> = list.iter().collect();
        let [least, most] = items.as_slice() else {
            cx.refuse(item, path, &Self::kind());
            return None;
        };
        let (least, most) = (Duration::read(cx, least, path)?, Duration::read(cx, most, path)?);
        if least > most {
            cx.refuse(item, path, "the shorter time first");
            return None;
        }
        Some(Self { least, most })
    }

    fn write(&self) -> Out {
        if self.least == self.most {
            return self.least.write();
        }
        Out::List(vec![self.least.write(), self.most.write()])
    }
}

impl Value for Shift {
    const SHORT: &'static str = "time, with - backwards";

    fn kind() -> String {
        "a time forwards or backwards, such as \"2min\" or \"-500ms\"".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let text = cx.text(item, path, &Self::kind())?;
        let (sign, time) = text.strip_prefix('-').map_or((1, text), |time| (-1, time));
        let ms = parse_time(time).and_then(|time| i64::try_from(time.as_millis()).ok());
        if ms.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        ms.map(|ms| Self { ms: sign * ms })
    }

    fn write(&self) -> Out {
        let time = show_time(Duration::from_millis(self.ms.unsigned_abs()));
        Out::Text(if self.ms < 0 { format!("-{time}") } else { time })
    }
}

impl Value for Bytes {
    const SHORT: &'static str = "size";

    fn kind() -> String {
        "a size, such as \"64KiB\" or 65536 (B, KiB, MiB, GiB, TiB)".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let bytes = match item.get_ref().as_str() {
            Some(text) => parse_bytes(text),
            None => integer(item).and_then(|bytes| u64::try_from(bytes).ok()),
        };
        if bytes.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        bytes.map(Self)
    }

    fn write(&self) -> Out {
        Out::Text(show_bytes(self.0))
    }
}

impl Value for Chance {
    const SHORT: &'static str = "probability";

    fn kind() -> String {
        "a probability from 0 to 1, such as 0.05".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let chance = float(item).filter(|chance| (0.0..=1.0).contains(chance));
        if chance.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        chance.map(Self)
    }

    fn write(&self) -> Out {
        Out::Float(self.0)
    }
}

impl Value for Rate {
    const SHORT: &'static str = "number";

    fn kind() -> String {
        "a number of 0 or more, such as 20 or 0.5".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let rate = float(item).filter(|rate| (0.0..=1e9).contains(rate));
        if rate.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        rate.map(Self)
    }

    fn write(&self) -> Out {
        Out::Float(self.0)
    }
}

impl Value for bool {
    const SHORT: &'static str = "true or false";

    fn kind() -> String {
        "true or false".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let found = item.get_ref().as_bool();
        if found.is_none() {
            cx.refuse(item, path, &Self::kind());
        }
        found
    }

    fn write(&self) -> Out {
        Out::Boolean(*self)
    }
}

impl Value for String {
    const SHORT: &'static str = "text";

    fn kind() -> String {
        "a text".to_owned()
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        cx.text(item, path, &Self::kind()).map(str::to_owned)
    }

    fn write(&self) -> Out {
        Out::Text(self.clone())
    }
}

macro_rules! integers {
    ($($name:ident: $kind:literal,)*) => {$(
        impl Value for $name {
            const SHORT: &'static str = "whole number";

            fn kind() -> String {
                $kind.to_owned()
            }

            fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
                let number = integer(item).and_then(|number| Self::try_from(number).ok());
                if number.is_none() {
                    cx.refuse(item, path, &Self::kind());
                }
                number
            }

            fn write(&self) -> Out {
                Out::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }
        }
    )*};
}

integers! {
    u32: "a whole number of 0 or more",
    u64: "a whole number of 0 or more",
    i64: "a whole number",
}

impl<T: Value> Value for Vec<T> {
    const SHORT: &'static str = "list";

    fn kind() -> String {
        format!("a list, each {}", T::kind())
    }

    fn read(cx: &Cx<'_>, item: &Item<'_>, path: &str) -> Option<Self> {
        let Some(list) = item.get_ref().as_array() else {
            cx.refuse(item, path, &Self::kind());
            return None;
        };
        // All are read before the first failure ends it, so that each complains for itself.
        let read: Vec<Option<T>> = list.iter().map(|item| T::read(cx, item, path)).collect();
        read.into_iter().collect()
    }

    fn write(&self) -> Out {
        Out::List(self.iter().map(T::write).collect())
    }

    fn visit(&self, path: &str, see: &mut dyn FnMut(&str, Mention<'_>)) {
        for item in self {
            item.visit(path, see);
        }
    }
}

fn integer(item: &Item<'_>) -> Option<i64> {
    let DeValue::Integer(found) = item.get_ref() else {
        return None;
    };
    i64::from_str_radix(found.as_str(), found.radix()).ok()
}

fn float(item: &Item<'_>) -> Option<f64> {
    match item.get_ref() {
        DeValue::Float(found) => found.as_str().parse().ok(),
        #[expect(clippy::cast_precision_loss, reason = "rates are small, and drawn from anyway")]
        _ => integer(item).map(|whole| whole as f64),
    }
}
