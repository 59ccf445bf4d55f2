/** Numbers in the units of charts and tables. Times are in UTC, like the server's log. */

const BYTES = ["bytes", "kB", "MB", "GB", "TB", "PB"];
/** PostgreSQL's units of sizes are powers of 1024; limits of disks and networks are given in powers of 1000. */
const [SIZE, RATE] = [1024, 1000];

/** Less than this is shown as 0. */
const LEAST = 0.0005;

export function value(number: number | null | undefined, unit: string): string {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  // A thousandth of a session, or of anything per second, is as exact as anybody reads.
  const read = unit === "sessions" || unit.startsWith("/") ? Number(number.toFixed(3)) : number;
  return scaled(read, unit, Math.abs(read));
}

/** The labels of an axis: all in the unit of the largest. */
export function levels(numbers: number[], unit: string): string[] {
  const largest = Math.max(...numbers.map(Math.abs));
  return numbers.map((number) => scaled(number, unit, largest));
}

/** A number in the unit that suits `size`. */
function scaled(number: number, unit: string, size: number): string {
  const per = unit.startsWith("/") ? unit : unit.includes("/") ? `/${unit.split("/")[1]}` : "";
  switch (unit.split("/")[0]) {
    case "bytes":
      return bytes(number, size, per ? RATE : SIZE) + per;
    case "share":
      return `${trim(number * 100)} %`;
    case "s":
      return duration(number, size);
    case "ms":
      return duration(number / 1000, size / 1000);
    case "time":
    case "moment":
      return `${day(number)} ${clock(number)}`;
    case "integer":
      return Math.round(number).toLocaleString("en");
    default:
      return compact(number, size) + per;
  }
}

function bytes(number: number, size: number, base: number): string {
  const place = size < base ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log(size) / Math.log(base) + 1e-9));
  return `${trim(number / base ** place)} ${BYTES[place]}`;
}

function duration(seconds: number, size: number): string {
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${trim(seconds * 1e6)} µs`;
  if (size < 1) return `${trim(seconds * 1e3)} ms`;
  if (size < 120) return `${trim(seconds)} s`;
  if (size < 7200) return `${trim(seconds / 60)} min`;
  if (size < 172_800) return `${trim(seconds / 3600)} h`;
  return `${trim(seconds / 86_400)} d`;
}

function compact(number: number, size: number): string {
  if (number === 0) return "0";
  if (size >= 1e9) return `${trim(number / 1e9)} bn`;
  if (size >= 1e6) return `${trim(number / 1e6)} M`;
  if (size >= 1e4) return `${trim(number / 1e3)} k`;
  return trim(number);
}

/** Three significant digits, or all digits of a larger whole number; no zeros at the end of a fraction. Too little to read is 0. */
function trim(number: number): string {
  if (Math.abs(number) < LEAST) return "0";
  return Math.abs(number) >= 100 ? Math.round(number).toString() : Number(number.toPrecision(3)).toString();
}

export function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/** A sample older than this many seconds is worth a warning. */
const STALE = 300;

export function stale(seconds: number): boolean {
  return seconds > STALE;
}

/** How long ago, in words. */
export function ago(seconds: number): string {
  return seconds < 5 ? "now" : `${value(Math.round(seconds), "s")} ago`;
}

/** Labels of a time axis whose ticks are `step` seconds apart; the first label of a day names the day. */
export function ticks(times: number[], step: number): string[] {
  return times.map((time, n) => {
    if (step >= 86_400) return day(time);
    const words = clock(time).slice(0, step < 60 ? 8 : 5);
    const begins = n === 0 || day(time) !== day(times[n - 1]!);
    return begins ? `${words}\n${day(time)} UTC` : words;
  });
}
