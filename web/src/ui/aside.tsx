// Messages put aside: snoozed until a time, pinned, or of a muted conversation.

import { useEffect } from "preact/hooks";
import { refusalIn, whyOf } from "../jmap/client";
import type { Id, Message } from "../jmap/types";
import { chosen, done, here, keyword, moveTo, ofThreads } from "../state/actions";
import { change } from "../state/change";
import { byRole } from "../state/mailboxes";
import { rows } from "../state/messages";
import { sync } from "../state/sync";
import { openMenu, say, sheet } from "../state/screen";
import { account, attempt, client, home } from "../state/session";
import { hasPins, muted, pin, remindedAt, snoozedUntil } from "../state/view";
import { fullDate, language, refusal, shortTime, t } from "../text";
import { tz } from "../text/aside";

/** A clear hour of a day from now. */
const at = (now: Date, days: number, hour: number) => new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);

const dayAndTime = (d: Date) => new Intl.DateTimeFormat(language.value, { weekday: "short", hour: "numeric", minute: "2-digit" }).format(d);

/** The times that are offered: in three hours if that is before the evening, tomorrow, Saturday, Monday. */
export function offered(now = client.now()): { name: "laterToday" | "tomorrow" | "weekend" | "nextWeek"; at: Date }[] {
  const soon = new Date(now.getFullYear(), now.getMonth(), now.getDate(), now.getHours() + 3);
  const day = now.getDay();
  return [
    ...(soon.getDate() === now.getDate() && soon.getHours() <= 20 ? [{ name: "laterToday", at: soon } as const] : []),
    { name: "tomorrow", at: at(now, 1, 8) },
    ...(day > 0 && day < 5 ? [{ name: "weekend", at: at(now, 6 - day, 9) } as const] : []),
    { name: "nextWeek", at: at(now, (8 - day) % 7 || 7, 8) },
  ];
}

/** Changes the snoozed messages at the server, and reads them; false: it was not reached. */
async function setSnoozed(args: Record<string, unknown>): Promise<boolean> {
  try {
    const answer = await attempt(() => client.call("SnoozedEmail/set", { accountId: home.value, ...args }));
    if (!answer) return say(t("cannotReach")), false;
    const problem = refusalIn(answer);
    if (problem) say(t("refusedByServer", whyOf(problem)));
    await sync();
    return !problem;
  } catch (e) {
    return say(refusal(e)), false;
  }
}

/** Reads the times of snoozed messages and reminders. */
export async function readSnoozed(): Promise<void> {
  const answer = await attempt(() => client.call("SnoozedEmail/get", { accountId: home.value, ids: null })).catch(() => undefined);
  if (!answer) return;
  const list = answer["list"] as { id: Id; until: string; unlessAnswered: boolean }[];
  const times = (reminders: boolean) => new Map(list.filter((s) => s.unlessAnswered === reminders).map((s) => [s.id, s.until]));
  snoozedUntil.value = times(false);
  remindedAt.value = times(true);
}

async function snooze(ids: Id[], until: Date): Promise<void> {
  const utc = until.toISOString().replace(/\.\d+Z$/u, "Z");
  if (!(await setSnoozed({ update: Object.fromEntries(ids.map((id) => [id, { until: utc }])) }))) return;
  snoozedUntil.value = new Map([...snoozedUntil.value, ...ids.map((id): [string, string] => [id, utc])]);
  done();
  say(tz("snoozed", fullDate(utc)), { text: t("undo"), run: () => void wake(ids) });
}

async function wake(ids: Id[]): Promise<void> {
  if (await setSnoozed({ destroy: ids })) say(tz("notSnoozed"));
}

