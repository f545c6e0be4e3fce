//! What replicas of an embedder's Raft say to one another is understood whole or refused, and keeps its
//! meaning; so does what their snapshots hold.
#![cfg_attr(fuzzing, no_main)]

use bytes::Bytes;
use narad_runtime::embed::decoders;

narad_fuzz::target!("letters", |input| {
    let Some((&kind, bytes)) = input.split_first() else { return };
    match kind % 3 {
        0 => drop(decoders::letter(Bytes::copy_from_slice(bytes))),
        1 => drop(decoders::verdict(bytes)),
        _ => drop(decoders::replica_snapshot(Bytes::copy_from_slice(bytes))),
    }
});
