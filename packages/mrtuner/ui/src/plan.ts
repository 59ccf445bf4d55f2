/** The plan of the statement on the screen: the server is asked for it when somebody clicks, and never by itself. */

import type { PlanAnswer } from "./answers";
import { Failure, plan } from "./api";
import { make } from "./dom";
import { value } from "./format";
import { query, type State } from "./state";

/** The last plan, which stays when the page is refreshed. */
let kept: { of: string; plan: PlanAnswer } | null = null;

export function planned(state: State): HTMLElement {
  const of = `${state.instance} ${state.statement}`;
  const place = make("div", { "aria-live": "polite" });
  const ask = make("button", { type: "button", click: () => void show() }, "Explain it now");
  if (kept?.of === of) place.replaceChildren(...told(kept.plan));
  return make("section", { class: "plan", "aria-label": "Plan" }, make("div", { class: "bar" }, make("h2", {}, "Plan"), ask), place);

  async function show(): Promise<void> {
    ask.disabled = true;
    place.replaceChildren(make("p", { class: "help" }, "Asking the server …"));
    try {
      kept = { of, plan: await plan(query(state)) };
      place.replaceChildren(...told(kept.plan));
    } catch (error) {
      const hint = error instanceof Failure ? error.hint : null;
      const message = error instanceof Error ? error.message : String(error);
      place.replaceChildren(make("p", { class: "error" }, hint ? `${message}. ${hint}` : message));
    }
    ask.disabled = false;
  }
}

function told(plan: PlanAnswer): HTMLElement[] {
  const help = `In database ${plan.database}, at ${value(plan.at, "time")} UTC. For any values of its constants; costs and rows are estimates.`;
  return [make("p", { class: "help" }, help), make("pre", { class: "scroll", tabindex: "0" }, plan.lines.join("\n"))];
}
