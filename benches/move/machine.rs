//! What the figures were measured on.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::Options;

/// The machine, as far as it decides about the figures.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// Cores that this process may use.
    cores: usize,
    /// The processor's name.
    processor: String,
    /// The kernel's release.
    kernel: String,
    /// Type of the filesystem that was measured.
    filesystem: String,
    /// The system's congestion control; Narad sets its own.
    congestion_control: String,
    /// The load average of the last minute when it was over, the runs themselves included.
    load: String,
    /// Bytes of a partition that was copied.
    partition_bytes: u64,
    /// Pairs that counted.
    pairs: u32,
}

impl Machine {
    /// Looks at the machine.
    pub(crate) fn look(options: &Options) -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let first = |text: String| text.split_whitespace().next().unwrap_or("unknown").to_owned();
        let processor = read("/proc/cpuinfo");
        let name = processor
            .lines()
            .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')));
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: name
                .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            kernel: first(read("/proc/sys/kernel/osrelease")),
            filesystem: filesystem(options.dir.path()),
            congestion_control: first(read("/proc/sys/net/ipv4/tcp_congestion_control")),
            load: first(read("/proc/loadavg")),
            partition_bytes: options.bytes,
            pairs: options.pairs,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores ({}), Linux {}, {}, {} as the system's congestion control, load {}; \
             {} MiB, {} pairs",
            self.cores,
            self.processor,
            self.kernel,
            self.filesystem,
            self.congestion_control,
            self.load,
            self.partition_bytes >> 20,
            self.pairs,
        )
    }
}

/// Returns the type of the filesystem that holds a directory: that of the longest mount point above.
fn filesystem(dir: &Path) -> String {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (at, kind) = (fields.next()?, fields.next()?);
        dir.starts_with(at).then(|| (at.len(), kind.to_owned()))
    });
    mount.max_by_key(|mount| mount.0).map_or_else(|| "unknown".to_owned(), |mount| mount.1)
}
