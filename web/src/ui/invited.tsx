// Invitations as mail shows them: those that wait in the calendar, and what else is at the time of one that came by mail.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { span, viewZone } from "../state/calendars";
import { addressOf, conflictsOf, type Conflict } from "../state/conflicts";
import type { Event } from "../state/invitation";
import { identities } from "../state/outgoing";
import { client, online } from "../state/session";
import { readUnanswered, unanswered } from "../state/unanswered";
import { language, count } from "../text";
import { ti } from "../text/invitation";
import { Icon } from "./icons";

/** The least pause before invitations are asked for again, in milliseconds. */
const pause = 60_000;
let asked = 0;

function ask(): void {
  const now = client.now().getTime();
  if (!online.peek() || document.visibilityState === "hidden" || Math.abs(now - asked) < pause) return;
  asked = now;
  void readUnanswered();
}

/** The invitations that wait for an answer, read when the page is opened and when one comes back to it; it leads to the next of them. */
export function Invited() {
  useEffect(() => {
    if (identities.value.length > 0) ask();
  }, [identities.value.length, online.value]);
  useEffect(() => {
    const back = ["focus", "pageshow"] as const;
    for (const e of back) addEventListener(e, ask);
    document.addEventListener("visibilitychange", ask);
    return () => {
      for (const e of back) removeEventListener(e, ask);
      document.removeEventListener("visibilitychange", ask);
    };
  }, []);
  const [next] = unanswered.value;
  if (!next) return null;
  const n = unanswered.value.length;
  const words = n === 1 ? ti("waitOne") : ti("waitMany", n);
  return (
    <a class="folder invited" href={addressOf(next.id, span(next, viewZone.value).from, !!next.recurrenceRules)} title={words} aria-label={words}>
      <Icon name="calendar" /><span class="name">{ti("waiting")}</span><span class="count">{count(n)}</span>
    </a>
  );
}

/** The time of an event; the days of one that is not of one day. */
function when({ from, to, wholeDay }: Conflict): string {
  if (wholeDay) return ti("wholeDay");
  const zone = { timeZone: viewZone.value };
  const day = (at: number) => new Intl.DateTimeFormat("en", { dateStyle: "short", ...zone }).format(at);
  const time: Intl.DateTimeFormatOptions = { hour: "numeric", minute: "2-digit", ...zone };
  return new Intl.DateTimeFormat(language.value, day(from) === day(to) ? time : { month: "short", day: "numeric", ...time }).formatRange(from, to);
}

/** Shows the other events at the time of an invitation. */
export function Conflicts({ e }: { e: Event }) {
  const list = useSignal<Conflict[] | undefined>(undefined);
  useEffect(() => void conflictsOf(e).then((found) => (list.value = found)), [e]);
  if (!list.value) return null;
  if (list.value.length === 0) return <p class="quiet free-then"><Icon name="check" />{ti("freeThen")}</p>;
  return (
    <div class="conflicts">
      <p><Icon name="warning" />{ti("sameTime")}</p>
      <ul>{list.value.map((c) => <li key={c.id}><span class="quiet">{when(c)}</span> <a href={addressOf(c.id, c.from)} dir="auto">{c.title || ti("noTitle")}</a></li>)}</ul>
    </div>
  );
}
