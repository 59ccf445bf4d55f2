/** Showing new data by itself, with a button that pauses it. */

import { make } from "./dom";
import { stale } from "./format";

/** How often new data is asked for, in milliseconds: sessions are sampled each second, the rest each minute. */
const EVERY = 15_000;

export interface Refresher {
  /** The button that pauses and resumes; hidden while there is nothing to refresh. */
  control: HTMLElement;
  /** Refresh after a while, or not at all. */
  plan(live: boolean): void;
}

/** Whether a recording goes on, by when it was sampled last. */
export function live(last: number | null, now: number): boolean {
  return last !== null && !stale(now - last);
}

/** `told` hears whether it is paused. */
export function refresher(renew: () => void, told: (paused: boolean) => void): Refresher {
  let paused = false;
  let timer = 0;
  const control = make("button", { type: "button", class: "refresh", hidden: true, click: () => pause(!paused) });
  const start = (): void => {
    clearTimeout(timer);
    if (!paused && !control.hidden) timer = setTimeout(tick, EVERY);
  };
  // A page that nobody sees asks for nothing, and catches up when it is seen again.
  const tick = (): void => (document.hidden ? start() : renew());
  const pause = (chosen: boolean): void => {
    paused = chosen;
    told(chosen);
    control.textContent = paused ? "Refresh" : "Pause";
    control.title = paused ? "Show new data by itself again" : "Keep what is shown: no new data";
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
