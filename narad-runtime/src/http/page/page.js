// Draws the cluster from what its own API says, once a second; reads only, and changes nothing.
const EVERY_MS = 1000;
const TOPICS_MAX = 50;
const DOTS_MAX = 400;
const $ = (id) => document.getElementById(id);

let asked = 0;

// Kept as long as this tab is open, and sent to this node only.
const TOKEN = "narad-token";

class Unknown extends Error {}

async function get(path) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { cache: "no-store", headers, signal: AbortSignal.timeout(5000) });
  if (answer.ok) return answer.json();
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401 || answer.status === 403) throw new Unknown(told.error ?? answer.statusText);
  throw new Error(told.error ?? answer.statusText);
}

function el(tag, { text, ...attributes } = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) made.setAttribute(name, value);
  }
  if (text !== undefined) made.textContent = text;
  made.append(...children.filter(Boolean));
  return made;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at + 1 < units.length) { count /= 1024; at += 1; }
  return `${at === 0 || count >= 100 ? Math.round(count) : count.toFixed(1)} ${units[at]}`;
}

const told = (value) => value !== undefined && value !== null;
const seconds = (s) => s < 90 ? `${Math.ceil(s)} s` : s < 5400 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
const many = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// A colour for each topic, as far from the others' as so many allow.
const hues = new Map();
function hue(name) {
  if (!hues.has(name)) hues.set(name, Math.round(hues.size * 137.508 + 215) % 360);
  return hues.get(name);
}

function bar(part, label, waits) {
  const percent = Math.max(0, Math.min(100, part * 100));
  const fill = el("i");
  fill.style.width = `${percent}%`;
  return el("div", {
    class: waits ? "bar waits" : "bar", role: "progressbar", "aria-label": label,
    "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(percent),
  }, fill);
}

// Replaces a list's items by key, so that the focus stays where it was.
function fill(list, items) {
  const old = new Map([...list.children].map((child) => [child.dataset.key, child]));
  const now = items.map(([key, item]) => {
    item.dataset.key = key;
    const before = old.get(key);
    if (!before) return item;
    if (before.innerHTML !== item.innerHTML || before.className !== item.className) {
      before.className = item.className;
      before.replaceChildren(...item.childNodes);
    }
    return before;
  });
  const same = now.length === list.children.length && now.every((item, at) => list.children[at] === item);
  if (!same) list.replaceChildren(...now);
}

// What a verdict says, and how loud. The node has judged; nothing is judged here.
function said(verdict) {
  switch (verdict.state) {
    case "progressing": {
      const { bytes: done, bytes_total: total, bytes_per_second: rate, eta_ms: eta } = verdict;
      const left = told(eta) ? `, ${seconds(eta / 1000)} left` : "";
      return ["good", `${bytes(done)} of ${bytes(total)}${rate ? ` at ${bytes(rate)}/s` : ""}${left}`];
    }
    case "waiting": return ["warn", `waits: ${verdict.reason}; ${verdict.who}`];
    case "blocked": return ["bad", `blocked: ${verdict.reason}; ${verdict.remedy}`];
    case "done": return ["good", verdict.proof];
    default: return ["warn", verdict.state];
  }
}

function moveItem(move) {
  const { staged, total } = { staged: move.bytes_staged ?? 0, total: move.bytes_total ?? 0 };
  const part = total > 0 ? staged / total : move.phase ? 1 : 0;
  const [kind, text] = said(move.verdict ?? { state: "not begun" });
  const facts = [
    move.phase, kind === "good" ? text : undefined,
    move.predicted_freeze_ms === undefined || move.predicted_freeze_ms === null
      ? undefined : `freeze of about ${move.predicted_freeze_ms} ms`,
  ].filter(Boolean).join(" · ");
  const label = `${move.topic}/${move.partition}`;
  return el("li", { class: "card", tabindex: 0 },
    el("div", { class: "top" },
      el("span", { class: "name", text: label }),
      el("span", { text: move.from }), el("span", { class: "arrow", text: "→", "aria-label": "to" }),
      el("span", { text: move.to }),
      move.source_dead && el("span", { class: "pill bad", text: "source dead" })),
    bar(part, `copied of ${label}`, kind !== "good"),
    el("p", { class: "soft", text: facts || "not begun" }),
    kind !== "good" && el("p", { class: kind, text }));
}

function drainItem(drain) {
  const [kind, text] = said(drain.verdict ?? { state: "unknown" });
  const { bytes: done = 0, bytes_total: total = 0 } = drain.verdict ?? {};
  const left = drain.owned_partitions;
  return el("li", { class: "card draining", tabindex: 0, "data-member": drain.member },
    el("div", { class: "top" },
      el("span", { class: "name", text: drain.member }),
      el("span", { class: `pill ${kind}`, text: drain.verdict?.state ?? "unknown" }),
      el("span", { class: "soft", text: left ? `${many(left, "partition")} still to leave` : "owns nothing any more" })),
    bar(total > 0 ? done / total : left ? 0 : 1, `drained of ${drain.member}`, kind !== "good"),
    el("p", { class: kind === "good" ? "soft" : kind, text }));
}

