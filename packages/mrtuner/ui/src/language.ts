/** A browser in the C locale calls its language en-US@posix, which uPlot's Intl.NumberFormat refuses. */

try {
  new Intl.NumberFormat(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en" });
}
