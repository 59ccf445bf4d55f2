/** Tables that sort by any column and can be saved as CSV. */

import type { Cell, ScreenTable, TableColumn } from "./answers";
import { make } from "./dom";
import { ago, clock, day, stale, value } from "./format";

const TEXT = new Set(["text", "prose", "sql", "statement", "instance", "headroom", "journal", "tune", "record", "process", "compare", "plan"]);
const DATED = new Set(["time", "moment"]);
const TIMES = new Set([...DATED, "age"]);
const PHONE = matchMedia("(max-width: 760px)");
const ROWS = 100;
/** A table with more rows than this can be searched. */
const FEW = 12;
/** The deepest level of a tree that is indented further than the one above. */
const DEEPEST = 5;
/** Texts of at most SHORT characters stay on one line; those longer than LONG get a wider column on a phone. */
const [SHORT, LONG] = [28, 40];

/** The address that a cell links to, if any. */
export type Link = (unit: string, cell: Cell, row: Cell[]) => string | null;

export function table(given: ScreenTable, link: Link = () => null): HTMLElement {
  const heading = make("h2", {}, given.title);
  if (given.missing !== null) {
    const attributes = { class: "table", "data-table": given.name, tabindex: "-1" };
    return make("section", attributes, heading, make("p", { class: "empty" }, given.missing));
  }
  const one = onlyDay(given);
  let sorted: { column: number; down: boolean } | null = null;
  let shown = ROWS;
  let wanted = "";
  const body = make("tbody");
  // The depth of a row in a tree is not shown: it indents the row.
  const heads = given.columns.map((column, place) => {
    if (column.unit === "depth") return null;
    const on = one !== null && DATED.has(column.unit) ? make("span", { class: "day" }, ` ${one}`) : null;
    const button = make("button", { type: "button", click: () => sort(place) }, column.title, on);
    return make("th", { scope: "col", class: kind(column) }, button);
  });
  const more = make("button", { type: "button", class: "more", click: () => ((shown *= 10), fill()) });
  const save = make("button", { type: "button", click: () => download(`${given.name}.csv`, csv({ ...given, rows: found() })) }, "CSV");
  const search = make("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": `Search: ${given.title}`,
    input: () => ((wanted = search.value.trim().toLowerCase()), fill()),
  });

  function sort(place: number): void {
    const text = TEXT.has(given.columns[place]!.unit);
    sorted = { column: place, down: sorted?.column === place ? !sorted.down : !text };
    heads.forEach((head, at) => {
      if (head === null) return;
      if (at === place) head.setAttribute("aria-sort", sorted!.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    // In another order, the rows are no tree.
    body.classList.add("flat");
    fill();
  }

  function found(): Cell[][] {
    const has = (cell: Cell, place: number): boolean => written(cell, given.columns[place]!.unit, one).toLowerCase().includes(wanted);
    return wanted ? given.rows.filter((row) => row.some(has)) : given.rows;
  }

  function fill(): void {
    const rows = sorted === null ? found() : [...found()].sort(by(sorted.column, sorted.down));
    const none = make("tr", {}, make("td", { colspan: String(given.columns.length) }, "No row has this text."));
    body.replaceChildren(...(wanted && rows.length === 0 ? [none] : rows.slice(0, shown).map((row) => line(given.columns, row, one, link))));
    more.hidden = rows.length <= shown;
    more.textContent = `Show more of ${rows.length} rows`;
  }

  fill();
  const scroll = make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": given.title },
    make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body),
  );
  const attributes = { class: "table", "data-table": given.name, tabindex: "-1" };
  const tools = make("span", { class: "tools" }, given.rows.length > FEW ? search : null, save);
  return make("section", attributes, make("div", { class: "bar" }, heading, tools), scroll, more);
}

/** The day of all times of a table if there is only one: the headings tell it, and cells need less room. */
function onlyDay(given: ScreenTable): string | null {
  const times = given.columns.flatMap((column, place) => (DATED.has(column.unit) ? given.rows.map((row) => row[place]) : []));
  const days = new Set(times.filter((cell) => typeof cell === "number").map(day));
  return days.size === 1 ? [...days][0]! : null;
}

