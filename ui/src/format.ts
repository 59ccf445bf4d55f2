/** Numbers in the units of charts and tables. Times are in UTC, like the server's log. */

const BINARY = ["bytes", "kB", "MB", "GB", "TB", "PB"];

export function value(number: number | null | undefined, unit: string): string {
  if (number === null || number === undefined || Number.isNaN(number)) return "–";
  const per = unit.startsWith("/") ? unit : unit.includes("/") ? `/${unit.split("/")[1]}` : "";
  switch (unit.split("/")[0]) {
    case "bytes":
      return bytes(number) + per;
    case "share":
      return `${trim(number * 100)} %`;
    case "s":
      return duration(number);
    case "ms":
      return duration(number / 1000);
    case "time":
    case "moment":
      return `${day(number)} ${clock(number)}`;
    case "integer":
      return Math.round(number).toLocaleString("en");
    default:
      return compact(number) + per;
  }
}

function bytes(number: number): string {
  let place = 0;
  while (Math.abs(number) >= 1024 && place < BINARY.length - 1) {
    number /= 1024;
    place += 1;
  }
  return `${trim(number)} ${BINARY[place]}`;
}

function duration(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${trim(seconds * 1e6)} µs`;
  if (size < 1) return `${trim(seconds * 1e3)} ms`;
  if (size < 120) return `${trim(seconds)} s`;
  if (size < 7200) return `${trim(seconds / 60)} min`;
  if (size < 172_800) return `${trim(seconds / 3600)} h`;
  return `${trim(seconds / 86_400)} d`;
}

function compact(number: number): string {
  const size = Math.abs(number);
  if (size >= 1e9) return `${trim(number / 1e9)} bn`;
  if (size >= 1e6) return `${trim(number / 1e6)} M`;
  if (size >= 1e4) return `${trim(number / 1e3)} k`;
  return trim(number);
}

/** Three significant digits, without zeros at the end. */
function trim(number: number): string {
  return Math.abs(number) >= 100 ? Math.round(number).toString() : Number(number.toPrecision(3)).toString();
}

export function day(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(0, 10);
}

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toISOString().slice(11, 19);
}

/** How long ago something was, in words. */
export function ago(seconds: number): string {
  return seconds < 5 ? "now" : `${duration(Math.round(seconds))} ago`;
}

/** Labels of a time axis whose ticks are `step` seconds apart; the day where it begins. */
export function ticks(times: number[], step: number): string[] {
  return times.map((time, n) => {
    if (step >= 86_400) return day(time);
    const words = clock(time).slice(0, step < 60 ? 8 : 5);
    const begins = n === 0 || day(time) !== day(times[n - 1]!);
    return begins ? `${words}\n${day(time)}` : words;
  });
}
