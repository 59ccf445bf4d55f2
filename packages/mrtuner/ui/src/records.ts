/** The benchmark records: what was compared, and the result. Each links to its report. */

import type { Cell, RecordsAnswer } from "./answers";
import { make } from "./dom";
import { table } from "./table";

/** The screen's name in the page's address. */
export const RECORDS = "records";

export function benchmarks(of: RecordsAnswer): HTMLElement[] {
  const title = make("h1", {}, "Benchmarks");
  const about = make("p", { class: "help" }, of.directory);
  const columns = [
    ["at", "When (UTC)", "time"],
    ["name", "Record", "record"],
    ["compared", "Compared", "text"],
    ["verdict", "Verdict", "text"],
    ["answer", "Result", "text"],
  ].map(([name, words, unit]) => ({ name: name!, title: words!, unit: unit! }));
  const shown = of.records.filter((one) => one.error === null);
  const rows: Cell[][] = shown.map((one) => [one.at, one.name, one.compared, one.verdict, one.answer]);
  const missing = rows.length ? null : "there is no record here: mrtuner bench compare --dir DIR writes one";
  const bad = of.records.filter((one) => one.error !== null);
  return [
    title,
    about,
    table({ name: "records", title: "Records, the latest first", columns, rows, missing }, report),
    ...bad.map((one) => make("p", { class: "error" }, `left out: ${one.name}: ${one.error}`)),
  ];
}

function report(unit: string, cell: Cell): string | null {
  return unit === "record" ? `api/records/page?${new URLSearchParams({ name: String(cell) })}` : null;
}
