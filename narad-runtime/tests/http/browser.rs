//! The page in a real browser: Debian's chromium without a head, told what to do over a pipe.
//!
//! Where there is no chromium these tests say so and end; `.ci/run` installs it, and has them fail
//! where it could and there is none (`NARAD_BROWSER=required`). Pictures of what was seen are in the
//! directory that they name.

mod driver;

use std::sync::Arc;

use narad_runtime::http::{Access, HttpOptions, Role, Secret, Token};
use narad_runtime::service::{ClusterView, DrainView, MemberStatus, Verdict};
use serde_json::json;

use crate::fake::{Cluster, Running, member, name};
use crate::operator::{blocked, moving, page};
use driver::{Browser, Tab};

/// Whether there is a browser; says so if there is none.
#[expect(clippy::print_stderr, reason = "a test that looks at nothing says so")]
fn browser() -> Option<Browser> {
    let found = Browser::find();
    if found.is_none() {
        let required = std::env::var_os("NARAD_BROWSER").is_some_and(|how| how == "required");
        assert!(!required, "there is no chromium, and NARAD_BROWSER says that there has to be one");
        eprintln!("skipped: there is no chromium here; apt-get install chromium brings it");
    }
    found
}

/// A cluster in the middle of a drain.
fn draining(owned: u64) -> ClusterView {
    let mut view = page();
    view.members = vec![member("narad-1", 1), member("narad-2", 2), member("narad-4", 4)];
    for one in &mut view.members {
        one.bytes = Some(3 << 30);
    }
    let leaving = view.members.last_mut().expect("three");
    (leaving.draining, leaving.owned_partitions, leaving.outbound_moves) = (true, owned, 2);
    view.moves = moving();
    view.drains = vec![DrainView {
        member: name("narad-4"),
        status: MemberStatus::Alive,
        draining: true,
        owned_partitions: owned,
        outbound_moves: 2,
        inbound_moves: 0,
        backlog_records: Some(0),
        verdict: Some(Verdict::progressing(1 << 30, 4 << 30, 100 << 20)),
    }];
    view.verdict = blocked();
    view.next = vec!["the disk of narad-4 is full: free space on narad-4".into()];
    view
}

fn show(cluster: &Cluster, view: ClusterView) {
    cluster.change(|state| {
        state.members.clone_from(&view.members);
        state.shown.status = Some(view);
    });
}

/// What nobody can read: pairs of a text and its ground with too little contrast (WCAG AA).
const FAINT: &str = r#"(() => {
  const rgb = (text) => text.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const seen = [...document.querySelectorAll("body *")].filter((node) =>
    node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return seen.map((node) => {
    const [one, other] = [light(rgb(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    return [(one + 0.05) / (other + 0.05), node.textContent.trim().slice(0, 30)];
  }).filter(([contrast]) => contrast < 4.5).map(([contrast, text]) => `${text}: ${contrast.toFixed(2)}`);
})()"#;

/// How many pixels of the page are beside the screen.
const OVERFLOW: &str =
    "document.documentElement.scrollWidth - document.documentElement.clientWidth";

/// Wide and narrow, light and dark, a running drain; live without a reload.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_running_drain_on_every_screen() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::new();
    cluster.topic("orders", &["narad-1", "narad-2", "narad-4", "narad-4"]);
    show(&cluster, draining(2));
    let node = cluster.start("narad-1").await;
    let shown = Arc::clone(&cluster);
    let looked = tokio::task::spawn_blocking(move || {
        let mut browser = browser.start();
        let mut tab = browser.open(&format!("http://{}/", node.addr));
        tab.until("document.querySelectorAll('#nodes > li').length === 3");
        look_at_the_drain(&mut tab);
        for (width, height) in [(1280, 900), (360, 740)] {
            for scheme in ["light", "dark"] {
                tab.screen(width, height, scheme);
                let told = format!("{width} {scheme}");
                tab.until(&format!("innerWidth === {width}"));
                assert_eq!(
                    tab.evaluate(OVERFLOW),
                    json!(0),
                    "{told}: it has to be scrolled sideways"
                );
                assert_eq!(tab.evaluate(FAINT), json!([]), "{told}");
                let light =
                    "getComputedStyle(document.body).backgroundColor === 'rgb(246, 247, 249)'";
                assert_eq!(tab.evaluate(light), json!(scheme == "light"), "{told}");
                tab.picture(&format!("drain-{width}-{scheme}"));
            }
        }
        // What changes is seen, without a reload.
        tab.evaluate("window.untouched = true");
        let mut over = draining(0);
        (over.moves, over.drains, over.next) = (Vec::new(), Vec::new(), Vec::new());
        over.verdict = Verdict::Done { proof: "all 4 partitions are served".into() };
        show(&shown, over);
        tab.until("document.getElementById('verdict').dataset.state === 'done'");
        tab.until("document.getElementById('drains-part').hidden");
        assert_eq!(tab.evaluate("window.untouched === true"), json!(true), "it was loaded again");
        assert_eq!(tab.errors(), [""; 0], "the page complains");
        drop(node);
    });
    looked.await.expect("no panic");
}

fn look_at_the_drain(tab: &mut Tab<'_>) {
    let text = |tab: &mut Tab<'_>, of: &str| {
        let found = tab.evaluate(&format!("document.querySelector('{of}')?.innerText ?? ''"));
        found.as_str().expect("text").to_owned()
    };
    // The node has judged, and the page says it.
    assert_eq!(
        text(tab, "#verdict"),
        "blocked: the disk of narad-4 is full; free space on narad-4"
    );
    assert!(text(tab, "#next").contains("free space on narad-4"));
    let drain = text(tab, "#drains");
    assert!(drain.contains("narad-4") && drain.contains("2 partitions still to leave"), "{drain}");
    assert!(drain.contains("1.0 GiB of 4.0 GiB at 100 MiB/s, 31 s left"), "{drain}");
    let value =
        "document.querySelector('#drains [role=progressbar]').getAttribute('aria-valuenow')";
    assert_eq!(tab.evaluate(value), json!("25"));
    let nodes = text(tab, "#nodes");
    assert!(nodes.contains("3.0 GiB") && nodes.contains("draining"), "{nodes}");
    let moves = text(tab, "#moves");
    assert!(moves.contains("1.0 MiB of 3.0 MiB") && moves.contains("waits: "), "{moves}");
}

