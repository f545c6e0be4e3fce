//! Many runs, on all cores.
//!
//! A sweep is a numbered list of runs ([`Grid`]): every scenario with every seed, the seeds outside.
//! [`in_order`] carries it out on several threads and hands the results over in the order of their
//! numbers, so that what is written does not depend on how many threads there were. A shard is every
//! n-th number; [`merge()`] puts shards together into what one sweep would have written.
//!
//! Wall time is measured here and decides when no further run begins; it is never an input of a run.

mod folder;
mod grid;
mod merge;
mod order;
mod row;
mod totals;

pub use folder::{Folder, FolderError, Manifest, Source, read_rows, stem};
pub use grid::{Grid, Seeds, Shard};
pub use merge::{MergeError, Merged, merge};
pub use order::in_order;
pub use row::{COLUMNS, Row};
pub use totals::{Failure, Totals, seconds};
