import { defineConfig } from "vite";

// The page is served by `mrtuner serve` from the package, so it is built into it.
export default defineConfig({
  base: "./",
  worker: { format: "es" },
  build: {
    outDir: "../src/mrtuner/web/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: ["index.html", "tuner.html"] },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080" } },
});
