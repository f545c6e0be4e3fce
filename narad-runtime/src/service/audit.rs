//! What admins have done, as the API shows it.

use narad_core::ids::Name;
use serde::{Deserialize, Serialize};

/// What `GET /v1/node/audit` shows: what one node was asked to do, and `narad cluster audit`: what all
/// were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditView {
    /// The actions, the newest first.
    pub actions: Vec<ActionView>,
    /// Members that were not asked, or did not answer.
    #[serde(default)]
    pub silent: Vec<Name>,
}

/// One thing that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionView {
    /// When it was asked for, such as `2026-11-30T03:00:00.000Z`.
    pub time: String,
    /// The node that was asked.
    pub node: String,
    /// What it is called there; no two actions of a node have the same.
    pub id: u64,
    /// Who asked; absent if nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// What shows who it was, such as `token`.
    pub by: String,
    /// What that allows; absent if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// From which address; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The body as text, if it was short; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The status of the answer; absent if there is none yet, or the process ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How it ended: `done`, or the code of the error; absent if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}
