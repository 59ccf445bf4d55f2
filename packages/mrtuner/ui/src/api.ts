/** Calls of the API. `make page` writes the types of its answers from their schemas. */

import type { FleetAnswer, PlanAnswer, RecordsAnswer, ScreenAnswer } from "./answers";
import { checkSession } from "./session";

/** An error answer, with a hint if there is one. */
export class Failure extends Error {
  constructor(
    message: string,
    readonly hint: string | null,
  ) {
    super(message);
  }
}

export function fleet(signal: AbortSignal): Promise<FleetAnswer> {
  return get<FleetAnswer>("api/fleet", signal);
}

export function screen(name: string, query: URLSearchParams, signal: AbortSignal): Promise<ScreenAnswer> {
  return get<ScreenAnswer>(`api/screens/${encodeURIComponent(name)}?${query}`, signal);
}

export function plan(query: URLSearchParams): Promise<PlanAnswer> {
  return get<PlanAnswer>(`api/plan?${query}`);
}

export function records(signal: AbortSignal): Promise<RecordsAnswer> {
  return get<RecordsAnswer>("api/records", signal);
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
