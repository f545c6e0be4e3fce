//! The integration tests of `narad-core`, in one binary.

mod plan;
