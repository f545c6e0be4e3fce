//! The configuration: what is refused, and which layer wins.

use std::path::{Path, PathBuf};
use std::time::Duration;

use narad_runtime::http::Role;
use narad_runtime::settings::{
    Effect, Layers, Settings, SettingsError, changes, commented_default, keys,
};

fn read(text: &str) -> Result<Settings, SettingsError> {
    Layers::default().with_text(Path::new("narad.toml"), text)?.settings()
}

fn refusal(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

fn variables(pairs: &[(&str, &str)]) -> std::vec::IntoIter<(String, String)> {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect::<Vec<_>>().into_iter()
}

#[test]
fn a_file_is_read_key_by_key() {
    let settings = read(
        r#"
        name = "narad-1"
        data_dir = "/var/lib/narad"
        [listen]
        http = "127.0.0.1:8401"
        [advertise]
        http = "narad-1.example:8401"
        [policy]
        paused = true
        copy_rate_bytes_per_second = "100MiB"
        force_promote_after = "3min"
        [copy]
        lag_bytes = 65536
        [freeze]
        ttl = "20s"
        "#,
    )
    .expect("settings");
    assert_eq!(settings.required_name().expect("a name").as_str(), "narad-1");
    assert_eq!(settings.data_dir, PathBuf::from("/var/lib/narad"));
    assert_eq!(settings.http_addr(), "narad-1.example:8401");
    assert_eq!(settings.peer_addr(), "127.0.0.1:7400");
    assert!(settings.policy.paused);
    assert_eq!(settings.policy.copy_rate_bytes_per_second, 100 << 20);
    assert_eq!(settings.policy.force_promote_after, Duration::from_mins(3));
    assert_eq!(settings.node.lag_bytes, 65536);
    assert_eq!(settings.node.freeze_ttl, Duration::from_secs(20));
    assert_ne!(
        settings.node.jitter_seed,
        read(r#"name = "narad-2""#).expect("ok").node.jitter_seed
    );
}

#[test]
fn an_unknown_key_is_named_with_the_one_that_is_meant() {
    assert_eq!(
        refusal("[policy]\nmax_inflight = 3"),
        "narad.toml has an unknown key policy.max_inflight; did you mean policy.max_in_flight?"
    );
    assert_eq!(
        refusal("[copy]\nlease = \"10s\""),
        "narad.toml has an unknown key copy.lease; did you mean policy.lease?"
    );
    assert_eq!(refusal("zzz = 1"), "narad.toml has an unknown key zzz");
    assert!(refusal("[politics]\nlease = 1").starts_with("narad.toml has an unknown key politics"));
    assert!(refusal("policy = 3").starts_with("narad.toml has an unknown key policy"));
    let flags = Layers::default().with_flag("policy.leese", "1s");
    let error = flags.settings().expect_err("misspelt").to_string();
    assert_eq!(
        error,
        "the command line has an unknown key policy.leese; did you mean policy.lease?"
    );
}

#[test]
fn a_value_that_cannot_be_understood_is_named_with_what_is_allowed() {
    assert_eq!(
        refusal("[policy]\nlease = \"ten seconds\""),
        "policy.lease is \"ten seconds\" (in narad.toml), but must be a duration such as \"10s\" or \"200ms\""
    );
    let bad = [
        ("[policy]\nlease = 10", "a duration"),
        ("[policy]\npaused = \"yes\"", "true or false"),
        ("[policy]\nvoters_max = -1", "a whole number"),
        ("[policy]\nvoters_max = 4294967296", "a whole number"),
        ("[copy]\nlag_bytes = \"1MB\"", "a size"),
        ("[copy]\nlag_bytes = 1.5", "a size"),
        ("[listen]\nhttp = \"localhost\"", "an address"),
        ("[listen]\nhttp = \"http://localhost:1\"", "an address"),
        ("name = \"a b\"", "such as narad-1: a name"),
        ("name = 4", "a name"),
        ("data_dir = \"\"", "a path"),
    ];
    for (text, allowed) in bad {
        let message = refusal(text);
        assert!(message.contains(&format!("but must be {allowed}")), "{text}: {message}");
    }
    assert!(
        refusal("name = ").starts_with("the configuration file narad.toml is not TOML: line 1")
    );
}

/// Only hashes stand in a file, and a wrong one is told without being repeated in full.
#[test]
fn tokens_are_read_from_every_layer() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let one = format!("[{{name = \"ops\", role = \"admin\", sha256 = \"{hash}\"}}]");
    let table = format!("[[auth.tokens]]\nname = \"ops\"\nrole = \"admin\"\nsha256 = \"{hash}\"");
    let settings = read(&format!("[auth]\ntokens = {one}")).expect("settings");
    assert_eq!(settings.auth.tokens[0].role, Role::Admin);
    assert_eq!(read(&table).expect("settings").auth, settings.auth);
    let layers = Layers::default().with_environment(variables(&[("NARAD_AUTH_TOKENS", &one)]));
    assert_eq!(layers.settings().expect("settings").auth, settings.auth);
    for (bad, allowed) in [
        (one.replace("admin", "root"), "it is read, write or admin"),
        (one.replace("ba78", "zz"), "64 hex digits"),
        (one.replace("ops", "o p s"), "visible ASCII"),
        (one.replace("sha256", "token"), "not token"),
        (format!("{}{}", &one[..one.len() - 1], &one.replacen('[', ", ", 1)), "there twice"),
        ("\"ops\"".to_owned(), "a list such as"),
    ] {
        let message = refusal(&format!("[auth]\ntokens = {bad}"));
        assert!(message.starts_with("auth.tokens is ") && message.contains(allowed), "{message}");
    }
    let two = Layers::default().with_flag("auth.tokens", format!("{one}\nname = \"x\""));
    assert!(two.settings().is_err());
}

/// H9: the lease of a cut-off owner has to end before anybody succeeds it.
#[test]
fn unsafe_timing_is_refused_before_anything_starts() {
    let text = "[policy]\ndead_timeout = \"5s\"\nforce_promote_after = \"5s\"";
    let error = read(text).expect_err("hasty");
    assert!(matches!(error, SettingsError::UnsafeTiming(_)), "{error:?}");
    assert!(error.to_string().contains("shorten the lease or lengthen force_promote_after"));
}

#[test]
fn a_value_outside_its_range_is_named_as_in_the_file() {
    let cases = [
        ("[policy]\nmax_in_flight = 0", "policy.max_in_flight is 0, but must be at least 1"),
        (
            "[timing]\nheartbeat_interval = \"9s\"",
            "timing.heartbeat_interval is 9000 ms, but must be at most a third of the lease",
        ),
        ("[freeze]\nduty_percent = 101", "freeze.duty_percent is 101, but must be 1 to 100"),
        ("[freeze]\nmax = \"1s\"", "freeze.max is 1000 ms, but must be at least freeze_ttl"),
        (
            "[raft]\nheartbeat_ticks = 10",
            "raft.heartbeat_ticks is 10, but must be at least 1 and fewer than raft.election_ticks_min",
        ),
        ("[raft]\ntick = \"0s\"", "raft.tick is 0s, but must be more than 0"),
        (
            "[http]\nbody_bytes_max = \"1KiB\"",
            "http.body_bytes_max is 1KiB, but must be at least http.record_bytes_max",
        ),
        (
            "[http]\nbodies_bytes_max = \"2MiB\"",
            "http.bodies_bytes_max is 2MiB, but must be at least http.body_bytes_max",
        ),
        (
            "[log]\nsegment_bytes = \"64KiB\"",
            "log.segment_bytes is 64KiB, but must be at least http.record_bytes_max",
        ),
        (
            "[listen]\npeer = \"0.0.0.0:7400\"",
            "advertise.peer is missing: the node listens on 0.0.0.0:7400, where others cannot reach it by that name",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(refusal(text), message);
    }
}

#[test]
fn a_flag_wins_over_the_environment_over_the_file_over_the_default() {
    let text = "data_dir = \"file\"\n[policy]\nlease = \"8s\"\nmax_in_flight = 5";
    let layers = Layers::default().with_text(Path::new("narad.toml"), text).expect("toml");
    let environment =
        [("NARAD_POLICY_LEASE", "7s"), ("NARAD_DATA_DIR", "env"), ("NARAD_ADMIN", "x")];
    let layers = layers.with_environment(variables(&environment)).with_flag("data_dir", "flag");
    let settings = layers.settings().expect("settings");
    assert_eq!(settings.data_dir, PathBuf::from("flag"));
    assert_eq!(settings.policy.lease, Duration::from_secs(7));
    assert_eq!(settings.policy.max_in_flight, 5);
    assert_eq!(settings.policy.voters_max, 5);
    let bad = layers.with_environment(variables(&[("NARAD_POLICY_LEASE", "soon")]));
    let message = bad.settings().expect_err("no duration").to_string();
    assert!(message.starts_with("policy.lease is soon (from NARAD_POLICY_LEASE)"), "{message}");
}

#[test]
fn every_key_stands_in_the_commented_default_and_keeps_its_meaning() {
    let text = commented_default();
    for key in keys() {
        let name = key.path.rsplit('.').next().expect("a name");
        assert!(text.contains(&format!("# {name} = ")), "{}", key.path);
    }
    // With every line in force, all is as it was; but for what has no default.
    let in_force: Vec<&str> = text
        .lines()
        .map(|line| if line.contains(" = ") { line.trim_start_matches("# ") } else { line })
        .collect();
    let settings = read(&in_force.join("\n")).expect("settings");
    let Settings { policy, raft, log, http, connections, listen, .. } = Settings::default();
    assert_eq!(settings.peer_addr(), "192.0.2.1:7400");
    assert_eq!(settings.http_addr(), "192.0.2.1:7401");
    assert_eq!((settings.policy, settings.raft, settings.log), (policy, raft, log));
    assert_eq!((settings.http, settings.connections), (http, connections));
    assert_eq!(settings.listen, listen);
}

#[test]
fn a_missing_file_is_named() {
    let nowhere = tempfile::tempdir().expect("a directory").path().join("narad.toml");
    let error = Layers::default().with_file(Some(&nowhere)).expect_err("nothing is there");
    assert!(matches!(error, SettingsError::Unreadable { path, .. } if path == nowhere));
    let unnamed = Settings::default();
    let error = unnamed.required_name().expect_err("no name").to_string();
    assert_eq!(error, "name is missing: set it in the file, by --name or by NARAD_NAME");
}

/// One key of each kind, through all four layers: a flag wins over the environment, that over the
/// file, that over the default.
#[test]
fn every_kind_of_key_is_taken_from_the_strongest_layer() {
    let cases = [
        ("name", "\"a\"", "b", "c"),
        ("data_dir", "\"a\"", "b", "c"),
        ("listen.http", "\"127.0.0.1:1\"", "127.0.0.1:2", "127.0.0.1:3"),
        ("advertise.http", "\"a:1\"", "a:2", "a:3"),
        ("policy.paused", "true", "false", "true"),
        ("policy.max_in_flight", "5", "6", "7"),
        ("policy.lease", "\"5s\"", "6s", "7s"),
        ("copy.lag_bytes", "65536", "128KiB", "256KiB"),
        ("transfer.congestion_control", "\"reno\"", "bbr", "system"),
        ("logging.filter", "\"warn\"", "debug", "error,raft=info"),
    ];
    let value = |layers: &Layers, path: &str| {
        let settings = layers.settings().expect(path);
        let [change] = &changes(&Settings::default(), &settings)[..] else {
            return None;
        };
        assert_eq!(change.key, path);
        Some(change.after.trim_matches('"').to_owned())
    };
    for (path, file, variable, flag) in cases {
        let (section, key) = path.split_once('.').unwrap_or(("", path));
        let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
        let text = format!("{head}{key} = {file}");
        let name = format!("NARAD_{}", path.replace('.', "_").to_ascii_uppercase());
        let none = Layers::default();
        assert_eq!(value(&none, path), None, "{path}");
        let in_file = none.with_text(Path::new("narad.toml"), &text).expect("toml");
        let from_file = value(&in_file, path).expect("another than the default");
        let in_variable = in_file.with_environment(variables(&[(&name, variable)]));
        let by_flag = in_variable.clone().with_flag(path, flag);
        if path != "policy.paused" {
            // What is the default again is no change.
            assert_eq!(value(&in_variable, path).as_deref(), Some(variable), "{path}");
            assert_ne!(from_file, variable, "{path}");
        }
        assert_eq!(value(&by_flag, path).as_deref(), Some(flag), "{path}");
    }
}

/// Whoever reads a changed file again is told what counts when.
#[test]
fn changes_are_told_apart_by_when_they_count() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let after = read(&format!(
        "[policy]\nmax_in_flight = 3\n[http]\nwait_max = \"9s\"\n[logging]\nfilter = \"debug\"\n\
         [[auth.tokens]]\nname = \"ops\"\nrole = \"admin\"\nsha256 = \"{hash}\""
    ))
    .expect("settings");
    let told: Vec<(Effect, String)> = changes(&Settings::default(), &after)
        .iter()
        .map(|change| (change.effect, change.to_string()))
        .collect();
    let wanted = [
        (Effect::Cluster, "policy.max_in_flight from 8 to 3"),
        (Effect::Restart, "http.wait_max from \"30s\" to \"9s\""),
        (Effect::Now, "auth.tokens from 0 tokens to 1 tokens"),
        (Effect::Now, "logging.filter from \"info,raft=warn\" to \"debug\""),
    ];
    assert_eq!(told, wanted.map(|(effect, text)| (effect, text.to_owned())));
    assert_eq!(changes(&after, &after), []);
    let bad = [
        ("[logging]\nfilter = \"narad=loud\"", "logging.filter is narad=loud, but must be levels"),
        ("[logging]\nformat = \"xml\"", "logging.format is xml, but must be text or json"),
        ("[audit]\nbytes_max = \"1KiB\"", "audit.bytes_max is 1KiB, but must be at least 64KiB"),
        ("[audit]\nfiles_max = 0", "audit.files_max is 0, but must be at least 1"),
        ("[http]\nconnections_max = 0", "http.connections_max is 0, but must be at least 1"),
    ];
    for (text, message) in bad {
        assert!(refusal(text).starts_with(message), "{}", refusal(text));
    }
}