/// By keyboard alone: every card is reached, shows that it is, and keeps the focus while it is redrawn.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_used_by_keyboard() {
    let Some(browser) = browser() else { return };
    let cluster = Cluster::new();
    cluster.topic("orders", &["narad-1", "narad-2", "narad-4", "narad-4"]);
    show(&cluster, draining(2));
    let node = cluster.start("narad-1").await;
    let looked = tokio::task::spawn_blocking(move || {
        let mut browser = browser.start();
        let mut tab = browser.open(&format!("http://{}/", node.addr));
        tab.screen(1280, 900, "light");
        tab.until("document.querySelectorAll('#nodes > li').length === 3");
        let all = "document.querySelectorAll('li[tabindex], a, input:not([type=password])').length";
        let all = tab.evaluate(all).as_u64().expect("a number");
        assert!(all >= 10, "{all} things to reach");
        let mut reached = std::collections::BTreeSet::new();
        for _ in 0..all {
            tab.press("Tab");
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(tab.evaluate(outline), json!("solid"), "nobody sees where the focus is");
            let place = "[...document.querySelectorAll('*')].indexOf(document.activeElement)";
            reached.insert(tab.evaluate(place).as_i64().expect("a place"));
        }
        assert_eq!(reached.len() as u64, all);
        // The last one is the box that stops the page; it is ticked as everywhere.
        assert_eq!(tab.evaluate("document.activeElement.id"), json!("paused"));
        tab.press(" ");
        assert_eq!(tab.evaluate("document.getElementById('paused').checked"), json!(true));
        tab.press(" ");
        tab.evaluate("document.querySelector('#nodes > li').focus()");
        let drawn = tab.evaluate("Number(document.body.dataset.drawn)").as_i64().expect("drawn");
        tab.until(&format!("Number(document.body.dataset.drawn) > {}", drawn + 1));
        let kept = "document.activeElement === document.querySelector('#nodes > li')";
        assert_eq!(tab.evaluate(kept), json!(true), "the focus was lost");
        drop(node);
    });
    looked.await.expect("no panic");
}

async fn guarded() -> (Secret, Running) {
    let cluster = Cluster::new();
    show(&cluster, draining(2));
    let secret = Secret::draw();
    let token = Token { name: "eye".into(), role: Role::Read, sha256: secret.sha256() };
    let access = Arc::new(Access::new(vec![token]));
    let router = cluster.guarded("narad-1", HttpOptions::default(), access);
    (secret, cluster.start_router(router).await)
}

/// Where tokens are needed the page asks for one, and shows nothing before.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_asks_who_is_there() {
    let Some(browser) = browser() else { return };
    let (secret, node) = guarded().await;
    let looked = tokio::task::spawn_blocking(move || {
        let mut browser = browser.start();
        let mut tab = browser.open(&format!("http://{}/", node.addr));
        tab.screen(360, 740, "dark");
        tab.until("document.activeElement.id === 'token'");
        assert_eq!(tab.evaluate("document.querySelector('main').checkVisibility()"), json!(false));
        tab.write("wrong");
        tab.press("Enter");
        tab.until("document.getElementById('refused').innerText.includes('no such token')");
        assert_eq!(tab.evaluate(OVERFLOW), json!(0));
        tab.picture("token-360-dark");
        tab.evaluate("document.getElementById('token').focus()");
        tab.write(secret.reveal());
        tab.press("Enter");
        tab.until("document.querySelectorAll('#nodes > li').length === 3");
        let hidden = "!document.getElementById('who').checkVisibility()";
        assert_eq!(tab.evaluate(hidden), json!(true));
        drop(node);
    });
    looked.await.expect("no panic");
}
