//! One process of the `narad` binary, and the files that outlive it.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use super::harness::eventually;

/// Takes space on a small disk.
const BALLAST: &str = "ballast";

/// Short times that a configuration is valid with. `force_promote_after` is longer than any test
/// lets a source be away: nothing here may rest on a promotion unless it says so.
const TIMES: &str = r#"
[timing]
heartbeat_interval = "200ms"
request_timeout = "2s"
grace_after_election = "3s"
controller_interval = "100ms"
retry_max = "500ms"

[freeze]
ttl = "1s"
max = "20s"
duty_percent = 100
admission_max = "1s"

[raft]
tick = "40ms"

[policy]
lease = "1500ms"
lease_margin = "200ms"
dead_timeout = "3s"
force_promote_after = "2min"
"#;

/// Returns a command of the binary, in an environment that holds nothing of the caller's.
pub(crate) fn narad() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_narad"));
    command.env_clear().env("RUST_BACKTRACE", "1");
    command
}

/// Takes a port that nobody listens on and that the system hands to nobody: it stays free while its
/// node is down.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let own = u16::try_from(std::process::id() * 64 % 22_000).unwrap();
        let port = 10_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed)) % 22_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// One node: its files outlive its processes.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) peer: u16,
    pub(crate) http: u16,
    pub(crate) child: Option<Child>,
}

impl Node {
    /// Makes the files of a node that has not run yet. `more` is added to its configuration.
    pub(crate) fn new(root: &Path, name: &str, more: &str) -> Self {
        Self::at(root, name, more, (free_port(), free_port()))
    }

    /// Makes those of a node that listens on these ports, for peers and for HTTP.
    pub(crate) fn at(root: &Path, name: &str, more: &str, (peer, http): (u16, u16)) -> Self {
        let dir = root.join(name);
        fs::create_dir_all(&dir).unwrap();
        let data = dir.join("data");
        // A key may stand in a file once.
        let usual = |line: &&str| {
            let key = line.split(" = ").next().unwrap_or_default();
            key.is_empty() || !more.lines().any(|own| own.starts_with(&format!("{key} = ")))
        };
        let times: String = TIMES.lines().filter(usual).flat_map(|line| [line, "\n"]).collect();
        let config = format!(
            "name = \"{name}\"\ndata_dir = \"{}\"\n[listen]\npeer = \"127.0.0.1:{peer}\"\n\
             http = \"127.0.0.1:{http}\"\n{times}{more}",
            data.display()
        );
        fs::write(dir.join("narad.toml"), config).unwrap();
        Self { name: name.to_owned(), dir, peer, http, child: None }
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join("narad.toml")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Starts a process; what it says goes to a file.
    pub(crate) fn start(&mut self, arguments: &[&str]) {
        assert!(self.child.is_none(), "{} runs already", self.name);
        let log = File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let child = narad()
            .arg("server")
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env("NARAD_FAILPOINT_FILE", self.failpoints())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Starts a process on a data directory that is a file system of its own, of so many bytes, of
    /// which so many are taken. Returns whether this user may do that.
    pub(crate) fn start_on_small_disk(
        &mut self,
        bytes: usize,
        taken: usize,
        arguments: &[&str],
    ) -> bool {
        let mut probe = Command::new("unshare");
        let may = probe.args(["--user", "--map-root-user", "--mount", "true"]).status();
        if !may.is_ok_and(|status| status.success()) {
            return false;
        }
        fs::create_dir_all(self.data()).unwrap();
        let log = File::create(self.dir.join("log")).unwrap();
        let script = format!(
            "mount -t tmpfs -o size={bytes} none \"$1\" && head -c {taken} /dev/zero > \"$2\" && \
             c=$3 && shift 3 && exec \"$0\" server --config \"$c\" \"$@\""
        );
        let child = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .arg(env!("CARGO_BIN_EXE_narad"))
            .args([self.data(), self.data().join(BALLAST), self.config()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
        true
    }

    /// Frees what was taken of a small disk.
    pub(crate) fn free_small_disk(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    /// Takes all of a small disk but so many bytes.
    pub(crate) fn fill_small_disk(&self, left: u64) {
        let mut file = File::options().append(true).open(self.ballast()).unwrap();
        let disk = rustix::fs::fstatvfs(&file).unwrap();
        let taken = usize::try_from(disk.f_bavail * disk.f_frsize - left).unwrap();
        file.write_all(&vec![0; taken]).unwrap();
    }

    /// Returns where its process, which alone sees its small disk, has what was taken of it.
    fn ballast(&self) -> String {
        let process = self.child.as_ref().unwrap().id();
        format!("/proc/{process}/root{}", self.data().join(BALLAST).display())
    }

    pub(crate) fn runs(&self) -> bool {
        self.child.is_some()
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Kills the process, wherever it is.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.child.take().unwrap().wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{} had ended: {status}", self.name);
    }

    /// Makes the process stand still.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets a process go on that stands still.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Tells the process to read its files again.
    pub(crate) fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Tells the process to end in order.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Waits until the process has ended by itself.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let mut status = None;
        eventually(&format!("{} ends", self.name), async || {
            status = child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }

    /// Waits until a failpoint has killed the process.
    pub(crate) async fn killed(&mut self) {
        let status = self.ended().await;
        assert_eq!(status.signal(), Some(9), "{}: {status}\n{}", self.name, self.tail(40));
        self.arm("");
    }

    /// Waits until a failpoint has stopped the process.
    pub(crate) async fn stopped(&self) {
        let stat = format!("/proc/{}/stat", self.child.as_ref().unwrap().id());
        eventually(&format!("{} stands still", self.name), async || {
            let stat = fs::read_to_string(&stat).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
        .await;
        self.arm("");
    }

    fn failpoints(&self) -> PathBuf {
        self.dir.join("failpoints")
    }

    /// Arms failpoints in the process that runs, and in the next ones; none if the text is empty.
    pub(crate) fn arm(&self, text: &str) {
        let new = self.dir.join("failpoints.new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, self.failpoints()).unwrap();
    }

    /// Returns everything that the node's processes said.
    pub(crate) fn log(&self) -> String {
        fs::read(self.dir.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Returns the last lines of the log.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let log = self.log();
        let skip = log.lines().count().saturating_sub(lines);
        log.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }

    /// Returns the numbers that a field of the log's lines had, for lines that contain `about`.
    pub(crate) fn logged(&self, about: &str, field: &str) -> Vec<u64> {
        let log = plain(&self.log());
        let key = format!(" {field}=");
        let number = |line: &str| {
            let rest = line.split(&key).nth(1)?;
            rest.split(' ').next()?.trim().parse().ok()
        };
        log.lines().filter(|line| line.contains(about)).filter_map(number).collect()
    }
}

/// Takes the colours out of a text.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.split_once('m').map_or("", |(_, rest)| rest))
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        if std::thread::panicking() {
            println!("---- {} in {}\n{}", self.name, self.dir.display(), self.tail(60));
        }
    }
}
