// Days of the calendar as text, "2026-11-26": they sort, and have no time zone.

export type Day = string;

const dayLength = 86_400_000;
const at = (d: Day) => Date.parse(`${d}T00:00:00Z`);
const dayAt = (ms: number): Day => new Date(ms).toISOString().slice(0, 10);

/** Reports if a text names a day between the years 1900 and 2199. */
export const isDay = (s: string | undefined): s is Day => /^(?:19|20|21)\d\d-\d\d-\d\d$/u.test(s ?? "") && !Number.isNaN(at(s!)) && dayAt(at(s!)) === s;

export const addDays = (d: Day, n: number): Day => dayAt(at(d) + n * dayLength);
export const daysBetween = (from: Day, to: Day): number => Math.round((at(to) - at(from)) / dayLength);
/** The day of the week, 0 for Sunday. */
export const weekday = (d: Day): number => new Date(at(d)).getUTCDay();

/** The day n months on; the 31st becomes the last of a shorter month. */
export function addMonths(d: Day, n: number): Day {
  const [year, month, day] = d.split("-").map(Number) as [number, number, number];
  const last = new Date(Date.UTC(year, month - 1 + n + 1, 0)).getUTCDate();
  return dayAt(Date.UTC(year, month - 1 + n, Math.min(day, last)));
}

export const startOfWeek = (d: Day, first: number): Day => addDays(d, -((weekday(d) - first + 7) % 7));
export const startOfMonth = (d: Day): Day => `${d.slice(0, 7)}-01`;

/** n days from one on. */
export const daysFrom = (d: Day, n: number): Day[] => Array.from({ length: n }, (_, i) => addDays(d, i));

/** The number of the week, by ISO 8601: week 1 has the first Thursday of the year. */
function weekNumber(d: Day): number {
  const thursday = addDays(startOfWeek(d, 1), 3);
  return 1 + Math.floor(daysBetween(`${thursday.slice(0, 4)}-01-01`, thursday) / 7);
}

/** The number of the week that days are in: that of their Thursday, however weeks begin. */
export const weekNumberOf = (list: Day[]): number => weekNumber(list.find((d) => weekday(d) === 4) ?? list[0]!);

/** The weeks that a month's page shows, whole ones: 4 to 6. */
export function weeksOfMonth(d: Day, first: number): Day[][] {
  const out: Day[][] = [];
  const month = d.slice(0, 7);
  for (let w = startOfWeek(startOfMonth(d), first); w.slice(0, 7) <= month; w = addDays(w, 7)) out.push(daysFrom(w, 7));
  return out;
}

/** The date of a day for Intl formats, whose timeZone must be UTC. */
export const dateOf = (d: Day): Date => new Date(at(d));

const durationForm = /^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$/u;

/** The days and milliseconds of a duration (RFC 8984 §1.4.6); a day may have 23 or 25 hours. */
export function parseDuration(s: string | undefined): { days: number; ms: number } {
  const [, w, d, h, m, sec] = durationForm.exec(s ?? "") ?? [];
  const n = (x: string | undefined) => Number(x ?? 0);
  return { days: n(w) * 7 + n(d), ms: (n(h) * 60 + n(m)) * 60_000 + n(sec) * 1000 };
}

/** A duration of whole minutes: "PT1H30M". */
export function formatDuration(minutes: number): string {
  const h = Math.floor(minutes / 60), m = minutes % 60;
  return minutes === 0 ? "PT0S" : `PT${h > 0 ? `${h}H` : ""}${m > 0 ? `${m}M` : ""}`;
}
