//! The older text format, for scrapers that do not ask for `OpenMetrics`.

use std::collections::BTreeMap;

/// Writes what is in the text format of `OpenMetrics` in that of Prometheus, version 0.0.4.
///
/// There a counter's whole name stands in what is said of it, an info is a gauge, nothing is known of
/// units, and the text ends where it ends.
pub(super) fn classic(open: &str) -> String {
    let families = open.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let kinds: BTreeMap<&str, &str> = families.filter_map(|kind| kind.split_once(' ')).collect();
    let mut text = String::with_capacity(open.len());
    for line in open.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            text.extend([line, "\n"]);
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        let (Some(what @ ("HELP" | "TYPE")), Some(family), Some(said)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (suffix, kind) = match kinds.get(family).copied() {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            Some("unknown") | None => ("", "untyped"),
            Some(other) => ("", other),
        };
        let said = if what == "TYPE" { kind } else { said };
        text.extend(["# ", what, " ", family, suffix, " ", said, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_are_those_of_the_older_format() {
        let open = "# HELP a_build What runs.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n\
            # HELP a_moves Moves, by # TYPE.\n# TYPE a_moves counter\na_moves_total{o=\"x\"} 2\n\
            # HELP a_lag_seconds Lag.\n# TYPE a_lag_seconds gauge\n# UNIT a_lag_seconds seconds\n\
            a_lag_seconds 9.5\n# HELP a_x X.\n# TYPE a_x unknown\na_x 1\n# EOF\n";
        let older = "# HELP a_build_info What runs.\n# TYPE a_build_info gauge\n\
            a_build_info{version=\"1\"} 1\n\
            # HELP a_moves_total Moves, by # TYPE.\n# TYPE a_moves_total counter\n\
            a_moves_total{o=\"x\"} 2\n\
            # HELP a_lag_seconds Lag.\n# TYPE a_lag_seconds gauge\na_lag_seconds 9.5\n\
            # HELP a_x X.\n# TYPE a_x untyped\na_x 1\n";
        assert_eq!(classic(open), older);
    }
}
