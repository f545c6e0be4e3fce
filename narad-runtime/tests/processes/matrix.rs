//! `kill -9` of source, destination and leader at every step of a move, then a restart: nothing is
//! lost, nothing is stuck, one node owns the partition.

use super::harness::Cluster;
use super::ledger::{Ledger, Writers};

/// Who of those that take part in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Source,
    Destination,
    /// Neither of them.
    Other,
}

use Role::{Destination, Other, Source};

/// What befalls one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is killed there, and started again at once.
    Killed(Role, &'static str),
    /// It is killed there, and started again once it has been declared dead.
    Buried(Role, &'static str),
    /// It is stopped there, until everything else has befallen.
    Stopped(Role, &'static str),
}

use Fate::{Buried, Killed, Stopped};

/// One move, and what befalls it.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Who leads the log when it begins.
    leader: Role,
    fates: &'static [Fate],
}

const fn case(leader: Role, fates: &'static [Fate]) -> Case {
    Case { leader, fates }
}

/// `flip` stands for three places: where the destination leads it appends the command itself, where
/// it does not it sends it, and where somebody else leads that one appends it.
const CASES: &[Case] = &[
    // The destination, from its first question to its first service.
    case(Other, &[Killed(Destination, "before-inspect")]),
    case(Other, &[Killed(Destination, "before-list")]),
    case(Source, &[Killed(Destination, "before-copy")]),
    case(Other, &[Killed(Destination, "after-copy@3")]),
    case(Other, &[Killed(Destination, "before-checkpoint")]),
    case(Source, &[Killed(Destination, "after-checkpoint")]),
    case(Other, &[Killed(Destination, "after-probe")]),
    case(Other, &[Killed(Destination, "before-prepare")]),
    case(Source, &[Killed(Destination, "before-verify")]),
    case(Other, &[Killed(Destination, "after-verify")]),
    case(Destination, &[Killed(Destination, "before-install")]),
    case(Other, &[Killed(Destination, "after-install")]),
    case(Destination, &[Killed(Destination, "before-flip")]),
    case(Other, &[Killed(Destination, "before-flip")]),
    case(Destination, &[Killed(Destination, "after-flip")]),
    case(Source, &[Killed(Destination, "after-flip")]),
    case(Other, &[Killed(Destination, "before-open")]),
    case(Other, &[Killed(Destination, "after-open")]),
    // The destination, again while it finds out what became of its earlier life.
    case(Other, &[Killed(Destination, "after-install"), Killed(Destination, "before-resolve")]),
    case(Destination, &[Killed(Destination, "before-flip"), Killed(Destination, "after-resolve")]),
    case(Other, &[Killed(Destination, "after-install"), Killed(Destination, "after-restage")]),
    // The source.
    case(Other, &[Killed(Source, "before-listing")]),
    case(Destination, &[Killed(Source, "after-listing")]),
    case(Other, &[Killed(Source, "before-freeze")]),
    case(Other, &[Killed(Source, "after-freeze")]),
    case(Source, &[Killed(Source, "after-freeze")]),
    case(Other, &[Killed(Source, "after-flip")]),
    case(Other, &[Killed(Source, "before-close")]),
    case(Destination, &[Killed(Source, "after-close")]),
    case(Other, &[Killed(Source, "before-set-aside")]),
    case(Other, &[Killed(Source, "after-set-aside")]),
    // The source, where it takes its freeze back because the destination stands still.
    case(Other, &[Stopped(Destination, "before-verify"), Killed(Source, "before-revoke")]),
    case(Source, &[Stopped(Destination, "after-verify"), Killed(Source, "after-revoke")]),
    case(Other, &[Stopped(Destination, "after-install"), Killed(Source, "before-thaw")]),
    // The leader, where it is not one of the two.
    case(Other, &[Killed(Other, "before-target")]),
    case(Other, &[Killed(Other, "after-target")]),
    case(Other, &[Killed(Other, "before-flip")]),
    case(Other, &[Killed(Other, "after-flip")]),
    // The leader is the source: it is asked to append the flip that ends its own reign.
    case(Source, &[Killed(Source, "before-flip")]),
    case(Source, &[Killed(Source, "after-flip")]),
    // Whoever was killed stays away until it has been declared dead.
    case(Other, &[Buried(Source, "after-listing")]),
    case(Other, &[Buried(Source, "after-freeze")]),
    case(Destination, &[Buried(Source, "after-flip")]),
    case(Source, &[Buried(Destination, "after-copy@3")]),
    case(Other, &[Buried(Destination, "after-install")]),
    // Two of them, one after the other.
    case(Other, &[Killed(Source, "after-freeze"), Killed(Destination, "before-prepare")]),
    case(Other, &[Killed(Destination, "after-install"), Killed(Other, "before-resolve")]),
];

/// Partitions, so that every role finds one that suits it most of the time.
const PARTITIONS: u32 = 3;
const TOPIC: &str = "orders";

/// H2, H4, H6, H32: the matrix. With `NARAD_MATRIX=full` every case runs whoever leads;
/// `NARAD_CASE` picks those whose name contains it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_survives_kill_dash_nine_of_anybody_at_every_step() {
    let full = std::env::var("NARAD_MATRIX").is_ok_and(|wanted| wanted == "full");
    let only = std::env::var("NARAD_CASE").unwrap_or_default();
    let more = "paused = true\n[log]\nsegment_bytes = \"128KiB\"\n[http]\n\
                record_bytes_max = \"64KiB\"\n[copy]\nchunk_bytes_max = \"64KiB\"\n\
                lag_bytes = \"16KiB\"\n";
    let mut cluster = Cluster::of(3, more).await;
    cluster.create_topic(TOPIC, PARTITIONS).await;
    let ledger = Ledger::default();
    for partition in 0..PARTITIONS {
        ledger.fill(&cluster.client(), TOPIC, partition, 600 << 10, 4 << 10).await;
    }
    let writers = Writers::start(&cluster, TOPIC, PARTITIONS, &ledger);
    let leaders = [Source, Destination, Other];
    let cases = CASES.iter().flat_map(|case| {
        leaders.map(|leader| Case { leader, ..*case }).into_iter().filter(move |variant| {
            variant.leader == case.leader || (full && case.suits(variant.leader))
        })
    });
    for case in cases {
        let name = format!("{:?} leads, {:?}", case.leader, case.fates);
        if !name.contains(&only) {
            continue;
        }
        let begun = std::time::Instant::now();
        println!("{name}");
        let partition = run(&case, &mut cluster).await;
        ledger.check(&cluster.client(), TOPIC, &[partition]).await;
        println!("    {:?}, {} acknowledged", begun.elapsed(), ledger.len());
    }
    writers.end().await;
    ledger.check(&cluster.client(), TOPIC, &[0, 1, 2]).await;
}

