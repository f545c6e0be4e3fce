//! Whole nodes in a small cluster: rebalance, decommission, deaths and returns.

mod facade;
mod killing;
mod leaving;
mod log;
mod moving;
mod promoting;
mod schedules;

use super::world;
