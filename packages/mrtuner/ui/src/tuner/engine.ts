/** The rules, in Python: by the server that serves this page, or by Pyodide in a worker. */

import { checkSession } from "../session";

export interface Setting {
  name: string;
  area: string;
  now: string;
  value: string;
  reason: string;
  formula: string | null;
  suggestion: boolean;
  restart: boolean;
  risk: string;
  source: string;
}

export interface Budget {
  memory: number;
  ceiling: number;
  total: number;
  parts: { name: string; bytes: number; how: string }[];
}

export interface Difference {
  name: string;
  ours: string;
  theirs: string;
  rule: string;
  reason: string;
}

export interface Answer {
  title: string;
  settings: Setting[];
  budget: Budget | null;
  notices: string[];
  pgtune: { source: string; differences: Difference[] };
  texts: Record<string, string>;
  /** Of an instance of the store: when it was recorded, what is known of it, and what is not. */
  instance?: string;
  settings_known?: boolean;
  begin?: number;
  end?: number;
  known?: { name: string; value: string; source: string }[];
  missing?: { name: string; why: string; supply: string | null }[];
}

export type Outcome = Answer | { error: { message: string; hint: string | null } };

export interface Engine {
  /** Resolves when the first answer can be given. */
  ready: Promise<void>;
  ask(given: Record<string, string>): Promise<Outcome>;
}

const served = document.querySelector('meta[name="engine"][content="server"]') !== null;
/** The instance of the store whose history the advice is for; only a server has one. */
export const instance = served ? new URLSearchParams(location.search).get("instance") : null;

/** Where `mrtuner serve` answers, there is no need to load Python into the browser. */
export function engine(): Engine {
  return served ? server() : pyodide();
}

function server(): Engine {
  return {
    ready: Promise.resolve(),
    async ask(given) {
      const asked = instance === null ? given : { ...given, instance };
      const response = await fetch(`api/tune?${new URLSearchParams(asked)}`);
      checkSession(response);
      return (await response.json()) as Outcome;
    },
  };
}

function pyodide(): Engine {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  const waiting: { resolve(answer: string): void; reject(error: Error): void }[] = [];
  worker.addEventListener("message", ({ data }: MessageEvent<{ text?: string; error?: string }>) => {
    const first = waiting.shift();
    if (data.error !== undefined) first?.reject(new Error(data.error));
    else first?.resolve(data.text ?? "");
  });
  worker.addEventListener("error", (event) => waiting.shift()?.reject(new Error(event.message || "Python did not load")));
  const call = (message: string): Promise<string> =>
    new Promise((resolve, reject) => {
      waiting.push({ resolve, reject });
      worker.postMessage(message);
    });
  const ready = call(new URL("./", document.baseURI).href).then(keep);
  return {
    ready,
    ask: async (given) => JSON.parse(await call(JSON.stringify(given))) as Outcome,
  };
}

/** Keep the files for the time without a network, once they are here. */
async function keep(): Promise<void> {
  if ("serviceWorker" in navigator) await navigator.serviceWorker.register("./offline.js").catch(() => undefined);
}
