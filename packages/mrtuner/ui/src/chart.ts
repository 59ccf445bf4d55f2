/** Charts over time: lines or areas, limits as horizontal and changes as vertical lines, drag to zoom. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Chart, ChartSeries, ScreenAnswer, ScreenChange, ScreenTable } from "./answers";
import { make } from "./dom";
import { clock, day, levels, ticks, value } from "./format";
import { table } from "./table";

const HEIGHT = 240;
const COLOURS = 9;
/** A limit above this many times the highest value is not drawn: it would flatten the lines. */
const NEAR = 4;
/** Steps between ticks: powers of two for sizes, the usual units of clocks for times. */
const POWERS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const TIMES = [
  ...[-6, -5, -4, -3, -2, -1].flatMap((power) => [1, 2, 5].map((digit) => Number(`${digit}e${power}`))),
  ...[1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200],
  ...[1, 2, 5, 10, 20, 50, 100].map((days) => days * 86_400),
];
/** Padding at the right, so that half a date fits beside the last tick, in pixels. */
const BESIDE = 52;
/** The space for value labels, and the greatest width of a plot on a phone, in pixels. */
const [LABELS, NARROW] = [76, 400];
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

export interface Moves {
  zoom(from: number, to: number): void;
  at(moment: number): void;
  /** The address of a table of the same screen. */
  to(table: string): string;
}

export interface Drawn {
  element: HTMLElement;
  /** Whether there was nothing to draw. */
  empty: boolean;
  resize(): void;
  destroy(): void;
}

/** Lines that have the same colour on every screen: reads and writes, what sessions wait for, and severities. */
const FIXED = new Map([
  ["read", 0], ["reads", 0], ["of it reading", 0], ["write", 1], ["writes", 1], ["written", 1],
  ["CPU", 2], ["IO", 0], ["Lock", 5], ["LWLock", 3], ["IPC", 4], ["Client", 6], ["Timeout", 7],
  ["Buffer", 8], ["BufferPin", 8], ["PANIC", 8], ["FATAL", 3], ["ERROR", 5], ["WARNING", 4],
]);

/** The palette index of each line: the same for a name in all charts of a screen where possible, unique within a chart. */
export function colours(charts: Chart[]): number[][] {
  const known = new Map<string, number>(FIXED);
  return charts.map((one) => {
    const taken = new Set<number>();
    const places = one.series.map(({ name }) => {
      // The first wait event of a class has its colour.
      const place = known.get(name) ?? FIXED.get(name.split(": ")[0]!);
      if (place === undefined || taken.has(place)) return undefined;
      taken.add(place);
      return place;
    });
    return one.series.map(({ name }, n) => {
      let place = places[n];
      if (place === undefined) {
        for (place = 0; taken.has(place); place += 1);
        taken.add(place);
        if (!known.has(name)) known.set(name, place);
      }
      return place;
    });
  });
}

/** A chart; `paint` holds the palette index of each line. */
export function chart(given: Chart, on: ScreenAnswer, moves: Moves, paint: number[]): Drawn {
  const title = make("figcaption", {}, make("h2", {}, given.title), make("p", { class: "help" }, given.help));
  const figure = make("figure", { class: "chart", "data-chart": given.name }, title);
  const nothing = given.missing ?? (always0(given) ? "0 in all samples" : null);
  if (nothing !== null) {
    figure.append(make("p", { class: "empty" }, nothing));
    return { element: figure, empty: true, resize() {}, destroy() {} };
  }
  const unit = named(given.unit);
  const place = make("div", { class: "plot" }, unit ? make("p", { class: "unit" }, unit) : null);
  const legend = make("ul", { class: "legend" });
  const reading = make("p", { class: "reading", "aria-live": "polite" });
  const numbers = make(
    "details",
    {},
    make("summary", {}, "Numbers"),
  );
  numbers.addEventListener("toggle", () => {
    if (numbers.open && numbers.childElementCount === 1) numbers.append(table(asTable(given, on)));
  });
  figure.append(place, make("div", {}, legend, ...ceilings(given, on, moves), reading, numbers));

  const hidden = new Set<number>();
  const plot = new uPlot(options(given, on, moves, reading, paint), data(given, on, hidden), place);
  given.series.forEach((series, number) =>
    legend.append(
      entry(series.name, paint[number]!, (show) => {
        if (show) hidden.delete(number);
        else hidden.add(number);
        plot.setData(data(given, on, hidden));
      }),
    ),
  );
  place.tabIndex = 0;
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `${given.title}. ${described(given, on)} Arrow keys read values; Enter zooms in; Space shows the sessions.`);
  place.addEventListener("keydown", (event) => keys(event, plot, on, moves));
  return {
    element: figure,
    empty: false,
    resize: () => plot.setSize({ width: place.clientWidth || 600, height: HEIGHT }),
    destroy: () => plot.destroy(),
  };
}

