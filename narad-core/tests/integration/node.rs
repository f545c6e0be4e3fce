//! Whole nodes in a small cluster: rebalance, decommission, deaths and returns.

mod moving;
mod schedules;

use super::world;
