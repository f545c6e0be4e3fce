//! A file's policy against the cluster's.

use narad_core::config::Policy;

use super::ServerError;

/// Checks that a file's policy is the cluster's. A file that leaves everything at its default says
/// nothing.
///
/// What operators turn in passing is the cluster's: a node that restarts while moves are paused or
/// slowed down must not be kept out by its file.
pub(super) fn check_policy(file: &Policy, cluster: &Policy) -> Result<(), ServerError> {
    if *file == Policy::default() {
        return Ok(());
    }
    let file = &Policy {
        paused: cluster.paused,
        copy_rate_bytes_per_second: cluster.copy_rate_bytes_per_second,
        copy_in_bytes_per_second: cluster.copy_in_bytes_per_second,
        copy_out_bytes_per_second: cluster.copy_out_bytes_per_second,
        cluster_copy_rate_bytes_per_second: cluster.cluster_copy_rate_bytes_per_second,
        ..file.clone()
    };
    let (file, cluster) = (format!("{file:#?}"), format!("{cluster:#?}"));
    let differ = file.lines().zip(cluster.lines()).filter(|(file, cluster)| file != cluster);
    let differ = differ.map(|(file, cluster)| {
        let plain = |line: &str| line.trim().trim_end_matches(',').to_owned();
        format!("the file says {}, the cluster {}", plain(file), plain(cluster))
    });
    let differences: Vec<String> = differ.collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(ServerError::PolicyDiffers { difference: differences.join("; ") })
}
