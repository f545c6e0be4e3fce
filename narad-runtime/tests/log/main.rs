//! The storage side, from frames to installed copies, on a disk that forgets what was not synced.
#![cfg(feature = "log")]

mod copy;
mod damaged;
mod data_dir;
mod install;
mod recovery;
mod scan;
mod segments;
mod world;
