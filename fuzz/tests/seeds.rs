//! The inputs that a fuzzer begins with: real ones, made by the encoders themselves.
//!
//! They are committed, so that what this build writes today is read by every later one. After a
//! change of a format, `UPDATE_SEEDS=1 cargo test -p narad-fuzz --test seeds` writes them anew.

#[path = "seeds/disk.rs"]
mod disk;
#[path = "seeds/embed.rs"]
mod embed;
#[path = "seeds/http.rs"]
mod http;
#[path = "seeds/sim.rs"]
mod sim;
#[path = "seeds/wire.rs"]
mod wire;

use std::fs;
use std::path::Path;

/// One seed: its target, its name in the corpus, its bytes.
type Seed = (&'static str, &'static str, Vec<u8>);

/// A target's corpus begins with inputs that get past its first check.
#[test]
fn every_seed_is_in_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let update = std::env::var_os("UPDATE_SEEDS").is_some();
    let seeds = [wire::seeds(), disk::seeds(), sim::seeds(), http::seeds(), embed::seeds()];
    for (target, name, bytes) in seeds.into_iter().flatten() {
        let path = corpus.join(target).join(name);
        if update {
            fs::create_dir_all(corpus.join(target)).expect("the corpus is writable");
            fs::write(&path, &bytes).expect("the corpus is writable");
        }
        let committed = fs::read(&path).unwrap_or_default();
        assert!(
            committed == bytes,
            "{target}/{name} is not what this build writes: if that is meant, see this file's head"
        );
    }
}

/// Puts messages behind one another, each with its length in two bytes.
fn sequence<'a>(messages: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in messages {
        let length = u16::try_from(message.len()).expect("a seed is short");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(message);
    }
    bytes
}
