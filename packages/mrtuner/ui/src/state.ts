/** The current view, stored in the page's address, so that a link reproduces it. */

export interface State {
  screen: string;
  instance: string;
  since: string;
  from: number | null;
  to: number | null;
  compare: string;
  statement: string;
  change: string;
  /** The number of a process whose samples are listed. */
  process: string;
  table: string;
  /** "off": changes are not drawn into the charts. */
  marks: string;
}

export const DEFAULT: State = {
  screen: "",
  instance: "",
  since: "1h",
  from: null,
  to: null,
  compare: "",
  statement: "",
  change: "",
  process: "",
  table: "",
  marks: "",
};

export function read(): State {
  const given = new URLSearchParams(location.hash.slice(1));
  const known = Object.fromEntries([...given].filter(([name]) => Object.hasOwn(DEFAULT, name)));
  return { ...DEFAULT, ...known, from: moment(given.get("from")), to: moment(given.get("to")) };
}

function moment(text: string | null): number | null {
  const value = Number(text);
  return text === null || text === "" || !Number.isFinite(value) ? null : value;
}

/** The part of the page's address, from # on, that shows this state. */
export function address(state: State): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(state) as [keyof State, string | number | null][]) {
    if (value !== null && value !== DEFAULT[name]) query.set(name, String(value));
  }
  return `#${query}`;
}

export function go(change: Partial<State>): void {
  location.hash = address({ ...read(), table: "", ...change });
}

/** The query parameters of the API request for a screen. */
export function query(state: State): URLSearchParams {
  const asked = new URLSearchParams();
  if (state.instance) asked.set("instance", state.instance);
  if (state.from !== null && state.to !== null) {
    asked.set("from", String(state.from));
    asked.set("to", String(state.to));
  } else {
    asked.set("since", state.since);
  }
  if (state.compare) asked.set("compare", state.compare);
  if (state.statement) asked.set("statement", state.statement);
  if (state.change) asked.set("change", state.change);
  if (state.process) asked.set("process", state.process);
  return asked;
}
