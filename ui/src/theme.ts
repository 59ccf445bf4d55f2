/** Light or dark: as chosen here before, or as the system is. */

import { choice } from "./dom";

const THEMES: [string, string][] = [["auto", "System"], ["light", "Light"], ["dark", "Dark"]];
const SYSTEM = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string {
  const kept = localStorage.getItem("theme");
  return kept === "light" || kept === "dark" ? kept : "auto";
}

/** The choice of a theme; `changed` is called after one was made. */
export function themes(changed: () => void = () => undefined): HTMLElement {
  const found = choice("Theme", THEMES, chosen(), (theme) => {
    localStorage.setItem("theme", theme);
    apply();
    changed();
  });
  found.classList.add("theme");
  return found;
}

/** Colours follow from now on; `changed` is called when the system changes its own. */
export function follow(changed: () => void = () => undefined): void {
  apply();
  SYSTEM.addEventListener("change", () => {
    apply();
    changed();
  });
}

function apply(): void {
  const theme = chosen();
  document.documentElement.dataset["theme"] = theme === "auto" ? (SYSTEM.matches ? "dark" : "light") : theme;
}
