/** Python in a worker: the first message names where its files are, each further one is a question. */

interface Pyodide {
  unpackArchive(buffer: ArrayBuffer, format: string): void;
  runPython(code: string): unknown;
}

let answer: ((given: string) => string) | null = null;

self.addEventListener("message", async ({ data }: MessageEvent<string>) => {
  try {
    if (answer === null) {
      answer = await load(data);
      self.postMessage({ text: "ready" });
    } else {
      self.postMessage({ text: answer(data) });
    }
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
});

async function load(base: string): Promise<(given: string) => string> {
  const [{ loadPyodide }, archive] = await Promise.all([
    import(/* @vite-ignore */ `${base}pyodide/pyodide.mjs`) as Promise<{
      loadPyodide(options: { indexURL: string }): Promise<Pyodide>;
    }>,
    fetch(`${base}mrtuner.zip`).then((response) => response.arrayBuffer()),
  ]);
  const python = await loadPyodide({ indexURL: `${base}pyodide/` });
  python.unpackArchive(archive, "zip");
  return python.runPython("from mrtuner.web.tuner import answer_json; answer_json") as (given: string) => string;
}
