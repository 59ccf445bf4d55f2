/** Light or dark: the theme chosen earlier in this browser, otherwise the system's. */

import { choice } from "./dom";

const THEMES: [string, string][] = [["auto", "System"], ["light", "Light"], ["dark", "Dark"]];
const SYSTEM = matchMedia("(prefers-color-scheme: dark)");

function chosen(): string {
  const kept = localStorage.getItem("theme");
  return kept === "light" || kept === "dark" ? kept : "auto";
}

/** A select for the theme; `changed` is called after each choice. */
export function themes(changed: () => void = () => undefined): HTMLElement {
  const found = choice("Theme", THEMES, chosen(), (theme) => {
    localStorage.setItem("theme", theme);
    apply();
    changed();
  });
  found.classList.add("theme");
  return found;
}

/** Apply the theme, now and whenever the system's theme changes; then `changed` is called. */
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
