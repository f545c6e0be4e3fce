//! The others: rsync, cp, a plain loop, and the limit of what the system can do.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, sendfile};
use rustix::net::sockopt;
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

use super::cpu::cpu_seconds;
use super::rig::{Noise, Rig, Run};

/// Length of a segment, and of a file of the plain loop.
const SEGMENT: u64 = 64 << 20;
/// Bytes that are written at once.
const PIECE: usize = 256 << 10;
/// Bytes that are on their way at once in a pipe.
const PIPE: usize = 1 << 20;

/// Returns why a command cannot be used, unless it can.
pub(crate) fn missing(command: &str) -> Option<String> {
    let found =
        Command::new(command).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => None,
        Ok(_) | Err(_) => Some(format!("{command} is not installed (apt-get install {command})")),
    }
}

/// Returns why nothing can be run under a congestion control of its own, unless it can.
pub(crate) fn no_namespace(congestion: &str) -> Option<String> {
    let made = Command::new("unshare")
        .args(["-n", "sh", "-c", &network(congestion)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => None,
        Ok(_) | Err(_) => Some(format!(
            "rsync cannot be run on {congestion}: that needs root, unshare and ip (apt-get install util-linux iproute2)"
        )),
    }
}

fn network(congestion: &str) -> String {
    format!("ip link set lo up && echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control")
}

/// Runs rsync over a daemon on loopback; in a network of its own if it is to have another congestion
/// control than the system's.
pub(crate) fn rsync(rig: &Rig, flags: &str, congestion: Option<&str>) -> Run {
    let destination = rig.fresh();
    let work = destination.with_extension("rsyncd");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("loopback");
    let port = port.port();
    let config = format!(
        "use chroot = no\nuid = {}\ngid = {}\n[m]\npath = {}\nread only = no\n",
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        destination.display(),
    );
    std::fs::write(&work, config).expect("a disk");
    // The client's time alone; the daemon is there before.
    let network = congestion.map_or_else(|| "true".to_owned(), network);
    let script = format!(
        "{network}\n\
         rsync --daemon --no-detach --address=127.0.0.1 --port={port} --config='{config}' &\n\
         daemon=$!\n\
         until rsync rsync://127.0.0.1:{port}/ >/dev/null 2>&1; do sleep 0.05; done\n\
         date +%s%N\n\
         rsync {flags} '{source}/' rsync://127.0.0.1:{port}/m/ || echo failed\n\
         date +%s%N\n\
         kill $daemon; wait $daemon 2>/dev/null\n",
        config = work.display(),
        source = rig.segments().display(),
    );
    let cpu = cpu_seconds();
    let mut command = if congestion.is_some() {
        let mut command = Command::new("unshare");
        command.args(["-n", "sh", "-c", &script]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        command
    };
    let output = command.stderr(Stdio::inherit()).output().expect("a shell");
    let cpu_seconds = cpu_seconds() - cpu;
    let text = String::from_utf8_lossy(&output.stdout);
    let times: Vec<u64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let [began, ended] = times[..] else { panic!("rsync said: {text}") };
    assert!(!text.contains("failed"), "rsync failed");
    Run { took: Duration::from_nanos(ended - began), cpu_seconds }
}

/// Runs `cp -r`, which needs no network.
pub(crate) fn cp(rig: &Rig) -> Run {
    let destination = rig.fresh();
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let status = Command::new("cp").arg("-r").arg(rig.segments()).arg(&destination).status();
    assert!(status.expect("cp is everywhere").success(), "cp failed");
    Run { took: begin.elapsed(), cpu_seconds: cpu_seconds() - cpu }
}

/// Writes as many bytes from memory to files of a segment's length, each synced on a second thread
/// once it is whole.
pub(crate) fn plain(rig: &Rig) -> Run {
    let destination = rig.fresh();
    let bytes = Noise(9).bytes(PIECE);
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    let (whole, files) = mpsc::channel::<File>();
    let syncer =
        thread::spawn(move || files.iter().for_each(|file| file.sync_data().expect("sync")));
    let mut left = rig.bytes;
    while left > 0 {
        let length = left.min(SEGMENT);
        let file = create(&destination, left);
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length).expect("space");
        let mut at = 0;
        while at < length {
            let piece = bytes.len().min(usize::try_from(length - at).expect("a segment"));
            file.write_all_at(&bytes[..piece], at).expect("space");
            at += piece as u64;
        }
        whole.send(file).expect("the syncer waits for it");
        left -= length;
    }
    drop(whole);
    syncer.join().expect("it syncs");
    File::open(&destination).and_then(|dir| dir.sync_all()).expect("sync");
    Run { took: begin.elapsed(), cpu_seconds: cpu_seconds() - cpu }
}

/// The least that can be done: files go from one socket to the other by `sendfile` and `splice`, with
/// nothing checked and nothing synced.
pub(crate) fn raw(rig: &Rig, streams: usize, congestion: Option<&str>) -> Run {
    let destination = rig.fresh();
    let segments = segments(&rig.segments());
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    if let Some(congestion) = congestion {
        sockopt::set_tcp_congestion(&listener, congestion).expect("a congestion control");
    }
    let address = listener.local_addr().expect("it listens");
    let next = AtomicUsize::new(0);
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    thread::scope(|scope| {
        for _ in 0..streams {
            scope.spawn(|| receive(address, &segments, &next, &destination));
        }
        for _ in 0..streams {
            let (stream, _) = listener.accept().expect("they dial");
            let segments = &segments;
            scope.spawn(move || send(stream, segments));
        }
    });
    Run { took: begin.elapsed(), cpu_seconds: cpu_seconds() - cpu }
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).expect("the partition's directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|it| it == "seg")).collect()
}

fn send(mut stream: TcpStream, segments: &[PathBuf]) {
    let mut index = [0; 8];
    while stream.read_exact(&mut index).is_ok() {
        let at = usize::try_from(u64::from_le_bytes(index)).expect("an index");
        let file = File::open(&segments[at]).expect("a segment");
        let length = file.metadata().expect("a segment").len();
        let mut position = 0;
        while position < length {
            let left = usize::try_from(length - position).expect("a segment");
            let sent = sendfile(&stream, &file, Some(&mut position), left).expect("a reader");
            assert!(sent > 0, "the file is there");
        }
    }
}

fn receive(address: SocketAddr, segments: &[PathBuf], next: &AtomicUsize, destination: &Path) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    let (out, into) = pipe().expect("a pipe");
    fcntl_setpipe_size(&into, PIPE).expect("a pipe");
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(path) = segments.get(at) else { return };
        stream.write_all(&(at as u64).to_le_bytes()).expect("a sender");
        let mut left = path.metadata().expect("a segment").len();
        let file = create(destination, at as u64);
        fallocate(&file, FallocateFlags::KEEP_SIZE, 0, left).expect("space");
        while left > 0 {
            let want = PIPE.min(usize::try_from(left).expect("a segment"));
            let taken = splice(&stream, None, &into, None, want, SpliceFlags::MOVE);
            let mut held = taken.expect("a sender");
            assert!(held > 0, "the sender is there");
            left -= held as u64;
            while held > 0 {
                held -= splice(&out, None, &file, None, held, SpliceFlags::MOVE).expect("space");
            }
        }
    }
}

fn create(dir: &Path, name: u64) -> File {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    options.open(dir.join(name.to_string())).expect("a disk")
}
