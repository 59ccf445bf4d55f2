/** The page: a menu of screens, an instance and a period, charts over tables. */

import "./language"; // before uPlot
import type { Cell, FleetAnswer, FleetMember, ScreenAnswer } from "./answers";
import { Failure, fleet, records, screen } from "./api";
import { RECORDS, benchmarks } from "./records";
import { chart, colours, type Drawn } from "./chart";
import { choice, make } from "./dom";
import { ago, clock, day, stale, value } from "./format";
import { planned } from "./plan";
import { live, refresher } from "./refresh";
import { story } from "./story";
import { address, go, query, read, type State } from "./state";
import { table } from "./table";
import { follow, themes } from "./theme";

const PERIODS: [string, string][] = [
  ["15min", "15 minutes"],
  ["1h", "1 hour"],
  ["6h", "6 hours"],
  ["24h", "24 hours"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["365d", "1 year"],
];
const COMPARED: [string, string][] = [
  ["", "nothing"],
  ["1h", "an hour before"],
  ["1d", "a day before"],
  ["7d", "a week before"],
  ["28d", "four weeks before"],
];
/** The period shown around a clicked moment, in seconds to each side. */
const AROUND = 30;
/** How often the age of the last sample is written anew, in milliseconds. */
const AGES = 5000;
const TIME = /^\d{4}-\d{2}-\d{2}([T\s]+\d{2}:\d{2}(:\d{2})?)?$/;
/** The longest time before and after a change that is compared, in seconds. */
const AFTER = 1800;
/** As much of a statement's text as a title holds, in characters. */
const TITLE = 80;
/** The shortest period over which the history of a statement is shown, in seconds. */
const HISTORY = 3600;

const root = document.getElementById("app")!;
let store: FleetAnswer | null = null;
let drawn: Drawn[] = [];
let asked: AbortController | null = null;
/** When the instance on the screen was sampled last, in seconds since 1970. */
let seen: number | null = null;
/** The control that had the focus before the page was redrawn; it gets the focus back when it is drawn again. */
let held = "";
/** When the data was asked for that a paused page keeps, in seconds since 1970; null: it is not paused. */
let paused: number | null = null;
const refresh = refresher(() => void renew(), (chosen) => {
  paused = chosen ? Date.now() / 1000 : null;
  aged();
});

follow(() => void show());
addEventListener("hashchange", () => void show());
// A link to the current address triggers no hashchange, but must still scroll to its table.
addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link?.hash && link.hash === location.hash) reveal(read().table);
});
// How old the last sample is changes while nothing is asked for.
setInterval(aged, AGES);
addEventListener("resize", () => drawn.forEach((one) => one.resize()));
void show();

async function show(): Promise<void> {
  asked?.abort();
  asked = new AbortController();
  const { signal } = asked;
  refresh.plan(false);
  const state = read();
  // While a page loads, the control may be gone; the next page, asked for meanwhile, still gives it back.
  if (document.activeElement !== document.body) held = named(document.activeElement);
  drawn.forEach((one) => one.destroy());
  drawn = [];
  const main = make("main", { id: "main", tabindex: "-1" }, make("p", { class: "loading", role: "status" }, "Loading …"));
  frame(state, main);
  try {
    const before = store;
    store ??= await fleet(signal);
    // A screen shows one instance: if the address names none, the one with the least headroom.
    if (state.screen && state.screen !== RECORDS && !state.instance) {
      state.instance = store.instances[0]?.instance ?? "";
      history.replaceState(null, "", address(state));
    }
    frame(state, main);
    if (!state.screen) {
      if (before !== null) store = await fleet(signal);
      main.replaceChildren(...overview(store));
    } else if (state.screen === RECORDS) {
      main.replaceChildren(...benchmarks(await records(signal)));
    } else {
      fill(main, await screen(state.screen, query(state), signal), state);
    }
    hold();
    held = "";
    refresh.plan(isLive(state));
  } catch (error) {
    if (signal.aborted) return;
    main.replaceChildren(failure(error));
  }
}