/** Whether all values that are known are shown as 0: an axis from 0 to 1 would say nothing. */
function always0(given: Chart): boolean {
  return [...given.series, ...given.before].every((one) => one.values.every((known) => known === null || /^-?0(?![.\d])/.test(value(known, given.unit))));
}

/** The limits in words, because those far above the lines are not drawn; a limit that was reached links to its remedies. */
function ceilings(given: Chart, on: ScreenAnswer, moves: Moves): HTMLElement[] {
  const [only] = given.limits;
  // A single one has room for its name where it is drawn.
  if (only === undefined || (given.limits.length === 1 && !only.reached && near(given, on).length === 1)) return [];
  const entries = given.limits.map((limit) =>
    limit.reached
      ? make("li", { class: "reached" }, make("a", { href: moves.to("remedies") }, `${limit.name}: reached`))
      : make("li", {}, limit.name),
  );
  return [make("ul", { class: "ceilings", "aria-label": `Limits of ${given.title}` }, make("li", {}, given.limits.length === 1 ? "Limit:" : "Limits:"), ...entries)];
}

/** The highest value drawn. */
function top(given: Chart, on: ScreenAnswer): number {
  return Math.max(0, ...data(given, on, new Set()).slice(1).flatMap((values) => [...values].map((one) => one ?? 0)));
}

/** The limits that are drawn. */
function near(given: Chart, on: ScreenAnswer): Chart["limits"] {
  const highest = top(given, on);
  return given.limits.filter((limit) => highest * NEAR >= limit.value);
}

function described(given: Chart, on: ScreenAnswer): string {
  const highest = given.series.map((series) => Math.max(...series.values.map((one) => one ?? 0)));
  const parts = given.series.map((series, n) => `${series.name} up to ${value(highest[n], given.unit)}`);
  return `${parts.join(", ")}, from ${day(on.begin)} ${clock(on.begin)} to ${day(on.end)} ${clock(on.end)} UTC.`;
}

/** Times and values for uPlot; for stacked lines the running sums, the highest first. */
function data(given: Chart, on: ScreenAnswer, hidden: Set<number>): uPlot.AlignedData {
  const earlier = before(given, on).map((series) => series.values);
  const nothing = on.times.map(() => null);
  const values = given.series.map((series, n) => (hidden.has(n) ? nothing : series.values));
  if (!given.stacked) return [on.times, ...values, ...earlier];
  // Where one has a value, those that have none add 0: an area needs both its ends.
  const sum = on.times.map((_, at): number | null => (given.series.some((series) => typeof series.values[at] === "number") ? 0 : null));
  const sums = values.map((series) => sum.map((under, at) => (under === null ? null : (sum[at] = under + (series[at] ?? 0)))));
  return [on.times, ...sums.reverse(), ...earlier];
}

/** The lines of the period to compare with; for a stacked chart their sum. */
function before(given: Chart, on: ScreenAnswer): ChartSeries[] {
  if (!given.stacked || given.before.length === 0) return given.before;
  const values = on.times.map((_, at) => {
    const known = given.before.map((series) => series.values[at] ?? null).filter((one) => one !== null);
    return known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0);
  });
  return [{ name: "all", values }];
}

