//! What a scenario promises to who writes, draws and shrinks one.

mod files;

use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn options() -> impl Strategy<Value = DrawOptions> {
    let bias = proptest::option::of(proptest::sample::select(Bias::ALL));
    let metastore = proptest::option::of(proptest::sample::select(MetastoreKind::ALL));
    (bias, metastore).prop_map(|(bias, metastore)| DrawOptions {
        metastore,
        bias,
        ..DrawOptions::default()
    })
}

/// Panics if a scenario cannot be run, or does not come back from its file as it is.
#[track_caller]
fn assert_writable(scenario: &Scenario) {
    assert_eq!(scenario.check(), [], "{}", scenario.to_toml());
    let text = scenario.to_toml();
    match Scenario::parse(&text, "drawn.toml") {
        Ok(read) => assert_eq!(&read, scenario, "{text}"),
        Err(error) => panic!("{error}\n{text}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_drawn_scenario_is_valid_and_comes_back_from_its_file(
        seed in any::<u64>(),
        options in options(),
    ) {
        assert_writable(&Scenario::draw(&mut Random::root(seed), &options));
    }

    #[test]
    fn any_bytes_draw_a_valid_scenario(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        options in options(),
    ) {
        assert_writable(&Scenario::draw(&mut Tape::new(&bytes), &options));
    }

}

proptest! {
    // Each has hundreds of smaller ones.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_shrunk_is_valid_and_smaller(seed in any::<u64>(), options in options()) {
        let drawn = Scenario::draw(&mut Random::root(seed), &options);
        for (at, smaller) in drawn.shrinks().enumerate() {
            prop_assert_ne!(&smaller, &drawn);
            // Reading each of hundreds back would take long and tell no more.
            if at % 16 == 0 {
                assert_writable(&smaller);
            } else {
                prop_assert_eq!(smaller.check(), []);
            }
        }
    }
}

#[test]
fn the_same_seed_draws_the_same_scenario() {
    let draw = || Scenario::draw(&mut Random::root(42), &DrawOptions::default());
    assert_eq!(draw(), draw());
    let other = Scenario::draw(&mut Random::root(43), &DrawOptions::default());
    assert_ne!(draw(), other);
}

#[test]
fn without_choices_a_scenario_is_plain() {
    let drawn = Scenario::draw(&mut Tape::new(&[]), &DrawOptions::default());
    assert_eq!(drawn.cluster.nodes, 3);
    assert_eq!(drawn.network, Network::good());
    assert!(drawn.steps.iter().all(|step| step.action.is_operators()), "{}", drawn.to_toml());
}

/// Counts how many of some drawn scenarios have a property.
fn share(bias: Option<Bias>, has: impl Fn(&Scenario) -> bool) -> usize {
    let options = DrawOptions { bias, ..DrawOptions::default() };
    let draw = |seed| Scenario::draw(&mut Random::root(seed), &options);
    (0..500).map(draw).filter(|scenario| has(scenario)).count()
}

#[test]
fn drawn_scenarios_are_where_it_is_interesting() {
    let soon = |step: &Step| step.when.at.is_some_and(|at| at <= Duration::from_secs(3));
    let moves = |step: &Step| {
        matches!(step.action, Action::Move { .. } | Action::Drain { .. } | Action::Join { .. })
    };
    let early = share(None, |one| one.steps.iter().any(|step| soon(step) && moves(step)));
    assert_eq!(early, 500, "something moves early in every one of them");
    let timed = share(None, |one| one.steps.iter().any(|step| step.when.on.is_some()));
    assert!(timed > 350, "most have a fault at a point of a move: {timed}");
    let long = |step: &Step| match step.action {
        Action::Kill { lasting: Some(lasting), .. }
        | Action::PowerLoss { lasting: Some(lasting), .. }
        | Action::Cut { lasting: Some(lasting), .. }
        | Action::Pause { lasting: Some(lasting), .. } => lasting > Duration::from_secs(7),
        _ => false,
    };
    let deaths = share(Some(Bias::Death), |one| one.steps.iter().any(long));
    assert!(deaths > 400, "a death takes long enough for a force-promote: {deaths}");
    let late = |step: &Step| step.action == Action::Hold {};
    let flips = share(Some(Bias::Flip), |one| one.steps.iter().any(late));
    assert!(flips > 200, "something is held: {flips}");
}

/// Every kind of step is drawn, except those which break the premise of an invariant.
#[test]
fn drawn_scenarios_leave_nothing_out() {
    let mut drawn = std::collections::BTreeSet::new();
    for bias in Bias::ALL {
        let options = DrawOptions { bias: Some(*bias), ..DrawOptions::default() };
        for seed in 0..100 {
            let scenario = Scenario::draw(&mut Random::root(seed), &options);
            drawn.extend(scenario.steps.iter().map(|step| step.action.word()));
        }
    }
    let missing: Vec<&str> = Action::words().filter(|word| !drawn.contains(word)).collect();
    let meant = [
        "start",
        "crash-after",
        "restart",
        "save-disk",
        "resume",
        "heal",
        "clock-jump",
        "pin",
        "consume",
        "quiet",
        "busy",
        "heal-all",
    ];
    assert_eq!(missing, meant);
}
