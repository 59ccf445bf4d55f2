/** Showing new data by itself, with a button that pauses it. */

import { make } from "./dom";
import { clock, stale } from "./format";

/** How often new data is asked for, in milliseconds: sessions are sampled each second, the rest each minute. */
const EVERY = 15_000;

export interface Refresher {
  /** The button that pauses and resumes, and when it paused; hidden while there is nothing to refresh. */
  control: HTMLElement;
  /** Refresh after a while, or not at all. */
  plan(live: boolean): void;
}

/** Whether a recording goes on, by when it was sampled last. */
export function live(last: number | null, now: number): boolean {
  return last !== null && !stale(now - last);
}

export function refresher(renew: () => void): Refresher {
  let paused = false;
  let timer = 0;
  const button = make("button", { type: "button", class: "refresh", click: () => pause(!paused) });
  const since = make("span", { class: "age" });
  const control = make("span", { class: "refresher", hidden: true }, since, button);
  const start = (): void => {
    clearTimeout(timer);
    if (!paused && !control.hidden) timer = setTimeout(tick, EVERY);
  };
  // A page that nobody sees asks for nothing, and catches up when it is seen again.
  const tick = (): void => (document.hidden ? start() : renew());
  const pause = (chosen: boolean): void => {
    paused = chosen;
    since.textContent = paused ? `paused at ${clock(Date.now() / 1000)} UTC` : "";
    button.textContent = paused ? "Refresh" : "Pause";
    button.title = paused ? "Show new data by itself again" : "Keep what is shown: no new data";
    if (!paused && !control.hidden) renew();
    else start();
  };
  pause(false);
  return {
    control,
    plan(live) {
      control.hidden = !live;
      start();
    },
  };
}
