// Draws the cluster from what its own API says, once a second; reads only, and changes nothing.
const EVERY_MS = 1000;
const TOPICS_MAX = 50;
const DOTS_MAX = 400;
const $ = (id) => document.getElementById(id);

// What a draining node owned when this page first saw it drain.
const drainedFrom = new Map();
let asked = 0;

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? answer.statusText);
  return answer.json();
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

function moveItem(move) {
  const { staged, total } = { staged: move.bytes_staged ?? 0, total: move.bytes_total ?? 0 };
  const part = total > 0 ? staged / total : move.phase ? 1 : 0;
  const rate = move.bytes_per_second;
  const left = rate && total > staged ? `, ${seconds((total - staged) / rate)} left` : "";
  const facts = [
    move.phase,
    total ? `${bytes(staged)} of ${bytes(total)}${rate ? ` at ${bytes(rate)}/s` : ""}${left}` : undefined,
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
    bar(part, `copied of ${label}`, Boolean(move.waiting)),
    el("p", { class: "soft", text: facts || "not begun" }),
    move.waiting && el("p", { class: "warn", text: `waits: ${move.waiting}` }));
}

function nodeItem(member, owned, leaving) {
  const drains = member.draining && member.status === "alive";
  const dead = member.status === "dead";
  if (drains) drainedFrom.set(member.id, Math.max(drainedFrom.get(member.id) ?? 0, member.owned_partitions));
  else drainedFrom.delete(member.id);
  const first = drainedFrom.get(member.id) ?? 0;
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
    el("p", { text: many(member.owned_partitions, "partition") + (flows ? ` · ${flows}` : "") }),
    drains && bar(first ? (first - member.owned_partitions) / first : 1, `drained of ${member.id}`, false),
    drains && el("p", { class: "soft", text: member.owned_partitions
      ? `${member.owned_partitions} of ${first} still to leave` : "nothing is left; it is taken out next" }));
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

function verdict(members, moves) {
  const here = members.filter((member) => member.status !== "retired");
  const dead = here.filter((member) => member.status === "dead");
  const voters = here.filter((member) => member.role === "voter");
  const waiting = moves.filter((move) => move.waiting);
  const draining = here.filter((member) => member.draining && member.status === "alive");
  if (!here.some((member) => member.leader)) return ["bad", "no leader: nothing changes hands until more than half of the voters run"];
  const lost = dead.reduce((sum, member) => sum + member.owned_partitions, 0);
  if (lost) return ["bad", `${many(lost, "partition")} on a dead node: ${dead.map((member) => member.id).join(", ")}; start it again`];
  if (dead.length) return ["warn", `dead: ${dead.map((member) => member.id).join(", ")}`];
  if (waiting.length) return ["warn", `${many(waiting.length, "move")} waiting: ${waiting[0].waiting}`];
  if (draining.length) return ["good", `draining ${draining.map((member) => member.id).join(", ")}`];
  if (moves.length) return ["good", `${many(moves.length, "move")} under way`];
  return ["good", `all is well: ${many(here.length, "node")}, ${many(voters.length, "voter")}`];
}

// How far a move is, its destination tells; without a leader this node tells what it knows.
function allMoves() {
  return get("/v1/cluster/moves").catch(() => get("/v1/cluster/moves?stale=true"));
}

async function draw() {
  const [{ members }, { moves }, { topics }] = await Promise.all([
    get("/v1/cluster/members?stale=true"), allMoves(), get("/v1/topics?stale=true"),
  ]);
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
  const [kind, text] = verdict(members, moves);
  $("verdict").className = kind;
  if ($("verdict").textContent !== text) $("verdict").textContent = text;
  $("moves-count").textContent = moves.length || "";
  $("no-moves").hidden = moves.length > 0;
  fill($("moves"), moves.map((move) => [`${move.topic}/${move.partition}`, moveItem(move)]));
  $("nodes-count").textContent = here.length;
  fill($("nodes"), here.map((member) => [member.id, nodeItem(member, owned.get(member.id), leaving)]));
  $("topics-count").textContent = topics.length > shown.length ? `${shown.length} of ${topics.length}` : topics.length || "";
  $("no-topics").hidden = topics.length > 0;
  fill($("topics"), detailed.map((topic) => [topic.name, topicItem(topic)]));
  $("seen").textContent = `as this node sees it at ${new Date().toLocaleTimeString()}`;
}

async function tick() {
  asked += 1;
  if (!$("paused").checked && !document.hidden) {
    try {
      await draw();
      document.body.dataset.drawn = asked;
    } catch (error) {
      $("verdict").className = "bad";
      $("verdict").textContent = `this node does not answer: ${error.message}`;
    }
  }
  setTimeout(tick, EVERY_MS);
}

tick();
