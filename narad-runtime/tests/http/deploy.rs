//! The files of `examples/deploy`: they are read as their readers would, and name only what exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use narad_runtime::cli::Cli;
use narad_runtime::settings::Layers;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/deploy").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Checks that a command line has flags that its command takes.
fn check_line(line: &str) {
    let words: Vec<&str> = line.split_whitespace().map(|word| word.trim_matches('"')).collect();
    let root = Cli::command();
    let (mut command, mut known): (&Command, BTreeSet<String>) = (&root, flags(&root));
    let mut is_leaf = false;
    for word in &words[1..] {
        if let Some(flag) = word.strip_prefix("--") {
            assert!(known.contains(flag), "{line}: there is no --{flag}");
        } else if let Some(inner) = command.find_subcommand(word).filter(|_| !is_leaf) {
            known.extend(flags(inner));
            command = inner;
            is_leaf = !inner.has_subcommands();
        }
    }
    assert!(is_leaf, "{line}: no command");
}

fn flags(command: &Command) -> BTreeSet<String> {
    command.get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

/// Returns every call of `narad` in a file, with lines that go on joined.
fn calls(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.trim().trim_start_matches("# "));
    let call = |line: &str| {
        let at = ["narad server", "narad cluster", "narad token", "narad cert"]
            .iter()
            .filter_map(|call| line.find(call));
        let call = &line[at.min()?..];
        let end = call.find(['`', '|', ',']).filter(|end| !call[..*end].contains("--join"));
        Some(call[..end.unwrap_or(call.len())].trim().to_owned())
    };
    lines.filter_map(call).collect()
}

#[test]
fn every_command_in_them_exists() {
    let mut seen = 0;
    for name in ["narad.service", "kubernetes.yaml", "README.md", "narad.toml"] {
        for call in calls(&file(name)) {
            let call = call.split(" prints").next().unwrap_or(&call);
            check_line(call);
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen} calls were found");
}

/// The check above can fail.
#[test]
#[should_panic(expected = "there is no --wiat")]
fn a_flag_that_does_not_exist_is_found() {
    check_line("narad cluster safe-to-stop narad-1 --wiat 60s");
}

/// Both configurations are ones, as they are and with what is commented out.
#[test]
fn the_configurations_are_read() {
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let kubernetes = file("kubernetes.yaml");
    let embedded = kubernetes.split("narad.toml: |\n").nth(1).expect("it is there");
    let embedded: Vec<&str> =
        embedded.lines().take_while(|line| line.starts_with("    ")).map(str::trim_start).collect();
    let embedded = embedded.join("\n");
    for (text, told) in [(file("narad.toml"), false), (embedded, true)] {
        let with_tokens = text
            .replace("# [[auth", "[[auth")
            .replace("# name", "name")
            .replace("# role", "role")
            .replace("# sha256", "sha256")
            .replace("64 hex digits", hash);
        for text in [&text, &with_tokens] {
            let layers = Layers::default().with_text(Path::new("narad.toml"), text).expect(text);
            let layers = layers.with_flag("name", "narad-1");
            let layers = if told {
                // The pod's own address, which the file cannot have.
                layers.with_flag("advertise.peer", "a:1").with_flag("advertise.http", "a:2")
            } else {
                layers
            };
            let settings = layers.settings().expect(text);
            settings.check_listeners().expect("strangers are served under TLS only");
            assert_eq!(settings.data_dir, PathBuf::from("/var/lib/narad"));
            assert_eq!(settings.logging.format, "json");
            assert_eq!(settings.auth.tokens.len(), usize::from(text == &with_tokens));
        }
    }
}

/// Reads a unit: sections, keys, and comments on lines of their own.
#[test]
fn the_unit_is_one() {
    let text = file("narad.service");
    let mut sections: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut section = "";
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("{line}"));
        assert!(key.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{line}");
        sections.entry(section).or_default().push((key, value));
    }
    assert_eq!(sections.keys().copied().collect::<Vec<_>>(), ["Install", "Service", "Unit"]);
    let value = |key: &str| {
        let found = sections["Service"].iter().find(|(known, _)| *known == key);
        found.unwrap_or_else(|| panic!("{key}")).1
    };
    assert_eq!(value("Type"), "notify");
    assert!(value("ExecReload").contains("-HUP"));
    for (key, hard) in [("NoNewPrivileges", "yes"), ("ProtectSystem", "strict")] {
        assert_eq!(value(key), hard);
    }
}

/// Reads what Kubernetes would: documents of nested maps and lists, by their indentation.
#[test]
fn the_manifests_hold_together() {
    let text = file("kubernetes.yaml");
    assert!(!text.contains('\t'), "YAML knows no tabs");
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    let wanted = ["Service", "Service", "PodDisruptionBudget", "ConfigMap", "StatefulSet"];
    assert_eq!(kinds, wanted);
    for document in text.split("\n---\n") {
        let mut block = None;
        let mut last = 0;
        for line in document.lines().filter(|line| !line.trim().is_empty()) {
            let indent = line.len() - line.trim_start().len();
            if block.is_some_and(|opened| indent > opened) {
                continue;
            }
            block = None;
            let item = line.trim_start();
            if item.starts_with('#') {
                continue;
            }
            assert_eq!(indent % 2, 0, "{line}");
            assert!(indent <= last + 2, "{line}: deeper than its parent");
            let bare = item.trim_start_matches("- ");
            let is_value = item.starts_with("- ") && !bare.contains(": ") && !bare.ends_with(':');
            assert!(is_value || bare.contains(": ") || bare.ends_with(':'), "{line}: no key");
            last = indent + if item.starts_with("- ") && !is_value { 2 } else { 0 };
            if item.ends_with('|') {
                block = Some(indent);
            }
        }
    }
    let ports = |name: &str| text.matches(name).count();
    assert!(ports("port: 7400") >= 1 && ports("containerPort: 7401") == 1);
    for probe in ["/healthz", "/readyz"] {
        assert!(narad_runtime::http::paths().any(|path| path == probe) && text.contains(probe));
    }
}
