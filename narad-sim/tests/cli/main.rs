//! The command, over a laboratory that is made up, and as a process.

mod fake;
mod harness;
mod pages;
mod plan;
mod plant;
mod process;
mod replay;
mod run;
mod shrink;
mod sweep;
