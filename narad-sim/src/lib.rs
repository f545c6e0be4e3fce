//! A deterministic world for the Narad state machines.