/** Whether what is shown changes by itself: the last minutes or hours of a recording that goes on. */
function isLive(state: State): boolean {
  const now = Date.now() / 1000;
  if (!state.screen) return store?.instances.some((one) => live(one.last, now)) ?? false;
  return state.screen !== RECORDS && state.from === null && live(seen, now);
}

/** Show the newest data in place of what is shown, without a word about loading; a failure waits for the next time. */
async function renew(): Promise<void> {
  const main = document.getElementById("main");
  const state = read();
  // Who is about to use something in the page must not have it taken away.
  if (main === null || main.contains(document.activeElement) || asked === null) return refresh.plan(isLive(state));
  const { signal } = asked;
  const place = scrollY;
  try {
    if (state.screen) {
      const found = await screen(state.screen, query(state), signal);
      drawn.forEach((one) => one.destroy());
      drawn = [];
      fill(main, found, { ...state, table: "" });
    } else {
      store = await fleet(signal);
      main.replaceChildren(...overview(store));
    }
    scrollTo({ top: place, behavior: "instant" });
  } catch {
    if (signal.aborted) return;
  }
  refresh.plan(isLive(state));
}

/** Draw the page around `main`, with the focus where it was; on a phone, scroll the menu to the current screen. */
function frame(state: State, main: HTMLElement): void {
  const bar = menu(state);
  root.replaceChildren(header(state), bar, main);
  const current = bar.querySelector<HTMLElement>("[aria-current]");
  if (current) bar.scrollLeft = current.offsetLeft - (bar.clientWidth - current.offsetWidth) / 2;
  hold();
}

/** The name of a control, by which it is found again after the page was redrawn. */
function named(control: Element | null): string {
  return control?.getAttribute("aria-label") ?? control?.closest("label")?.firstChild?.textContent ?? control?.textContent ?? "";
}

/** Give the focus back to the control that had it, if nothing else has it now. */
function hold(): void {
  if (!held || document.activeElement !== document.body) return;
  const controls = [...root.querySelectorAll<HTMLElement>("header select, header input, header button, nav a, .moves button")];
  controls.find((one) => named(one) === held)?.focus({ preventScroll: true });
}

function failure(error: unknown): HTMLElement {
  const [message, hint] =
    error instanceof Failure ? [error.message, error.hint] : [error instanceof Error ? error.message : String(error), null];
  return make(
    "div",
    { class: "error", role: "alert" },
    make("h1", {}, "This cannot be shown"),
    make("p", {}, message),
    hint ? make("p", { class: "hint" }, hint) : null,
    make("button", { type: "button", click: () => void show() }, "Try again"),
  );
}

function header(state: State): HTMLElement {
  const bar = make("header", {}, make("a", { class: "brand", href: "#" }, "MrTuner"));
  if (state.screen && state.screen !== RECORDS) bar.append(controls(state));
  bar.append(tuner(state));
  bar.append(refresh.control);
  bar.append(themes(() => void show()));
  if (store?.login) bar.append(logout());
  return bar;
}

/** A form, so that it works as the login does: the server ends the session and shows the login. */
function logout(): HTMLElement {
  return make("form", { class: "logout", method: "post", action: "logout" }, make("button", {}, "Log out"));
}

/** A link to the tuner; on a screen, to the advice for its instance. */
function tuner(state: State): HTMLElement {
  const { screen, instance } = state;
  const [target, words] = screen && instance ? [tuned(instance), "Tune this instance"] : ["./tuner.html", "Tuner"];
  return make("a", { class: "tuner-link", href: target }, words);
}

function tuned(instance: string): string {
  return `./tuner.html?${new URLSearchParams({ instance })}`;
}

function controls(state: State): HTMLElement {
  const names = store?.instances.map((one) => one.instance) ?? [];
  const periods = state.from === null ? including(PERIODS, state.since) : [["", "chosen"] as [string, string], ...PERIODS];
  return make(
    "div",
    { class: "controls" },
    choice("Instance", names.map((name) => [name, name]), state.instance, (instance) => go({ instance, statement: "", process: "" })),
    choice("Last", periods, state.from === null ? state.since : "", (since) => {
      if (since) go({ since, from: null, to: null });
    }),
    moment("From", state.from, (from) => range(from, state.to)),
    moment("To", state.to, (to) => range(state.from, to)),
    choice("Compare with", including(offered(state), state.compare, " before"), state.compare, (compare) => go({ compare })),
  );
}

