//! Seeds of what schedules are drawn from. (The inputs of `scenario` are files that a person wrote.)

use narad_sim::random::Random;

use crate::Seed;

pub(crate) fn seeds() -> Vec<Seed> {
    vec![
        ("schedules", "plainest", Vec::new()),
        ("schedules", "drawn_1", drawn_from(1, 120)),
        ("schedules", "drawn_2", drawn_from(2, 240)),
        ("schedules", "drawn_3", drawn_from(3, 360)),
    ]
}

/// So many choices of a seed.
fn drawn_from(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = Random::root(seed);
    std::iter::repeat_with(|| random.any().to_le_bytes()).flatten().take(bytes).collect()
}