/** Asks until when messages are to be snoozed. */
export function askSnooze(ids = chosen(), anchor: Element | null = document.querySelector(".row.at") ?? document.querySelector(".read .bar")): void {
  const of = account.value === home.value ? here(ids) : [];
  if (of.length === 0) return;
  const choose = () => (sheet.value = {
    kind: "ask", title: tz("snooze"), text: tz("pickAsk"), yes: tz("snooze"), input: "", type: "datetime-local",
    done: (text) => {
      const when = new Date(String(text));
      if (!(when > client.now())) return tz("badTime");
      sheet.value = null;
      void snooze(of, when);
      return undefined;
    },
  });
  const box = anchor?.getBoundingClientRect();
  openMenu(box ? { left: box.left + 60, bottom: Math.min(box.bottom, innerHeight - 200) } : { left: 100, bottom: 100 }, [
    ...offered().map((o) => ({ text: tz(o.name, o.name === "laterToday" || o.name === "tomorrow" ? shortTime(o.at) : dayAndTime(o.at)), icon: "clock", run: () => void snooze(of, o.at) })),
    { text: tz("pick"), icon: "clock", run: choose },
  ]);
}

/** Shows the time at which an opened message comes back. */
export function Asleep({ m }: { m: Message }) {
  const until = snoozedUntil.value.get(m.id);
  useEffect(() => {
    if (!until) void readSnoozed();
  }, [m.id]);
  if (!until) return null;
  return (
    <div class="notice" role="note">{tz("comesBack", fullDate(until))}
      <button class="button" onClick={() => void wake([m.id])}>{tz("now")}</button>
      <button class="button" onClick={(e) => askSnooze([m.id], e.currentTarget)}>{tz("other")}</button>
    </div>
  );
}

/** Sets or removes the reminder of a message. */
async function putReminder(id: Id, to: Date | null): Promise<void> {
  const utc = to?.toISOString().replace(/\.\d+Z$/u, "Z");
  if (!(await setSnoozed(utc ? { update: { [id]: { until: utc, unlessAnswered: true } } } : { destroy: [id] }))) return;
  await readSnoozed();
  say(utc ? tz("reminds", fullDate(utc)) : tz("noReminder"));
}

/** Asks when to remind of a message that nobody answers. */
export function remind(id: Id): void {
  if (account.value === home.value) askReminder(document.querySelector(".read .bar") ?? document.body, (days) => void putReminder(id, at(client.now(), days, 8)));
}

/** Shows the reminder of an opened message, with a way to remove it. */
export function Reminder({ m }: { m: Message }) {
  useEffect(() => void readSnoozed(), [m.id]);
  const when = remindedAt.value.get(m.id);
  if (!when) return null;
  return <div class="notice" role="note">{tz("reminds", fullDate(when))}<button class="button" onClick={() => void putReminder(m.id, null)}>{tz("removeReminder")}</button></div>;
}

const waits = { in2Days: 2, in4Days: 4, inAWeek: 7, inTwoWeeks: 14 } as const;

/** Asks after how many days a reminder comes. */
export function askReminder(button: Element, put: (days: number) => void): void {
  openMenu(button, (Object.keys(waits) as (keyof typeof waits)[]).map((name) => ({ text: tz(name), icon: "clock", run: () => put(waits[name]) })));
}

/** Pins messages on top of their lists, or takes the pins away. */
export async function togglePin(ids = chosen()): Promise<void> {
  if (ids.length === 0) return;
  const on = !ids.some((id) => rows.value.get(id)?.keywords[pin]);
  // One message carries the pin of its conversation.
  if (on) hasPins.value = true;
  await keyword(pin, on, on ? ids.slice(-1) : ids);
}

/** Mutes conversations, of which new mail is archived then, or ends that. */
export async function toggleMute(ids = chosen()): Promise<void> {
  const all = ofThreads(ids);
  if (all.length === 0) return;
  const on = !all.some((id) => rows.value.get(id)?.keywords[muted]);
  const inbox = byRole("inbox")?.id ?? "";
  await keyword(muted, on, all);
  if (on) await keyword("$seen", true, all);
  const archive = byRole("archive");
  const inInbox = all.filter((id) => rows.value.get(id)?.mailboxIds[inbox]);
  if (on && archive && inInbox.length > 0) return moveTo(archive.id, inInbox, tz("muted"));
  say(tz(on ? "muted" : "unmuted"), { text: t("undo"), run: () => void change(Object.fromEntries(all.map((id) => [id, { [`keywords/${muted}`]: on ? null : true }]))) });
}