/** The periods to compare with. The screen "Before and after" always compares. */
function offered(state: State): [string, string][] {
  return state.screen === "compare" ? [["", "automatic"], ...COMPARED.slice(1)] : COMPARED;
}

/** The choices, with the chosen one added if the address names one that is not among them. */
function including(choices: [string, string][], chosen: string, after = ""): [string, string][] {
  const seconds = /^(\d+)s$/.exec(chosen)?.[1];
  const words = (seconds === undefined ? chosen : value(Number(seconds), "s")) + after;
  return choices.some(([name]) => name === chosen) ? choices : [[chosen, words], ...choices];
}

/** Show a period; if only one end is given, the other is an hour away. */
function range(from: number | null, to: number | null): void {
  if (from === null && to === null) return;
  go({ from: from ?? to! - 3600, to: to ?? from! + 3600 });
}

/** A time in the notation of the database, with 24 hours: a browser's own field follows the reader's country. */
function moment(label: string, chosen: number | null, then: (value: number | null) => void): HTMLElement {
  const input = make("input", {
    type: "text",
    class: "moment",
    placeholder: "YYYY-MM-DD HH:MM",
    autocomplete: "off",
    spellcheck: "false",
    value: chosen === null ? "" : `${day(chosen)} ${clock(chosen)}`,
    input: () => input.setCustomValidity(""),
    change: () => {
      const words = input.value.trim();
      const found = TIME.test(words) ? Date.parse(`${words.replace(/\s+/, "T")}${words.includes(":") ? "Z" : ""}`) / 1000 : NaN;
      if (words === "") return then(null);
      if (!Number.isNaN(found)) return then(found);
      input.setCustomValidity("Write a time as 2026-11-23 14:05, with 24 hours, in UTC.");
      input.reportValidity();
    },
  });
  return make("label", {}, make("span", {}, `${label} (UTC)`), input);
}

function menu(state: State): HTMLElement {
  const entries: [string, string, string][] = [["", "Fleet", "All instances"]];
  for (const one of store?.screens ?? []) entries.push([one.name, one.title, one.help]);
  if (store?.records) entries.push([RECORDS, "Benchmarks", "What was measured before"]);
  const links = entries.map(([name, title, help]) => {
    const target = address({ ...state, screen: name, statement: "", change: "", process: "", table: "" });
    const current = name === state.screen;
    return make("li", {}, make("a", { href: target, title: help, ...(current ? { "aria-current": "page" } : {}) }, title));
  });
  return make("nav", { "aria-label": "Screens" }, make("ul", {}, ...links));
}

function fill(main: HTMLElement, on: ScreenAnswer, state: State): void {
  seen = on.last;
  if (paused !== null) paused = Date.now() / 1000;
  const title = state.statement ? `${on.title}: ${textOf(on) ?? state.statement}` : on.title;
  main.replaceChildren(
    make(
      "div",
      { class: "bar" },
      make("h1", {}, `${title} · ${on.instance}`),
      age(),
      make("span", { class: "moves" }, ...marks(on, state), ...moves(on)),
    ),
    ...(uncompared(on, state) ? [make("p", { class: "error" }, "nothing was recorded in the period to compare with")] : []),
    ...on.damaged.map((one) => make("p", { class: "error" }, `left out: ${one}`)),
    ...story(on, state),
    ...changed(on, state),
  );
  const to = {
    zoom: (from: number, until: number) => go({ from: Math.floor(from), to: Math.ceil(until) }),
    // A step that is longer than the usual period is shown whole, because its peak may be anywhere in it.
    at: (moment: number) => go(sessions(on, moment)),
    to: (table: string) => address({ ...state, table }),
  };
  const charts = make("div", { class: "charts" });
  main.append(charts);
  const paint = colours(on.charts);
  const without = make("div", { class: "without" });
  for (const [place, given] of on.charts.entries()) {
    const one = chart(given, state.marks === "off" ? { ...on, changes: [] } : on, to, paint[place]!);
    // A chart with nothing to draw takes a line below the others, not half of a row.
    (one.empty ? without : charts).append(one.element);
    drawn.push(one);
  }
  if (without.childElementCount > 0) main.append(without);
  drawn.forEach((one) => one.resize());
  for (const given of on.tables) main.append(table(given, (unit, cell) => link(unit, cell, state, on)));
  if (state.statement && store?.instances.some((one) => one.instance === on.instance && one.plans)) main.append(planned(state));
  reveal(state.table);
}

