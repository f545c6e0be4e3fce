//! What a machine is told of what Raft has committed.

use narad_core::metastore::{Configuration, Entry, Halt};
use narad_core::node::Event;

use crate::raft::{self, Committed};
use crate::wire::Wire;

/// Returns what the machine is told of something that was committed.
pub(super) fn event_of(committed: Committed) -> Result<Event, Halt> {
    Ok(match committed {
        Committed::Entry { index, data, .. } => {
            let entry = Entry::from_bytes(&data)
                .map_err(|error| Halt::unknown_command(index, error.to_string()))?;
            Event::Committed { index, entry }
        }
        Committed::Configuration { index, configuration, refused, .. } => {
            if let Some(reason) = refused {
                tracing::warn!(%index, reason, "a change of the voters was refused");
            }
            Event::Configured { index, configuration: folded(configuration) }
        }
        Committed::Empty { index } => Event::Skipped { index },
    })
}

fn folded(configuration: raft::Configuration) -> Configuration {
    let mut learners = configuration.learners;
    learners.extend(configuration.learners_next);
    Configuration {
        voters: configuration.voters,
        voters_outgoing: configuration.voters_outgoing,
        learners,
    }
}
