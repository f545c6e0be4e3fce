//! The tables of a placement file.

use serde::Deserialize;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) limits: LimitsTable,
    #[serde(default)]
    pub(super) node: Vec<NodeTable>,
    #[serde(default)]
    pub(super) topic: Vec<TopicTable>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    pub(super) max_in_flight: Option<u32>,
    pub(super) reserved_for_drain: Option<u32>,
    pub(super) per_source: Option<u32>,
    pub(super) per_destination: Option<u32>,
    pub(super) per_topic: Option<PerTopic>,
    #[serde(default)]
    pub(super) paused: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PerTopic {
    Half,
    Unlimited,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) status: Status,
    #[serde(default)]
    pub(super) draining: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    #[default]
    Alive,
    Dead,
    Retired,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopicTable {
    pub(super) name: Spanned<String>,
    pub(super) parent: Option<Spanned<String>>,
    pub(super) partitions: Spanned<u32>,
    pub(super) owners: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) bytes: Option<Spanned<Size>>,
    #[serde(default)]
    pub(super) pinned: bool,
    #[serde(default)]
    pub(super) partition: Vec<PartitionTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartitionTable {
    pub(super) index: Spanned<u32>,
    pub(super) owner: Option<Spanned<String>>,
    pub(super) target: Option<Spanned<String>>,
    pub(super) pinned: Option<bool>,
    #[serde(default)]
    pub(super) stuck: bool,
    pub(super) bytes: Option<Spanned<Size>>,
    #[serde(default)]
    pub(super) priority: u8,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a size is a number of bytes, or such as \"64KiB\" or \"1GiB\"")]
pub(super) enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    pub(super) fn bytes(&self) -> Option<u64> {
        const UNITS: [(&str, u32); 5] =
            [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
        let text = match self {
            Self::Bytes(bytes) => return Some(*bytes),
            Self::Text(text) => text.trim(),
        };
        let (number, shift) =
            UNITS.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))?;
        number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
    }
}