function options(given: Chart, on: ScreenAnswer, moves: Moves, reading: HTMLElement, paint: number[]): uPlot.Options {
  const count = given.series.length;
  const lines: uPlot.Series[] = given.series.map((_, n) => {
    // Sums are drawn from the highest to the lowest, so that each covers what is below it.
    const number = given.stacked ? count - 1 - n : n;
    const place = paint[number]!;
    const colour = () => css(`--series-${place % COLOURS}`);
    return {
      label: given.series[number]!.name,
      stroke: colour,
      width: given.stacked ? 1 : 2,
      dash: given.stacked ? [] : DASHES[Math.floor(place / COLOURS) % DASHES.length]!,
      points: { show: sparse(given), size: 6, fill: colour, filter: alone },
      ...(given.stacked ? { fill: colour } : {}),
    };
  });
  const earlier: uPlot.Series[] = before(given, on).map((series) => {
    const number = given.series.findIndex((one) => one.name === series.name);
    return {
      label: `before: ${series.name}`,
      stroke: () => (number < 0 ? css("--text") : css(`--series-${paint[number]! % COLOURS}`)),
      width: 1.5,
      dash: [4, 4],
      points: { show: false },
    };
  });
  const limits = near(given, on);
  const highest = Math.max(top(given, on), ...limits.map((limit) => limit.value)) || 1;
  const axis = { stroke: () => css("--text-soft"), grid: { stroke: () => css("--grid"), width: 1 }, ticks: { show: false } };
  return {
    width: 600,
    height: HEIGHT,
    padding: [null, BESIDE, null, null],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    scales: {
      x: { range: [on.begin, Math.max(on.end, on.begin + 1)] },
      y: { range: [0, highest * 1.08] },
    },
    series: [{}, ...lines, ...earlier],
    axes: [
      { ...axis, space: 76, size: 45, gap: 8, values: (_, times, __, ___, step) => ticks(times, step) },
      { ...axis, size: beside, ...steps(given.unit), values: (_, found) => levels(found, given.unit) },
    ],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 7 }, focus: { prox: 24 } },
    legend: { show: false },
    hooks: {
      drawClear: [(plot) => shade(plot, given.bands)],
      draw: [(plot) => overlay(plot, limits, on.changes)],
      setCursor: [(plot) => void (reading.textContent = read(plot, given, on))],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 4) moves.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      ready: [
        (plot) =>
          plot.over.addEventListener("click", (event) => {
            if (event.detail === 1 && plot.select.width === 0) moves.at(plot.posToVal(event.offsetX, "x"));
          }),
      ],
    },
  };
}

/** The space for an axis's labels: the same in all charts, so that their times line up; on a phone only what they need. */
function beside(plot: uPlot, labels: string[] | null): number {
  if (plot.width > NARROW) return LABELS;
  return Math.min(LABELS, 16 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}

/** The unit above an axis whose labels are bare numbers; the others name theirs. */
function named(unit: string): string {
  return unit.includes("/") || ["bytes", "share", "s", "ms"].includes(unit) ? "" : unit === "integer" ? "number" : unit;
}

function steps(unit: string): { incrs?: number[] } {
  return unit === "bytes" ? { incrs: POWERS } : unit === "s" ? { incrs: TIMES } : {};
}

/** Whether every line has so few values that it needs points to be visible. */
function sparse(given: Chart): boolean {
  return given.series.every((one) => one.values.filter((value) => value !== null).length < 3);
}

/** The steps of a line without a value on either side, which only a point makes visible. */
function alone(plot: uPlot, series: number, all: boolean): number[] | null {
  const values = plot.data[series]!;
  const known = (at: number): boolean => typeof values[at] === "number";
  return all ? null : Array.from(values, (_, at) => at).filter((at) => known(at) && !known(at - 1) && !known(at + 1));
}

function overlay(plot: uPlot, limits: Chart["limits"], changes: ScreenChange[]): void {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const limit of limits) {
    const y = plot.valToPos(limit.value, "y", true);
    ctx.setLineDash(limit.reached ? [] : [8, 4]);
    ctx.lineWidth = devicePixelRatio * (limit.reached ? 2 : 1);
    ctx.strokeStyle = css("--limit");
    line(ctx, left, y, left + width, y);
  }
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2, 3]);
  ctx.strokeStyle = css("--change");
  for (const change of changes) {
    const x = plot.valToPos(change.at, "x", true);
    if (x >= left && x <= left + width) line(ctx, x, top, x, top + height);
  }
  names(plot, limits);
  ctx.restore();
}

