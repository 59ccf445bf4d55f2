/** What happened in the period, on top of a server's first screen: what went wrong, then what nobody recorded. */

import type { ExplainedCheck, ScreenAnswer, ScreenIncident } from "./answers";
import { make } from "./dom";
import { clock, day } from "./format";
import { address, type State } from "./state";

/** As many incidents are shown at once; the others open with a click. */
const FEW = 6;

export function story(on: ScreenAnswer, state: State): HTMLElement[] {
  if (!on.story) return [];
  const { unrecorded, incidents, checks } = on.story;
  // What lasts has the latest end, so it comes first.
  const latest = [...incidents].sort((one, other) => other.end - one.end || other.begin - one.begin);
  const entries = latest.map((one) => entry(one, on, state));
  const more = entries.slice(FEW);
  return [
    make(
      "section",
      { class: "story", "aria-label": "What happened" },
      make("h2", {}, "What happened"),
      entries.length > 0 ? make("ol", {}, ...entries.slice(0, FEW)) : nothing(unrecorded),
      more.length > 0 ? make("details", {}, make("summary", {}, `${more.length} more`), make("ol", {}, ...more)) : null,
      unrecorded.length > 0 ? make("ul", { class: "unrecorded" }, ...unrecorded.map((one) => make("li", {}, one))) : null,
      make("details", { class: "judged" }, make("summary", {}, "How this is judged"), ...checks.map(explained)),
    ),
  ];
}

/** What the catalogue of checks says of one, as `mrtuner explain` does. */
function explained(one: ExplainedCheck): HTMLElement {
  const terms = { "Found by": one.judged, Source: one.source, "What helps": one.remedy };
  const pairs = Object.entries(terms).flatMap(([term, text]) => [make("dt", {}, term), make("dd", {}, text)]);
  return make("div", {}, make("p", {}, `${one.meaning} (${one.id})`), make("dl", {}, ...pairs));
}

function nothing(unrecorded: string[]): HTMLElement {
  const words = unrecorded.length > 0 ? "Nothing went wrong in what was looked at." : "Nothing went wrong.";
  return make("p", { class: "empty" }, words);
}

/** The time and the sentence, which opens the screen and the minute that show it. */
function entry(one: ScreenIncident, on: ScreenAnswer, state: State): HTMLElement {
  const [from, to] = [Math.floor(one.shown[0]), Math.ceil(one.shown[1])];
  const target = { ...state, screen: one.screen, statement: one.statement, change: "", process: "", table: "", from, to };
  const time = make("time", {}, span(one, day(on.begin) !== day(on.end)));
  return make("li", {}, time, make("a", { href: address(target) }, one.text));
}

/** From when to when, with the day if the period has several. */
function span(one: ScreenIncident, dated: boolean): string {
  const begin = dated ? `${day(one.begin)} ${clock(one.begin)}` : clock(one.begin);
  if (one.end - one.begin < 1) return begin;
  return day(one.end) === day(one.begin) ? `${begin} – ${clock(one.end)}` : `${begin} – ${day(one.end)} ${clock(one.end)}`;
}
