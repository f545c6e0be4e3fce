//! What a promotion, or an operator, has left behind, as the API shows it.

use narad_core::ids::{ByteCount, Epoch, Name, Offset};
use serde::{Deserialize, Serialize};

/// What `GET /v1/cluster/salvage` shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SalvageView {
    /// Reigns that began without all of the one before, newest epochs last, by partition.
    pub receipts: Vec<ReceiptView>,
    /// What lies in quarantine, by member, oldest first.
    pub quarantine: Vec<QuarantinedView>,
    /// Members that were not asked, or did not answer: what they keep is not shown.
    #[serde(default)]
    pub silent: Vec<Name>,
}

/// A reign that began without all of the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptView {
    /// The topic's name.
    pub topic: Name,
    /// The partition.
    pub partition: u32,
    /// Why it began so.
    pub cause: LossCause,
    /// The reign.
    pub epoch: Epoch,
    /// The reign before it.
    pub old_epoch: Epoch,
    /// Who owned the partition before.
    pub old_owner: Name,
    /// Who owned it from then on.
    pub new_owner: Name,
    /// The first offset of the old reign that the new one has not captured: what the old owner had
    /// from there on is at risk until it is salvaged. `None`: all that consumers had not
    /// acknowledged, and no copy has brought back.
    pub at_risk_from: Option<Offset>,
    /// The first offset of the new reign.
    pub start: Offset,
    /// Whether the old owner has come back and has had all of it accepted again.
    pub salvaged: bool,
}

/// Why a reign began without all of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// A copy that reached all that was visible was promoted after its source had died.
    Promoted,
    /// An operator declared the partition lost.
    DeclaredLost,
    /// Something that a newer node says.
    #[serde(other)]
    Unknown,
}

/// One directory in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedView {
    /// The member on whose disk it is.
    pub member: Name,
    /// What it is called there.
    pub id: String,
    /// The topic's name; absent once the topic is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Name>,
    /// The topic's number.
    pub topic_id: u64,
    /// The partition.
    pub partition: u32,
    /// Whether it was a copy that did not become live, rather than a log.
    pub copy: bool,
    /// Its size.
    pub bytes: ByteCount,
    /// When it was set aside, in milliseconds since 1970.
    pub set_aside_ms: i64,
    /// Which of its records were accepted again, if any were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<AcceptedView>,
}

/// Records that were accepted once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedView {
    /// The first offset that they had.
    pub from: Offset,
    /// Offset after the last one.
    pub end: Offset,
    /// How many.
    pub records: u64,
    /// Bytes of their keys, values and headers.
    pub bytes: ByteCount,
}

/// What an operator gives up, as `POST /v1/cluster/losses` takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLoss {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The operator's word, for the log: why, who, which ticket.
    pub receipt: String,
    /// Whether only to tell what the receipt would say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}
