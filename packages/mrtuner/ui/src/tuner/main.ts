/** The tuner: a form, and for every change of it the advice, its reasons, and the memory it needs. */

import { make } from "../dom";
import { value } from "../format";
import { download, table } from "../table";
import { follow, themes } from "../theme";
import fields from "../form.json";
import { engine, instance, type Answer, type Budget, type Difference, type Outcome, type Setting } from "./engine";
import { back, recorded } from "./recorded";

interface Field {
  name: string;
  flag: string;
  help: string;
  default: string;
  metavar: string;
  first: boolean;
  words: string[];
  switch: boolean;
  /** Of a size: the units to choose from for a bare number. */
  units: string[];
}

/** Of an instance, what was recorded stands in for what is not entered. */
const EXAMPLE: Record<string, string> = instance !== null ? {} : {
  postgres: "18",
  workload: "web",
  memory: "16GB",
  cpus: "4",
  storage: "ssd",
  connections: "200",
};
const ENDINGS: Record<string, string> = { conf: "conf", json: "json", sql: "sql", markdown: "md", nixos: "nix", puppet: "pp", text: "txt" };
/** Wait so long after a key before asking again, in milliseconds. */
const PAUSE = 150;
/** A number without a unit. */
const BARE = /^\d+(\.\d+)?$/;

follow();
const root = document.getElementById("app")!;
const python = engine();
const result = make("section", { class: "answer", "aria-live": "polite" }, make("p", { class: "loading", role: "status" }, "Loading the rules …"));
let form = "conf";
let asked = 0;
let timer = 0;

/** The unit of each size, by the name of its field. */
const units = new Map((fields as Field[]).filter((field) => field.units.length > 0).map((field) => [field.name, unitOf(field)]));
const controls = (fields as Field[]).map((field) => ({ field, input: control(field) }));
root.replaceChildren(
  make(
    "header",
    {},
    make("span", { class: "brand" }, "MrTuner"),
    make(
      "p",
      { class: "help" },
      instance === null
        ? "Settings for PostgreSQL that fit this machine, each with its reason. Nothing you enter leaves this page."
        : "Settings that fit what was recorded, each with its reason. Nothing is applied from here.",
    ),
    ...(instance === null ? [] : [back(instance)]),
    themes(),
  ),
  make("main", { id: "main" }, make("h1", {}, instance === null ? "Tune PostgreSQL" : `Tune ${instance} from its history`), layout(), result),
);
restore();
addEventListener("hashchange", () => {
  restore();
  void answer();
});
python.ready.then(answer, (error) => failed(error));

function layout(): HTMLElement {
  const shown = controls.filter(({ field }) => field.first).map(({ field, input }) => labelled(field, input));
  const more = controls.filter(({ field }) => !field.first).map(({ field, input }) => labelled(field, input));
  return make(
    "form",
    { submit: (event) => event.preventDefault(), input: later, change: later },
    make("div", { class: "controls" }, ...shown),
    make("details", { class: "more-inputs" }, make("summary", {}, "More about the machine"), make("div", { class: "controls" }, ...more)),
  );
}

function control(field: Field): HTMLInputElement | HTMLSelectElement {
  const words = field.switch ? ["yes"] : field.words;
  if (words.length > 0) {
    const none = make("option", { value: "" }, field.default || "not given");
    return make("select", { name: field.name }, none, ...words.map((word) => make("option", { value: word }, word)));
  }
  return make("input", {
    name: field.name,
    placeholder: field.default || field.metavar.toLowerCase(),
    autocomplete: "off",
    spellcheck: "false",
  });
}

function labelled(field: Field, input: HTMLElement): HTMLElement {
  const label = make("label", { title: `--${field.flag}` }, make("span", {}, field.help), input);
  const unit = units.get(field.name);
  return unit ? make("div", { class: "with-unit" }, label, unit) : label;
}

function unitOf(field: Field): HTMLSelectElement {
  return make("select", { "aria-label": `Unit of ${field.flag}` }, ...field.units.map((unit) => make("option", { value: unit }, unit)));
}

/** What was entered; a size without a unit has the chosen one. */
function given(): Record<string, string> {
  const entered = controls.map(({ field, input }) => {
    const text = input.value.trim();
    return [field.name, BARE.test(text) ? text + (units.get(field.name)?.value ?? "") : text] as const;
  });
  return Object.fromEntries(entered.filter(([, text]) => text));
}

function restore(): void {
  const linked = new URLSearchParams(location.hash.slice(1));
  const values = [...linked.keys()].length === 0 ? EXAMPLE : Object.fromEntries(linked);
  for (const { field, input } of controls) {
    const text = values[field.name] ?? "";
    const unit = units.get(field.name);
    const written = unit && field.units.find((one) => text.endsWith(one) && BARE.test(text.slice(0, -one.length)));
    if (unit && written) unit.value = written;
    input.value = written ? text.slice(0, -written.length).trim() : text;
  }
}