function nodeItem(member, owned, leaving) {
  const drains = member.draining && member.status === "alive";
  const dead = member.status === "dead";
  const shown = owned.slice(0, DOTS_MAX).map(({ topic, partition }) => {
    const key = `${topic}/${partition}`;
    const dot = el("b", { title: key, class: dead ? "dead" : leaving.has(key) ? "leaving" : undefined });
    dot.style.setProperty("--hue", hue(topic));
    return dot;
  });
  const flows = [
    member.inbound_moves && `${member.inbound_moves} on the way in`,
    member.outbound_moves && `${member.outbound_moves} on the way out`,
  ].filter(Boolean).join(", ");
  const state = dead ? ["bad", "dead"] : drains ? ["warn", member.drained_out ? "drained" : "draining"] : ["good", "alive"];
  return el("li", { class: `card${dead ? " dead" : drains ? " draining" : ""}`, tabindex: 0 },
    el("div", { class: "top" },
      el("span", { class: "name", text: member.id }),
      el("span", { class: `pill ${state[0]}`, text: state[1] }),
      el("span", { class: "soft", text: member.leader ? "leader" : member.role })),
    el("p", { class: "soft", text: member.addr }),
    el("div", { class: "dots", role: "img", "aria-label": many(owned.length, "partition") }, ...shown),
    el("p", { class: "load", text: [
      many(member.owned_partitions, "partition"),
      told(member.bytes) ? bytes(member.bytes) : undefined,
      told(member.free_bytes) ? `${bytes(member.free_bytes)} free` : undefined,
      flows || undefined,
    ].filter(Boolean).join(" · ") }));
}

function topicItem(topic) {
  const dead = topic.routes.filter((route) => !route.alive).length;
  const moving = topic.routes.filter((route) => route.moving).length;
  const notes = [moving && `${moving} moving`, dead && `${dead} without a living owner`].filter(Boolean);
  const swatch = el("b");
  swatch.style.setProperty("--hue", hue(topic.name));
  return el("li", { class: "card", tabindex: 0 },
    el("div", { class: "top" },
      el("span", { class: "dots" }, swatch),
      el("span", { class: "name", text: topic.name }),
      el("span", { class: "soft", text: many(topic.routes.length, "partition") }),
      notes.length > 0 && el("span", { class: dead ? "bad" : "soft", text: notes.join(", ") })));
}

// Everything that was decided before, or without a leader what this node knows.
function status() {
  return get("/v1/cluster/status").catch((error) => {
    if (error instanceof Unknown) throw error;
    return get("/v1/cluster/status?stale=true");
  });
}

async function draw() {
  const [view, { topics }] = await Promise.all([status(), get("/v1/topics?stale=true")]);
  const { members, moves, drains } = view;
  const shown = topics.slice(0, TOPICS_MAX);
  const detailed = await Promise.all(shown.map((topic) => get(`/v1/topics/${encodeURIComponent(topic.name)}`)
    .catch(() => ({ ...topic, routes: [] }))));
  const owned = new Map(members.map((member) => [member.id, []]));
  for (const topic of detailed) {
    for (const route of topic.routes) owned.get(route.owner)?.push({ topic: topic.name, partition: route.partition });
  }
  const leaving = new Set(moves.map((move) => `${move.topic}/${move.partition}`));
  const here = members.filter((member) => member.status !== "retired")
    .sort((one, other) => one.id.localeCompare(other.id, undefined, { numeric: true }));
  const [kind, says] = said(view.verdict);
  const text = view.verdict.state === "progressing" ? `moves go on: ${says}` : says;
  $("verdict").className = kind;
  $("verdict").dataset.state = view.verdict.state;
  if ($("verdict").textContent !== text) $("verdict").textContent = text;
  const next = view.next ?? [];
  $("next-part").hidden = next.length === 0;
  fill($("next"), next.map((line) => [line, el("li", { class: "card", tabindex: 0, text: line })]));
  $("drains-part").hidden = drains.length === 0;
  fill($("drains"), drains.map((drain) => [drain.member, drainItem(drain)]));
  $("moves-count").textContent = moves.length || "";
  $("no-moves").hidden = moves.length > 0;
  fill($("moves"), moves.map((move) => [`${move.topic}/${move.partition}`, moveItem(move)]));
  $("nodes-count").textContent = here.length;
  fill($("nodes"), here.map((member) => [member.id, nodeItem(member, owned.get(member.id), leaving)]));
  $("topics-count").textContent = topics.length > shown.length ? `${shown.length} of ${topics.length}` : topics.length || "";
  $("no-topics").hidden = topics.length > 0;
  fill($("topics"), detailed.map((topic) => [topic.name, topicItem(topic)]));
  $("seen").textContent = `as ${view.member} sees it at ${new Date().toLocaleTimeString()}`;
}

// Asks who is there; whatever was shown before is nobody's business any more.
function ask(error) {
  const had = sessionStorage.getItem(TOKEN);
  sessionStorage.removeItem(TOKEN);
  $("who").hidden = false;
  document.querySelector("main").hidden = true;
  $("refused").textContent = had ? error.message : "";
  $("verdict").className = "warn";
  $("verdict").textContent = "this node wants to know who is asking";
  if (document.activeElement === document.body) $("token").focus();
}

$("who").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  refresh();
});

async function refresh() {
  try {
    await draw();
    $("who").hidden = true;
    document.querySelector("main").hidden = false;
    document.body.dataset.drawn = asked;
  } catch (error) {
    if (error instanceof Unknown) return ask(error);
    $("verdict").className = "bad";
    $("verdict").textContent = `this node does not answer: ${error.message}`;
  }
}

async function tick() {
  asked += 1;
  if (!$("paused").checked && !document.hidden && $("who").hidden) await refresh();
  setTimeout(tick, EVERY_MS);
}

tick();
