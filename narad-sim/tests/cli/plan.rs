//! `plan`.

use narad_sim::cli::ExitCode;

use crate::harness::{dir, file, sim};

#[test]
fn a_new_node_takes_its_share_and_the_table_says_why() {
    let dir = dir();
    let text = "
        [[node]]
        name = 'a'
        [[node]]
        name = 'b'
        [[node]]
        name = 'new'
        [[topic]]
        name = 'orders'
        partitions = 9
        owners = ['a', 'b']
        bytes = '1MiB'
    ";
    let placement = file(&dir, "join.toml", text);
    let json = sim(&["plan", &placement, "--json"]).last();
    assert_eq!(json["lower_bound"], 3);
    let moves = json["moves"].as_array().expect("a list");
    assert!(moves.iter().all(|it| it["to"] == "new"), "{moves:?}");
    assert_eq!(moves.iter().filter(|it| it["starts"] == true).count(), 2, "two to one node");
    assert!(
        moves[2]["why"].as_str().is_some_and(|why| why.contains("2 moves to new are in flight"))
    );
    let nodes = json["nodes"].as_array().expect("a list").iter();
    let nodes: Vec<_> = nodes.map(|it| (it["before"].as_u64(), it["after"].as_u64())).collect();
    assert_eq!(nodes, [(Some(5), Some(3)), (Some(4), Some(3)), (Some(0), Some(3))]);
    let out = sim(&["plan", &placement]).out;
    assert!(
        out.contains("3 moves planned (2 now), 3.0 MiB copied; no plan has fewer than 3"),
        "{out}"
    );
}

#[test]
fn what_stays_says_why() {
    let dir = dir();
    let text = "
        node = [{ name = 'a', draining = true }, { name = 'b' }, { name = 'c', status = 'dead' }]
        [[topic]]
        name = 'orders'
        partitions = 3
        owners = ['a', 'a', 'c']
        [[topic.partition]]
        index = 1
        pinned = true
    ";
    let json = sim(&["plan", &file(&dir, "drain.toml", text), "--json"]).last();
    let whys = json["stays"].as_array().expect("a list").iter();
    let whys: Vec<_> = whys.map(|it| it["why"].as_str().expect("text")).collect();
    assert_eq!(whys, ["is pinned to a; unpin it", "its owner c is dead; it waits for its return"]);
    assert_eq!(json["moves"][0]["why"], "a leaves");
}

#[test]
fn the_example_is_a_placement() {
    let dir = dir();
    let example = sim(&["plan", "--example"]).out;
    let ran = sim(&["plan", &file(&dir, "example.toml", &example)]);
    assert_eq!(ran.code, ExitCode::Good, "{}", ran.err);
    assert!(ran.out.contains("DOES NOT MOVE"), "{}", ran.out);
}

#[test]
fn the_planner_places_what_has_no_owners() {
    let dir = dir();
    let text = "node = [{ name = 'a' }, { name = 'b' }]\ntopic = [{ name = 't', partitions = 4 }]";
    let json = sim(&["plan", &file(&dir, "new.toml", text), "--json"]).last();
    assert_eq!(
        (json["nodes"][0]["before"].clone(), json["nodes"][1]["before"].clone()),
        (2.into(), 2.into())
    );
}

#[test]
fn every_mistake_has_its_line() {
    let dir = dir();
    let node = "[[node]]\nname = 'a'\n";
    let topic = format!("{node}[[topic]]\nname = 't'\npartitions = 2\nowners = ['a']\n");
    for (text, says) in [
        ("node = 1".to_owned(), "line 1, column 8"),
        (format!("{node}size = 3"), "line 3, column 1: unknown field `size`"),
        (format!("{node}{node}"), "line 4, column 8: node a is listed twice"),
        (format!("{topic}parent = 'u'"), "line 7, column 10: no topic u is listed"),
        (format!("{topic}parent = 't'"), "line 7, column 10: a topic is not its own parent"),
        (topic.replace("['a']", "['orders', 'aa']"), "line 6, column 11: no node orders is listed"),
        (topic.replace("['a']", "['aa']"), "did you mean a?"),
        (topic.replace("['a']", "[]"), "line 6, column 10: name at least one owner"),
        (topic.replace("= 2", "= 0"), "line 5, column 14: a topic has 1 to 100000 partitions"),
        (topic.replace("= 2", "= 4000000000"), "a topic has 1 to 100000 partitions"),
        (format!("{topic}bytes = '1 parsec'"), "line 7, column 9: a size is a number of bytes"),
        (format!("{topic}[[topic.partition]]\nindex = 2"), "line 8, column 9: partition 2 of 2"),
        (
            format!("{topic}[[topic.partition]]\nindex = 1\ntarget = 'a'"),
            "line 9, column 10: its target is its owner",
        ),
        ("[[topic]]\nname = 't'\npartitions = 2".to_owned(), "line 3, column 14: no node receives"),
    ] {
        let ran = sim(&["plan", &file(&dir, "bad.toml", &text)]);
        assert_eq!(ran.code, ExitCode::Usage, "{text}");
        assert!(ran.err.contains(says), "{says}: {}", ran.err);
        assert!(ran.err.contains("hint: narad-sim plan --example"), "{}", ran.err);
    }
}
