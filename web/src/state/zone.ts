// Time zones: what clocks in a zone show at a moment, and the moment at which they show a local time.

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let f = formats.get(zone);
  if (!f) formats.set(zone, (f = new Intl.DateTimeFormat("en-GB", { timeZone: zone, year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric", hourCycle: "h23" })));
  return f;
}

/** The local time of a moment in milliseconds, as if the zone were UTC. */
function wall(at: number, zone: string): number {
  const of = Object.fromEntries(formatOf(zone).formatToParts(at).map((p) => [p.type, Number(p.value)])) as Record<string, number>;
  return Date.UTC(of["year"]!, of["month"]! - 1, of["day"], of["hour"], of["minute"], of["second"]);
}

/** Reports if this browser knows a time zone. */
export function isZone(name: string | null | undefined): name is string {
  try {
    formatOf(name ?? "");
    return !!name;
  } catch {
    return false;
  }
}

/** The moment, in milliseconds, at which clocks in a zone show a local time. */
export function instant(local: string, zone: string): number {
  const wanted = Date.parse(`${local}Z`);
  const guess = wanted - (wall(wanted, zone) - wanted);
  return wanted - (wall(guess, zone) - guess);
}

/** The local time that clocks in a zone show at a moment, to the second: "2026-11-26T09:30:00". */
export const localTime = (at: number, zone: string): string => new Date(wall(Math.floor(at / 1000) * 1000, zone)).toISOString().slice(0, 19);

/** The zone of this browser. */
export const browserZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone || "Etc/UTC";

/** The last part of a zone's name, for people: "New York". */
export const zoneName = (zone: string): string => zone.split("/").pop()!.replaceAll("_", " ");