function later(): void {
  clearTimeout(timer);
  timer = setTimeout(() => {
    history.replaceState(null, "", `#${new URLSearchParams(given())}`);
    void answer();
  }, PAUSE);
}

async function answer(): Promise<void> {
  const number = ++asked;
  const question = given();
  try {
    const outcome = await python.ask(question);
    if (number !== asked) return;
    show(outcome);
    result.dataset["of"] = new URLSearchParams(question).toString();
  } catch (error) {
    if (number === asked) failed(error);
  }
}

function failed(error: unknown): void {
  result.replaceChildren(
    make("div", { class: "error", role: "alert" }, make("h2", {}, "The rules did not load"), make("p", {}, String(error))),
  );
}

function show(outcome: Outcome): void {
  if ("error" in outcome) {
    const { message, hint } = outcome.error;
    result.replaceChildren(
      make("div", { class: "error", role: "alert" }, make("p", {}, message), hint ? make("p", { class: "hint" }, hint) : null),
    );
    return;
  }
  result.replaceChildren(
    make("p", { class: "help" }, outcome.title),
    settings("Settings", outcome.settings.filter((one) => !one.suggestion), outcome.settings_known),
    ...(outcome.budget ? [budget(outcome.budget)] : []),
    ...outcome.notices.map((text) => make("p", { class: "notice" }, text)),
    written(outcome),
    settings("Suggestions: for you to decide", outcome.settings.filter((one) => one.suggestion), outcome.settings_known),
    pgtune(outcome.pgtune),
    ...recorded(outcome),
  );
}

function settings(title: string, rows: Setting[], known = false): HTMLElement {
  const columns = [
    ["name", "Setting", "text"],
    ["now", known ? "Now" : "Default", "text"],
    ["value", "Advice", "text"],
    ["reason", "Why", "text"],
    ["formula", "From", "text"],
    ["risk", "What it may cost", "text"],
  ].map(([name, words, unit]) => ({ name: name!, title: words!, unit: unit! }));
  const cells = rows.map((row) => columns.map((column) => (row[column.name as keyof Setting] as string | null) || null));
  return table({ name: "settings", title, columns, rows: cells, missing: rows.length ? null : "nothing to change" });
}

function pgtune(of: Answer["pgtune"]): HTMLElement {
  const columns = [
    ["name", "Setting", "text"],
    ["ours", "MrTuner", "text"],
    ["theirs", "PgTune", "text"],
    ["rule", "PgTune's rule", "text"],
    ["reason", "Why MrTuner differs", "text"],
  ].map(([name, words, unit]) => ({ name: name!, title: words!, unit: unit! }));
  const rows = of.differences.map((one) => columns.map((column) => one[column.name as keyof Difference] || null));
  const missing = rows.length ? null : "all its values are the same";
  return table({ name: "pgtune", title: `Where ${of.source}, differs`, columns, rows, missing });
}

/** The worst case as one bar: each part as wide as its share of the memory. */
function budget(of: Budget): HTMLElement {
  const bar = make("div", { class: "budget", role: "img", "aria-label": spoken(of) });
  const parts = [...of.parts].sort((a, b) => b.bytes - a.bytes);
  parts.forEach((part, number) => {
    const share = make("span", { class: `s${number % 9}`, title: `${part.name}: ${value(part.bytes, "bytes")}, ${part.how}` });
    share.style.width = `${(100 * part.bytes) / of.memory}%`;
    bar.append(share);
  });
  const limit = make("span", { class: "ceiling", title: `ceiling: ${value(of.ceiling, "bytes")}` });
  limit.style.left = `${(100 * of.ceiling) / of.memory}%`;
  bar.append(limit);
  const legend = parts.map((part, number) =>
    make("li", {}, make("span", { class: `swatch s${number % 9}` }), `${part.name} ${value(part.bytes, "bytes")} `, make("small", {}, part.how)),
  );
  return make("section", { class: "table" }, make("h2", {}, spoken(of)), bar, make("ul", { class: "parts" }, ...legend));
}

function spoken(of: Budget): string {
  return `Memory: at worst ${value(of.total, "bytes")} of ${value(of.memory, "bytes")}; ${value(of.ceiling, "bytes")} are allowed`;
}

function written(of: Answer): HTMLElement {
  const names = Object.keys(of.texts);
  if (!names.includes(form)) form = names[0]!;
  const text = make("pre", { tabindex: "0", "aria-label": "The settings as a file" }, of.texts[form]!);
  const select = make(
    "select",
    { "aria-label": "Format", change: () => ((form = select.value), (text.textContent = of.texts[form]!)) },
    ...names.map((name) => make("option", { value: name, selected: name === form }, name)),
  );
  const save = make("button", { type: "button", click: () => download(`mrtuner.${ENDINGS[form] ?? "yaml"}`, of.texts[form]!) }, "Save");
  const copy = make("button", { type: "button", click: () => void navigator.clipboard.writeText(of.texts[form]!) }, "Copy");
  return make("section", { class: "table written" }, make("div", { class: "bar" }, make("h2", {}, "As a file"), select, copy, save), text);
}