impl Case {
    /// Whether all its places are passed if another one leads: what only the leader does is not.
    fn suits(&self, leader: Role) -> bool {
        let only_leader = |place: &str| {
            ["before-target", "after-target", "before-flip", "before-resolve"].contains(&place)
        };
        self.fates.iter().all(|fate| {
            let (Killed(role, place) | Buried(role, place) | Stopped(role, place)) = *fate;
            // The destination passes these too, where it sends the command.
            role == Destination || role == leader || !only_leader(place)
        })
    }
}

/// Moves a partition while all that befalls, and waits until it has settled; returns which.
async fn run(case: &Case, cluster: &mut Cluster) -> u32 {
    let (partition, from, to) = arrange(case.leader, cluster).await;
    let other = cluster.nodes.keys().find(|name| **name != from && **name != to).unwrap().clone();
    let name = |role: Role| match role {
        Source => from.clone(),
        Destination => to.clone(),
        Other => other.clone(),
    };
    println!("    {TOPIC}/{partition} from {from} to {to}");
    let mut stopped = None;
    for (at, fate) in case.fates.iter().enumerate() {
        let (Killed(role, place) | Buried(role, place) | Stopped(role, place)) = *fate;
        let victim = name(role);
        let action = if matches!(fate, Stopped(..)) { "stop" } else { "kill" };
        cluster.node(&victim).arm(&format!("{place}:{action}"));
        if at == 0 {
            cluster.begin_move(TOPIC, partition, &to).await;
        }
        // Whoever was killed before is down until what befalls next is armed.
        start_all(cluster);
        match fate {
            Killed(..) => cluster.node(&victim).killed().await,
            Buried(..) => {
                cluster.node(&victim).killed().await;
                cluster.buried(&victim).await;
            }
            Stopped(..) => {
                cluster.node(&victim).stopped().await;
                stopped = Some(victim);
            }
        }
    }
    start_all(cluster);
    if let Some(stopped) = stopped {
        cluster.node(&stopped).resume();
    }
    cluster.settled(TOPIC, partition, &to).await;
    partition
}

fn start_all(cluster: &mut Cluster) {
    for node in cluster.nodes.values_mut().filter(|node| !node.runs()) {
        node.start(&[]);
    }
}

/// Finds a partition, its owner and a destination, so that the wanted one of them leads the log;
/// moves one there first if there is none.
async fn arrange(leader: Role, cluster: &Cluster) -> (u32, String, String) {
    let leads = cluster.leader().await;
    let routes = cluster.routes(TOPIC).await;
    let others: Vec<&String> = cluster.nodes.keys().filter(|name| **name != leads).collect();
    let suits = |owner: &String| (*owner == leads) == (leader == Source);
    let found = routes.iter().find(|(_, (_, owner))| suits(owner));
    let (partition, from) = if let Some((partition, (_, owner))) = found {
        (*partition, owner.clone())
    } else {
        let owner = if leader == Source { &leads } else { others[0] };
        cluster.begin_move(TOPIC, 0, owner).await;
        cluster.settled(TOPIC, 0, owner).await;
        (0, owner.clone())
    };
    let to = match leader {
        Destination => leads,
        Source => others[0].clone(),
        Other => others.into_iter().find(|name| **name != from).unwrap().clone(),
    };
    (partition, from, to)
}
