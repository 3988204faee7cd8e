// Free time: when the people of an event are busy on its day, and at its time.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Address } from "../../jmap/types";
import { askBusy, busyAt, nextFree, type Asked, type Busy, type BusyTimes } from "../../state/busy";
import { viewZone } from "../../state/calendars";
import { addDays, weekday, type Day } from "../../state/days";
import { client, online, retryPause } from "../../state/session";
import { nameOrAddress } from "../../state/shown";
import { instant, localTime } from "../../state/zone";
import { language, t } from "../../text";
import { tk } from "../../text/calendar";
import { dayText, formatter, timeRange } from "./view";

/** The hours of the grid, and so many days are looked ahead for a time that suits all. */
const firstHour = 7;
const lastHour = 20;
const ahead = 7;

const list = (names: string[]) => new Intl.ListFormat(language.value, { type: "conjunction" }).format(names);

/** Reports if a moment is on a working day between 8 and 18. */
function isWork(at: number): boolean {
  const local = localTime(at, viewZone.peek());
  const hour = Number(local.slice(11, 13));
  return hour >= 8 && hour < 18 && weekday(local.slice(0, 10)) % 6 !== 0;
}

interface Props {
  people: Address[];
  me: Address;
  /** When the event is; its own time is no conflict while it stays there. */
  from: number;
  to: number;
  /** The event that is being changed: its organizer and guests are busy with it. */
  own: { from: number; to: number } | null;
  move: (from: number) => void;
}

export function FreeTimes({ people, me, from, to, own, move }: Props) {
  /** The last answer, and the question that it is to; without times, the server could not be reached. */
  const last = useSignal<Partial<Asked> & { to: string }>({ to: "" });
  const day = localTime(from, viewZone.value).slice(0, 10);
  const who = [me, ...people.filter((a) => a.email.toLowerCase() !== me.email.toLowerCase())];
  const key = `${day} ${who.map((a) => a.email).join()}`;
  useEffect(() => {
    if (!online.value && last.peek().to === key && !last.peek().times) return undefined; // it is asked again when the server answers
    let there = true;
    let later: ReturnType<typeof setTimeout> | undefined;
    const ask = () => void askBusy(who, instant(`${day}T00:00:00`, viewZone.value), instant(`${addDays(day, ahead)}T00:00:00`, viewZone.value)).then((found) => {
      if (!there) return;
      last.value = { to: key, ...found };
      if (!found && online.peek()) later = setTimeout(ask, Math.max(retryPause, client.pause));
    });
    ask();
    return () => {
      there = false;
      clearTimeout(later);
    };
  }, [key, online.value]);
  const { times, away } = last.value;
  const isTold = last.value.to === key && !!times;
  const others: BusyTimes = new Map([...(times ?? [])].map(([e, l]) => [e, l?.filter((b) => !own || b.from !== own.from || b.to !== own.to) ?? null]));
  const nameOf = (email: string) => (email === me.email.toLowerCase() ? tk("me") : nameOrAddress(who.find((a) => a.email.toLowerCase() === email) ?? { name: null, email }));
  const busy = busyAt(others, from, to).map(nameOf);
  const unknown = [...others].filter(([, l]) => l === null).map(([e]) => nameOf(e));
  const end = instant(`${addDays(day, ahead)}T00:00:00`, viewZone.value);
  const free = isTold && busy.length > 0 ? nextFree(others, from, to - from, end, isWork) : undefined;
  return (
    <section class="free-times" aria-label={tk("freeTime")}>
      <h3>{tk("freeTimeOf", dayText(day))}</h3>
      <div class="free-grid" role="list" tabIndex={0} aria-label={tk("freeTime")}>
        <div class="free-row free-hours" aria-hidden="true"><span /><div>{Array.from({ length: lastHour - firstHour }, (_, i) => <span key={i}>{formatter({ hour: "numeric", timeZone: "UTC" }).format(Date.UTC(2026, 0, 1, firstHour + i))}</span>)}</div></div>
        {who.map((a) => <Row key={a.email} name={nameOf(a.email.toLowerCase())} busy={others.get(a.email.toLowerCase()) ?? []} unknown={others.get(a.email.toLowerCase()) === null} isTold={isTold} day={day} from={from} to={to} />)}
      </div>
      <p class={busy.length > 0 ? "said" : "quiet"} role="status">
        {busy.length > 0 ? tk("conflict", list(busy)) : last.value.to !== key ? t("loading") : !times ? t("cannotReach") : unknown.length < who.length ? tk("noConflict") : ""}{" "}
        {unknown.length > 0 && tk("unknownTimes", list(unknown))}
        {free !== undefined && <button type="button" class="chip" onClick={() => move(free)}>{tk("suggest", `${dayText(localTime(free, viewZone.value).slice(0, 10), { weekday: "short", day: "numeric", month: "short" })}, ${timeRange(free, free + to - from)}`)}</button>}
      </p>
      {[...(away ?? [])].map(([email, at]) => <p key={email} class="quiet" role="note">{at === null ? tk("awayUnknown", nameOf(email)) : tk("awaySince", nameOf(email), whenAway(at))}</p>)}
    </section>
  );
}

/** The time of a moment, with its day unless that is today. */
function whenAway(at: number): string {
  const day = (t: number) => localTime(t, viewZone.peek()).slice(0, 10);
  const time = { hour: "numeric", minute: "2-digit", timeZone: viewZone.peek() } as const;
  return formatter(day(at) === day(Date.now()) ? time : { ...time, day: "numeric", month: "short" }).format(at);
}

function Row({ name, busy, unknown, isTold, day, from, to }: { name: string; busy: Busy[]; unknown: boolean; isTold: boolean; day: Day; from: number; to: number }) {
  const begin = instant(`${day}T${String(firstHour).padStart(2, "0")}:00:00`, viewZone.value);
  const whole = (lastHour - firstHour) * 3_600_000;
  const part = (a: number, b: number) => ({ "--from": Math.max(0, Math.min(1, (a - begin) / whole)), "--to": Math.max(0, Math.min(1, (b - begin) / whole)) });
  const today = busy.filter((b) => b.from < begin + whole && b.to > begin);
  return (
    <div class="free-row" role="listitem" aria-label={unknown ? tk("unknownTimes", name) : today.length > 0 ? tk("busyFrom", name, list(today.map((b) => timeRange(b.from, b.to)))) : isTold ? `${name}: ${tk("free")}` : name}>
      <span>{name}</span>
      <div class={unknown ? "unknown" : ""}>{today.map((b) => <i key={b.from} class={b.tentative ? "tentative" : ""} style={part(b.from, b.to)} />)}<b style={part(from, to)} /></div>
    </div>
  );
}
