//! Whole nodes in a small cluster: rebalance, decommission, deaths and returns.

mod bench;
mod facade;
mod killing;
mod leaving;
mod log;
mod moving;
mod promoting;
mod schedules;
mod shipping;

use super::world;
