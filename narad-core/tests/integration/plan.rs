//! The planner: R69..R76, R80, R81, R83, R84, S12, S13, S14.

mod brute_force;
mod build;
mod cases;
mod planner;
mod properties;
mod rules;
