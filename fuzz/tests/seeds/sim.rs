//! Seeds of what schedules are drawn from. (The inputs of `scenario` are files that a person wrote.)

use crate::Seed;

pub(crate) fn seeds() -> Vec<Seed> {
    vec![
        ("schedules", "plainest", Vec::new()),
        ("schedules", "drawn_1", drawn_from(1, 120)),
        ("schedules", "drawn_2", drawn_from(2, 240)),
        ("schedules", "drawn_3", drawn_from(3, 360)),
    ]
}

/// So many bytes of a linear congruence.
fn drawn_from(mut state: u64, bytes: usize) -> Vec<u8> {
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}
