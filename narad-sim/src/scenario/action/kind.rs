//! What kinds of actions there are.

use super::Action;

impl Action {
    /// Whether it is done to the very message, proposal or work of `on`, at that moment.
    #[must_use]
    pub const fn is_on_the_spot(&self) -> bool {
        matches!(
            self,
            Self::Hold {}
                | Self::Record {}
                | Self::Drop {}
                | Self::Duplicate { .. }
                | Self::Delay { .. }
                | Self::Corrupt {}
                | Self::Fail { .. }
                | Self::CrashWithin { .. }
        )
    }

    /// Whether an operator does it, and is answered.
    #[must_use]
    pub const fn is_operators(&self) -> bool {
        matches!(
            self,
            Self::Drain { .. }
                | Self::Cancel { .. }
                | Self::Move { .. }
                | Self::Abort { .. }
                | Self::Pin { .. }
                | Self::Unpin { .. }
                | Self::CreateTopic { .. }
                | Self::DeleteTopic { .. }
                | Self::Policy { .. }
                | Self::Transfer { .. }
                | Self::Retire { .. }
                | Self::DeclareLost { .. }
                | Self::Propose { .. }
                | Self::Join { .. }
        )
    }
}
