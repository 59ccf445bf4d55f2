/** Light or dark: as chosen here before, or as the system is. */

const SYSTEM = matchMedia("(prefers-color-scheme: dark)");

export function chosen(): string {
  const kept = localStorage.getItem("theme");
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export function choose(theme: string): void {
  localStorage.setItem("theme", theme);
  apply();
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
