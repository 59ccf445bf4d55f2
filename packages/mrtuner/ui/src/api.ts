/** The API's answers, as declared in `mrtuner/web/document.py`. */

import { checkSession } from "./session";

export interface Series {
  name: string;
  values: (number | null)[];
}

export interface Chart {
  name: string;
  title: string;
  help: string;
  unit: string;
  stacked: boolean;
  series: Series[];
  before: Series[];
  limits: { name: string; value: number; reached: boolean }[];
  bands: [number, number][];
  missing: string | null;
}

export type Cell = string | number | boolean | null;

export interface Column {
  name: string;
  title: string;
  unit: string;
}

export interface Table {
  name: string;
  title: string;
  columns: Column[];
  rows: Cell[][];
  missing: string | null;
}

export interface Change {
  at: number;
  what: string;
  detail: string;
  by: string;
  journal: string | null;
}

export interface Incident {
  kind: string;
  begin: number;
  end: number;
  text: string;
  screen: string;
  /** Begin and end of the period to open on that screen. */
  shown: [number, number];
}

export interface Screen {
  screen: string;
  title: string;
  instance: string;
  begin: number;
  end: number;
  last: number | null;
  step: number;
  times: number[];
  charts: Chart[];
  tables: Table[];
  changes: Change[];
  damaged: string[];
  /** Only of the first screen. */
  story: { unrecorded: string[]; incidents: Incident[] } | null;
}

export interface Member {
  instance: string;
  first: number;
  last: number;
  load: number | null;
  cpus: number | null;
  tightest: string | null;
  used: number | null;
  changes: number;
  /** Whether its server can be asked for the plan of a statement. */
  plans: boolean;
}

export interface Plan {
  database: string;
  at: number;
  /** As EXPLAIN prints them. */
  lines: string[];
}

export interface Fleet {
  directory: string;
  version: string;
  now: number;
  screens: { name: string; title: string; help: string }[];
  instances: Member[];
  records: boolean;
  /** Whether the page asked for a password, so that one can log out. */
  login: boolean;
}

export interface BenchmarkRecord {
  name: string;
  at: number | null;
  compared: string;
  answer: string;
  verdict: string | null;
  error: string | null;
}

export interface Records {
  directory: string;
  records: BenchmarkRecord[];
}

/** An error answer, with a hint if there is one. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

export function fleet(signal: AbortSignal): Promise<Fleet> {
  return get<Fleet>("api/fleet", signal);
}

export function screen(name: string, query: URLSearchParams, signal: AbortSignal): Promise<Screen> {
  return get<Screen>(`api/screens/${encodeURIComponent(name)}?${query}`, signal);
}

export function plan(query: URLSearchParams): Promise<Plan> {
  return get<Plan>(`api/plan?${query}`);
}

export function records(signal: AbortSignal): Promise<Records> {
  return get<Records>("api/records", signal);
}

async function get<T>(address: string, signal?: AbortSignal): Promise<T> {
  let response: Response;
  try {
    response = await fetch(address, { signal: signal ?? null, headers: { Accept: "application/json" } });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure("the server does not respond", "Is mrtuner serve still running?");
  }
  checkSession(response);
  const body: unknown = await response.json().catch(() => null);
  // A body that was cut off by the abort is null here, which is no answer.
  signal?.throwIfAborted();
  if (!response.ok) {
    const told = (body as { error?: { message?: string; hint?: string | null } } | null)?.error;
    throw new Failure(told?.message ?? `the server answered ${response.status}`, told?.hint ?? null);
  }
  return body as T;
}
