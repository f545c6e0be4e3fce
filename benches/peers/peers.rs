//! The laboratory's world beside madsim and turmoil, in one process and one build, at the timings of
//! production and at a tenth of them.
//!
//! madsim: nodes in a ring that pass a message on as fast as it will; an event of the laboratory is
//! compared with one of its messages. turmoil: hosts that send their neighbour a datagram every
//! 100 ms and are answered, which is far less than a Narad node does; its steps of 1 ms make the
//! time that it takes, whatever happens in them. Of the laboratory's 50 nodes 5 vote and 45 are
//! learners, as the default policy has it; each asks its leader for a lease behind a read barrier.

#[path = "../world/scene.rs"]
mod scene;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use scene::{Mix, Scene, cpu_time, number};

#[cfg(not(madsim))]
compile_error!("madsim simulates only with RUSTFLAGS='--cfg madsim'");

const RUNS: u64 = 5;

fn main() {
    println!("{:<36} times real time   M events or messages/s", "");
    // The slowest rows without faults are the ones that are compared.
    let mut worlds = Vec::new();
    for (log, nodes, seconds) in
        [("raft", 5, 600), ("abstract", 5, 600), ("raft", 50, 60), ("abstract", 50, 60)]
    {
        for pace in ["fast", "real"] {
            for mix in [Mix::Quiet, Mix::Unread, Mix::Mild] {
                let speed = Scene { log, pace, nodes, mix, seconds }.measure(RUNS);
                println!(
                    "{:<36} {:>15.0}   {:.2}{}",
                    format!("{log}, {nodes} nodes, {pace} pace, {}", mix.name()),
                    speed.times_real,
                    speed.events / 1e6,
                    if speed.violations == 0 { "" } else { " with violations" },
                );
                if (log, mix) == ("raft", Mix::Quiet) {
                    worlds.push((pace, nodes, speed));
                }
            }
        }
    }
    let messages = madsim_messages(5, 200_000);
    println!("{:<36} {:>15}   {:.2}", "madsim, 5 nodes", "", messages / 1e6);
    let turmoil_five = turmoil_speed(5, 20);
    println!("{:<36} {turmoil_five:>15.1}", "turmoil, 5 hosts");
    let turmoil_fifty = turmoil_speed(50, 5);
    println!("{:<36} {turmoil_fifty:>15.1}", "turmoil, 50 hosts");
    for (pace, nodes, speed) in worlds {
        let turmoil = if nodes == 5 { turmoil_five } else { turmoil_fifty };
        println!(
            "{nodes} nodes at {pace} pace: {:.1} times the speed-up of turmoil, \
             {:.1} events while madsim passes a message",
            speed.times_real / turmoil,
            speed.events / messages,
        );
    }
}

/// Returns how many messages a second of CPU time go round a ring of madsim's nodes.
fn madsim_messages(nodes: u8, messages: u32) -> f64 {
    let address = |node: u8| SocketAddr::from(([10, 0, 0, node + 1], 1));
    let begin = cpu_time();
    let runtime = madsim::runtime::Runtime::new();
    runtime.block_on(async move {
        let handle = madsim::runtime::Handle::current();
        let each = messages / u32::from(nodes);
        let mut all = Vec::new();
        for at in 0..nodes {
            let node = handle.create_node().ip(address(at).ip()).build();
            all.push(node.spawn(async move {
                let endpoint = madsim::net::Endpoint::bind(address(at)).await.expect("it is free");
                // Everybody is there before the first message.
                madsim::time::sleep(Duration::from_secs(1)).await;
                let (next, mut bytes) = (address((at + 1) % nodes), [0; 64]);
                for _ in 0..each {
                    endpoint.send_to(next, 1, &bytes).await.expect("it is sent");
                    endpoint.recv_from(1, &mut bytes).await.expect("it arrives");
                }
            }));
        }
        for one in all {
            one.await.expect("it ends");
        }
    });
    number(u64::from(messages)) / (cpu_time() - begin).as_secs_f64()
}

type Failed = Box<dyn Error>;

/// Returns how many times faster than real time turmoil's hosts live.
fn turmoil_speed(hosts: usize, seconds: u64) -> f64 {
    let simulated = Duration::from_secs(seconds);
    let begin = cpu_time();
    let mut sim = turmoil::Builder::new()
        .simulation_duration(2 * simulated)
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_micros(200))
        .max_message_latency(Duration::from_millis(2))
        .build();
    for at in 0..hosts {
        let next = format!("host-{}", (at + 1) % hosts);
        sim.host(format!("host-{at}"), move || {
            let next = next.clone();
            async move { neighbour(next).await }
        });
    }
    sim.client("clock", async move {
        tokio::time::sleep(simulated).await;
        Ok(())
    });
    sim.run().unwrap_or_else(|error| panic!("{error}"));
    simulated.as_secs_f64() / (cpu_time() - begin).as_secs_f64()
}

/// Sends a question every 100 ms, and answers those of others.
async fn neighbour(next: String) -> Result<(), Failed> {
    const PORT: u16 = 9000;
    let anyone = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let socket = turmoil::net::UdpSocket::bind((anyone, PORT)).await?;
    let to = SocketAddr::new(turmoil::lookup(next), PORT);
    let mut bytes = [0; 64];
    let mut asked = tokio::time::Instant::now();
    loop {
        asked += Duration::from_millis(100);
        socket.send_to(b"question", to).await?;
        while let Ok(received) = tokio::time::timeout_at(asked, socket.recv_from(&mut bytes)).await
        {
            let (length, from) = received?;
            if &bytes[..length] == b"question" {
                socket.send_to(b"answer", from).await?;
            }
        }
    }
}