/** Write anew how old the last sample is. */
function aged(): void {
  root.querySelector("main .age")?.replaceWith(age());
}

/** How old the last sample is, and since when the page is paused. */
function age(): HTMLElement {
  const seconds = seen === null ? null : Date.now() / 1000 - seen;
  const words = [...(seconds === null ? [] : [`last sample ${ago(seconds)}`]), ...(paused === null ? [] : [`paused at ${clock(paused)} UTC`])];
  return make("span", { class: seconds !== null && stale(seconds) ? "age stale" : "age" }, words.join("; "));
}

/** The text of the only statement of a screen, cut short; null if it was never seen. */
function textOf(on: ScreenAnswer): string | null {
  const of = on.tables.find((one) => one.name === "statements");
  const text = of?.rows[0]?.[of.columns.findIndex((column) => column.name === "text")];
  return typeof text !== "string" ? null : text.length > TITLE ? `${text.slice(0, TITLE)}…` : text;
}

/** Whether a comparison was asked for of which nothing was recorded. The screen "Before and after" says so itself. */
function uncompared(on: ScreenAnswer, state: State): boolean {
  const known = (lines: { values: (number | null)[] }[]): boolean => lines.some((one) => one.values.some((value) => value !== null));
  return state.compare !== "" && state.screen !== "compare" && on.charts.some((one) => known(one.series)) && !on.charts.some((one) => known(one.before));
}

/** Focus a table of the screen and scroll to it. */
function reveal(name: string): void {
  const target = name ? root.querySelector<HTMLElement>(`[data-table="${CSS.escape(name)}"]`) : null;
  target?.focus({ preventScroll: true });
  target?.scrollIntoView();
}

/** The sessions of the chart's step that contains a moment, if it is longer than a minute, or of the minute around it. */
function sessions(on: ScreenAnswer, moment: number): Partial<State> {
  const step = on.times.findLast((time) => time <= moment);
  const around =
    step !== undefined && on.step > 2 * AROUND && moment < step + on.step
      ? { from: step, to: step + on.step }
      : { from: Math.floor(moment) - AROUND, to: Math.floor(moment) + AROUND };
  return { screen: "moment", statement: "", change: "", process: "", ...around };
}

/** The address of the time before and after a change: half an hour of each, or what was recorded since. */
function compared(state: State, on: ScreenAnswer, at: number): string {
  const after = Math.max(60, Math.min(AFTER, Math.floor((on.last ?? Infinity) - at)));
  const from = Math.round(at);
  return address({ ...state, screen: "compare", from, to: from + after, compare: `${after}s` });
}

/** The changes in the period, each linked to its journal entry if it has one, and to the time before and after it. */
function changed(on: ScreenAnswer, state: State): HTMLElement[] {
  if (on.changes.length === 0 || state.screen === "changes") return [];
  const entries = on.changes.map((one) => {
    const target = { ...state, screen: "changes", statement: "", process: "", change: one.journal ?? "", table: one.journal ? "entry" : "" };
    const words = `${day(one.at)} ${clock(one.at)} ${one.what}: ${one.detail}`;
    const effect = make("a", { href: compared({ ...target, change: "", table: "" }, on, one.at) }, "before and after");
    return make("li", {}, make("a", { href: address(target) }, words), one.by ? ` (${one.by})` : "", " · ", effect);
  });
  const count = on.changes.length === 1 ? "one change" : `${on.changes.length} changes`;
  return [make("details", { class: "changes" }, make("summary", {}, `${count} in this period`), make("ul", {}, ...entries))];
}

