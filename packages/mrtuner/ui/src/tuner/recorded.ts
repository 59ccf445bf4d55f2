/** What the advice for an instance of the store is built on, and what the store does not have. */

import { make } from "../dom";
import { clock, day } from "../format";
import { address, DEFAULT } from "../state";
import { table } from "../table";
import type { Answer } from "./engine";

export function recorded(of: Answer): HTMLElement[] {
  if (of.instance === undefined) return [];
  const period = `Peaks of the five weeks up to the last sample, ${moment(of.end!)}. A value that is entered above takes precedence.`;
  return [
    make("p", { class: "help" }, period),
    listed("known", "What is known", of.known!, [["name", "Fact"], ["value", "Value"], ["source", "From"]], "nothing is known of this instance"),
    listed("missing", "What is missing", of.missing!, [["name", "Fact"], ["why", "Why"], ["supply", "How to supply it"]], "nothing is missing"),
  ];
}

/** The way back to the screens of the instance. */
export function back(instance: string): HTMLElement {
  const state = { ...DEFAULT, screen: "headroom", instance };
  return make("a", { class: "tuner-link", href: `./${address(state)}` }, `History of ${instance}`);
}

function moment(seconds: number): string {
  return `${day(seconds)} ${clock(seconds)} UTC`;
}

function listed(
  name: string, title: string, rows: Record<string, string | null>[], columns: [string, string][], missing: string,
): HTMLElement {
  return table({
    name,
    title,
    columns: columns.map(([column, words]) => ({ name: column, title: words, unit: "text" })),
    rows: rows.map((row) => columns.map(([column]) => row[column] ?? null)),
    missing: rows.length ? null : missing,
  });
}