/** Draw the names of limits above their lines, on a background, because lines and areas are behind them. */
function names(plot: uPlot, limits: Chart["limits"]): void {
  const { ctx } = plot;
  const { left, width } = plot.bbox;
  const px = devicePixelRatio;
  // A name that would cover the one below goes beside it; one that does not fit is still in the list.
  let [below, end] = [Infinity, left];
  for (const limit of [...limits].sort((a, b) => a.value - b.value)) {
    const y = plot.valToPos(limit.value, "y", true);
    const x = below - y < 15 * px ? end + 8 * px : left + 4 * px;
    const text = fitted(ctx, limit.name, left + width - x - 6 * px);
    const wide = text ? ctx.measureText(text).width + 6 * px : 0;
    ctx.fillStyle = css("--surface");
    ctx.globalAlpha = 0.85;
    ctx.fillRect(x, y - 15 * px, wide, 13 * px);
    ctx.globalAlpha = 1;
    ctx.fillStyle = css("--limit");
    ctx.fillText(text, x + 3 * px, y - 5 * px);
    [below, end] = [y, x + wide];
  }
}

/** As much of a text as fits; nothing if that is less than ten characters. */
function fitted(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  if (ctx.measureText(text).width <= room) return text;
  const share = Math.floor((text.length * room) / ctx.measureText(text).width) - 2;
  return share < 10 ? "" : `${text.slice(0, share)}…`;
}

/** Shade the times at a limit, behind the lines. */
function shade(plot: uPlot, bands: Chart["bands"]): void {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.fillStyle = css("--band");
  for (const [begin, end] of bands) {
    const from = Math.max(left, plot.valToPos(begin, "x", true));
    const to = Math.min(left + width, plot.valToPos(end, "x", true));
    // At least one pixel wide, so that it stays visible.
    if (to > from) ctx.fillRect(from, top, Math.max(to - from, devicePixelRatio), height);
  }
  ctx.restore();
}

function line(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}

/** The values at the cursor in words, with the changes near it. */
function read(plot: uPlot, given: Chart, on: ScreenAnswer): string {
  const at = plot.cursor.idx;
  const time = at === null || at === undefined ? undefined : on.times[at];
  if (at === null || at === undefined || time === undefined) return "";
  const values = given.series.map((series) => `${series.name} ${value(series.values[at], given.unit)}`);
  const near = on.changes.filter((change) => Math.abs(change.at - time) <= on.step);
  const past = before(given, on).map((series) => `before: ${series.name} ${value(series.values[at], given.unit)}`);
  const said = near.map((change) => `${clock(change.at)} ${change.what}: ${change.detail}`);
  return [`${day(time)} ${clock(time)}`, ...values, ...past, ...said].join(" · ");
}

function entry(name: string, number: number, toggle: (show: boolean) => void): HTMLElement {
  const swatch = make("span", { class: `swatch s${number % COLOURS}` });
  const button = make("button", { type: "button", "aria-pressed": "true", title: name }, swatch, name);
  button.addEventListener("click", () => {
    const show = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(show));
    toggle(show);
  });
  return make("li", {}, button);
}

function keys(event: KeyboardEvent, plot: uPlot, on: ScreenAnswer, moves: Moves): void {
  const last = on.times.length - 1;
  const now = plot.cursor.idx ?? last;
  const steps: Record<string, number> = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last };
  if (event.key in steps) {
    const at = Math.min(last, Math.max(0, steps[event.key]!));
    const left = plot.valToPos(on.times[at]!, "x");
    plot.setCursor({ left, top: HEIGHT / 2 });
  } else if (event.key === "Enter") {
    const middle = on.times[now] ?? on.begin;
    const quarter = Math.max((on.end - on.begin) / 8, 15);
    moves.zoom(middle - quarter, middle + quarter);
  } else if (event.key === " ") {
    moves.at(on.times[now] ?? on.begin);
  } else {
    return;
  }
  event.preventDefault();
}

function asTable(given: Chart, on: ScreenAnswer): ScreenTable {
  return {
    name: given.name,
    title: `${given.title}, in steps of ${value(on.step, "s")}`,
    columns: [
      { name: "time", title: "Time (UTC)", unit: "time" },
      ...given.series.map((series) => ({ name: series.name, title: series.name, unit: given.unit })),
      ...given.before.map(({ name }) => ({ name: `before ${name}`, title: `${name}, before`, unit: given.unit })),
    ],
    rows: on.times.map((time, at) => [
      time,
      ...[...given.series, ...given.before].map((series) => series.values[at] ?? null),
    ]),
    missing: null,
  };
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
