//! The replicated state: a pure fold over guarded commands.

pub mod assignment;
pub mod command;
pub mod member;
pub mod topic;

pub use assignment::{Assignment, Expect, Reign};
pub use command::{Applied, Command, Entry, Fence, Reason, Reply};
pub use member::{Addresses, Configuration, Member, Status};
pub use topic::Topic;