function line(columns: TableColumn[], row: Cell[], one: string | null, link: Link): HTMLElement {
  const [statement, depth] = ["statement", "depth"].map((unit) => columns.findIndex((column) => column.unit === unit)) as [number, number];
  const cells = columns.map((column, place) => {
    if (column.unit === "depth") return null;
    const cell = row[place] ?? null;
    const words = written(cell, column.unit, one);
    // A text leads where its identifier does.
    const text = column.unit === "sql" && cell !== null && statement >= 0;
    const target = text ? link("statement", row[statement] ?? null, row) : link(column.unit, cell, row);
    const child = target === null ? (column.unit === "sql" ? [make("span", {}, words)] : parted(words)) : [make("a", { href: target }, words)];
    return make("td", { class: `${kind(column)}${more(column, cell, words)}`, ...full(column, cell, words) }, ...child);
  });
  const level = depth < 0 ? 0 : Math.min(Number(row[depth]), DEEPEST);
  return make("tr", level > 0 ? { class: `d${level}` } : {}, ...cells);
}

/** A cell's text as shown; `one` is the day of all times. */
function written(cell: Cell, unit: string, one: string | null): string {
  if (cell === null) return "–";
  if (one !== null && DATED.has(unit)) return clock(Number(cell));
  if (unit === "tune") return "Tune";
  if (unit === "compare") return "before and after";
  if (unit === "age") return ago(Date.now() / 1000 - Number(cell));
  if (unit === "journal") return `change ${cell}`;
  return typeof cell === "number" ? value(cell, unit) : String(cell);
}

function kind(column: TableColumn): string {
  if (TIMES.has(column.unit)) return "time";
  if (column.unit.startsWith("to:")) return "short";
  return TEXT.has(column.unit) ? column.unit : "number";
}

/** Further classes of a cell: for the length of a text, or for a sample that is too old. */
function more(column: TableColumn, cell: Cell, words: string): string {
  if (column.unit === "age") return stale(Date.now() / 1000 - Number(cell)) ? " stale" : "";
  return column.unit === "text" ? length(words) : "";
}

/** The tooltip of a cell whose text may be shortened. */
function full(column: TableColumn, cell: Cell, words: string): { title?: string } {
  if (column.unit === "age") return { title: `${value(Number(cell), "time")} UTC` };
  return column.unit === "sql" ? { title: words } : {};
}

/** On a phone, a name may wrap after each underscore rather than in the middle of a part. */
function parted(words: string): (Node | string)[] {
  if (!PHONE.matches || !/^\w+_\w+$/.test(words)) return [words];
  return words.split(/(?<=_)/).flatMap((part, n) => (n ? [make("wbr"), part] : [part]));
}

function length(words: string): string {
  return words.length <= SHORT ? " short" : words.length > LONG ? " long" : "";
}

/** Compare rows by a column; rows without a value come last in either direction. */
function by(column: number, down: boolean): (one: Cell[], other: Cell[]) => number {
  return (one, other) => {
    const [a, b] = [one[column] ?? null, other[column] ?? null];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? -order : order;
  };
}

function csv(given: ScreenTable): string {
  const head = given.columns.map((column) => quoted(column.name)).join(",");
  const rows = given.rows.map((row) =>
    row.map((cell, place) => quoted(TIMES.has(given.columns[place]!.unit) ? iso(cell) : cell)).join(","),
  );
  return [head, ...rows, ""].join("\r\n");
}

function iso(cell: Cell): Cell {
  return typeof cell === "number" ? `${day(cell)}T${clock(cell)}Z` : cell;
}

/** A CSV cell; text that a spreadsheet would run as a formula gets an apostrophe. An identifier may be negative. */
function quoted(cell: Cell): string {
  if (cell === null) return "";
  if (typeof cell !== "string") return String(cell);
  const safe = /^[=+\-@\t\r]/.test(cell) && !/^-\d+$/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  const anchor = make("a", { href: address, download: name });
  anchor.click();
  URL.revokeObjectURL(address);
}