/** A button that shows or hides changes in the charts, because many of them may hide the lines. */
function marks(on: ScreenAnswer, state: State): HTMLElement[] {
  if (on.changes.length === 0 || on.charts.length === 0) return [];
  const off = state.marks === "off";
  const click = (): void => go({ marks: off ? "" : "off" });
  return [make("button", { type: "button", "aria-pressed": String(!off), title: "Draw changes into the charts", click }, "Changes")];
}

function moves(on: ScreenAnswer): HTMLElement[] {
  const length = on.end - on.begin;
  const button = (words: string, label: string, from: number, to: number): HTMLElement =>
    make("button", { type: "button", title: label, "aria-label": label, click: () => go({ from, to }) }, words);
  const [begin, end] = [Math.floor(on.begin), Math.ceil(on.end)];
  const half = Math.round(length / 2);
  return [
    button("‹", "Earlier", begin - half, end - half),
    button("›", "Later", begin + half, end + half),
    button("−", "Zoom out", begin - half, end + half),
    button("+", "Zoom in", begin + Math.round(length / 4), end - Math.round(length / 4)),
  ];
}

function link(unit: string, cell: Cell, state: State, on: ScreenAnswer | null = null): string | null {
  if (cell === null) return null;
  const plain = { ...state, statement: "", change: "", process: "", table: "" };
  if (unit.startsWith("to:")) return address({ ...state, table: unit.slice(3) });
  switch (unit) {
    case "statement":
      return address({ ...plain, screen: "statements", statement: String(cell), compare: "", ...around(on) });
    case "instance":
      return address({ ...plain, screen: "load", instance: String(cell), from: null, to: null });
    case "tune":
      return tuned(String(cell));
    case "journal":
      return address({ ...plain, screen: "changes", change: String(cell), table: "entry" });
    case "process":
      return cell === "0" ? null : address({ ...plain, screen: "moment", process: String(cell), table: "sessions" });
    case "compare":
      return on === null ? null : compared(plain, on, Number(cell));
    case "moment":
      return on === null ? null : address({ ...plain, ...sessions(on, Number(cell)) });
    default:
      return null;
  }
}

/** At least an hour around a shorter period: statements are sampled each minute, so a moment shows no history. */
function around(on: ScreenAnswer | null): Partial<State> {
  if (on === null || on.end - on.begin >= HISTORY) return {};
  const middle = Math.round((on.begin + on.end) / 2);
  return { from: middle - HISTORY / 2, to: middle + HISTORY / 2 };
}

function overview(of: FleetAnswer): HTMLElement[] {
  seen = null;
  if (paused !== null) paused = of.now;
  const title = make("div", { class: "bar" }, make("h1", {}, "Fleet"), age());
  if (of.instances.length === 0) {
    return [title, make("p", { class: "empty" }, `${of.directory} has no samples yet: mrtuner record DSN --dir ${of.directory}`)];
  }
  const columns = [
    ["instance", "Instance", "instance"],
    ["tightest", "Nearest to its limit", "headroom"],
    ["used", "Used", "share"],
    ["load", "Active sessions", "sessions"],
    ["cpus", "CPUs", "integer"],
    ["changes", "Changes in a day", "changes"],
    ["last", "Last sample", "age"],
    ["advice", "Advice", "tune"],
  ].map(([name, words, unit]) => ({ name: name!, title: words!, unit: unit! }));
  const rows = of.instances.map((one) => columns.map(({ name }) => (name === "advice" ? one.instance : one[name as keyof FleetMember])));
  const given = { name: "fleet", title: "Instances, the least headroom first", columns, rows, missing: null };
  const about = make("p", { class: "help" }, `${of.directory} · MrTuner ${of.version} · ${of.instances.length === 1 ? "one instance" : `${value(of.instances.length, "integer")} instances`}`);
  return [title, about, table(given, member)];
}

/** The screen to which a cell of the fleet's table links; headroom opens the last week, to show recent peaks. */
function member(unit: string, cell: Cell, row: Cell[]): string | null {
  const state = { ...read(), instance: String(row[0]), from: null, to: null };
  if (unit === "headroom") return cell === null ? null : address({ ...state, screen: "headroom", since: "7d" });
  if (unit === "changes") return cell ? address({ ...state, screen: "changes", since: "24h" }) : null;
  return link(unit, cell, state);
}
