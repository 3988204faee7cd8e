// Beside the calendar: a small month to go by, and the calendars.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { CalendarEvent } from "../../jmap/calendar";
import { refusalIn, whyOf } from "../../jmap/client";
import { changing, keyOf, mayWrite, readCalendars, refresh, revision, shelves, viewZone, weekStart, type Shelf } from "../../state/calendars";
import { addDays, addMonths, startOfMonth, startOfWeek, type Day } from "../../state/days";
import { colourOf } from "../../state/hue";
import { hues, type Hue } from "../../state/own";
import { offersFeeds, subscribeTo } from "../../state/feeds";
import { openMenu, say, sheet, sideOpen } from "../../state/screen";
import { identities } from "../../state/outgoing";
import { goQuery } from "../../state/route";
import { attempt, client, home } from "../../state/session";
import { readUnanswered, unanswered } from "../../state/unanswered";
import { instant, isZone, localTime } from "../../state/zone";
import { refusal, t } from "../../text";
import { ta } from "../../text/labels";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { Icon } from "../icons";
import { feedOf, newEvent } from "./open";
import { TaskLists } from "./tasklists";
import { newTask } from "./taskopen";
import { day, days, dayText, showView, today, view } from "./view";

export function CalendarSide() {
  const owners = [...new Set(shelves.value.map((s) => s.owner))];
  return (
    <nav class={`side ${sideOpen.value ? "open" : ""}`} aria-label={tk("calendars")}>
      {view.value === "tasks"
        ? <button class="button primary compose" onClick={() => { sideOpen.value = false; newTask(); }} title={`${tt("newTask")} (n)`}><Icon name="write" /><span>{tt("newTask")}</span></button>
        : <button class="button primary compose" onClick={() => { sideOpen.value = false; void newEvent(day.value); }} title={`${tk("newEvent")} (n)`}><Icon name="write" /><span>{tk("newEvent")}</span></button>}
      <SmallMonth />
      <Invitations />
      {owners.map((owner) => (
        <>
          <div class="side-title">{owner || tk("calendars")}{owner === "" && <button class="tool" aria-label={tk("newCalendar")} title={tk("newCalendar")} onClick={(e) => addMenu(e.currentTarget)}><Icon name="plus" /></button>}</div>
          <ul class="folders shelves">{shelves.value.filter((s) => s.owner === owner).map((s) => <Line key={`${s.account}/${s.id}`} s={s} />)}</ul>
        </>
      ))}
      <TaskLists />
    </nav>
  );
}

/** The invitations that wait for an answer: each leads to its day, and opens there. */
function Invitations() {
  useEffect(() => void readUnanswered(), [revision.value, identities.value.length]);
  if (unanswered.value.length === 0) return null;
  const local = (e: CalendarEvent) => (isZone(e.timeZone) && !e.showWithoutTime ? localTime(instant(e.start, e.timeZone), viewZone.value) : e.start);
  const show = (e: CalendarEvent) => {
    sideOpen.value = false;
    showView(view.value === "tasks" ? "agenda" : view.value, local(e).slice(0, 10));
    if (!e.recurrenceRules) goQuery({ event: keyOf(home.value, e.id) }, true);
  };
  return (
    <>
      <div class="side-title">{tk("toAnswer")}</div>
      <ul class="folders">{unanswered.value.map((e) => (
        <li key={e.id}><button class="folder unanswered" onClick={() => show(e)} title={e.title || tk("noTitle")}><Icon name="unread" /><span class="name" dir="auto">{e.title || tk("noTitle")}</span><span class="quiet">{dayText(local(e).slice(0, 10), { month: "short", day: "numeric" })}</span></button></li>
      ))}</ul>
    </>
  );
}

function SmallMonth() {
  const month = useSignal<Day | null>(null);
  const shown = month.value ?? startOfMonth(day.value);
  const first = startOfWeek(shown, weekStart.value);
  const there = new Set(days.value);
  const step = (n: number) => (month.value = addMonths(shown, n));
  const list = Array.from({ length: 42 }, (_, i) => addDays(first, i));
  return (
    <div class="small-month">
      <div class="small-head">
        <b aria-live="polite">{dayText(shown, { month: "long", year: "numeric" })}</b>
        <button class="tool" aria-label={tk("previous")} onClick={() => step(-1)}><Icon name="back" /></button>
        <button class="tool" aria-label={tk("next")} onClick={() => step(1)}><Icon name="next" /></button>
      </div>
      <div class="small-days">
        {list.slice(0, 7).map((d) => <span key={d} aria-hidden="true">{dayText(d, { weekday: "narrow" })}</span>)}
        {list.map((d) => (
          <button key={d} class={`${d.slice(0, 7) === shown.slice(0, 7) ? "" : "outside"} ${there.has(d) && view.value !== "month" && view.value !== "agenda" ? "in-view" : ""}`} aria-label={dayText(d)} aria-current={d === today.value ? "date" : undefined} aria-pressed={d === day.value} onClick={() => { month.value = null; sideOpen.value = false; showView(view.value === "tasks" ? "day" : view.value, d); }}>{Number(d.slice(8))}</button>
        ))}
      </div>
    </div>
  );
}

function Line({ s }: { s: Shelf }) {
  return (
    <li class="shelf" style={{ "--hue": s.hue }}>
      <label><input type="checkbox" checked={s.isVisible} onChange={(e) => void set(s, { isVisible: e.currentTarget.checked })} /><span class="name">{s.name}</span>{!mayWrite(s) && <Icon name="lock" />}</label>
      <button class="tool" aria-label={tk("calendarMenu", s.name)} title={tk("calendarMenu", s.name)} onClick={(e) => shelfMenu(e.currentTarget, s)}><Icon name="more" /></button>
    </li>
  );
}

/** Changes calendars: on the screen at once. Why the server refused it, if it did. */
async function setCalendar(account: string, args: Record<string, unknown>): Promise<string | undefined> {
  try {
    const answer = await attempt(() => client.call("Calendar/set", { accountId: account, ...args }));
    if (!answer) return tk("offlineChange");
    const bad = refusalIn(answer);
    await readCalendars();
    return bad && t("refusedByServer", whyOf(bad));
  } catch (e) {
    return refusal(e);
  }
}

async function set(s: Shelf, change: Partial<Pick<Shelf, "isVisible" | "name" | "color">>): Promise<void> {
  shelves.value = shelves.value.map((x) => (x.account === s.account && x.id === s.id ? { ...x, ...change } : x));
  const problem = await changing.during(keyOf(s.account, s.id), change, () => setCalendar(s.account, { update: { [s.id]: change } }));
  if (!problem) return;
  const back = Object.fromEntries(Object.keys(change).map((k) => [k, s[k as keyof Shelf]]));
  shelves.value = shelves.value.map((x) => (x.account === s.account && x.id === s.id ? changing.of(keyOf(x.account, x.id), { ...x, ...back }) : x));
  say(problem);
}

function addMenu(at: Element): void {
  if (!offersFeeds()) return newCalendar();
  return openMenu(at, [{ text: tk("newCalendar"), icon: "calendar", run: newCalendar }, { text: tk("feedSubscribe"), icon: "link", run: subscribe }]);
}

function subscribe(): void {
  sheet.value = {
    kind: "ask", title: tk("feedSubscribe"), text: tk("feedAddress"), yes: tk("feedSubscribeNow"), input: "",
    done: async (address) => {
      if (typeof address !== "string" || !address.trim()) return tk("feedAddress");
      const why = await subscribeTo(address.trim());
      if (why === undefined) {
        await readCalendars();
        say(tk("feedSubscribed"));
        return undefined;
      }
      return why ? t("refusedByServer", why) : tk("offlineChange");
    },
  };
}

function newCalendar(): void {
  sheet.value = {
    kind: "ask", title: tk("newCalendar"), text: tk("calendarName"), yes: t("save"), input: "",
    done: (name) => typeof name === "string" && name.trim() && setCalendar(home.value, { create: { c: { name: name.trim(), color: colourOf(unusedHue()) } } }),
  };
}

/** A hue that no calendar has yet. */
function unusedHue(): Hue {
  const names = Object.keys(hues) as Hue[];
  const near = (h: Hue) => shelves.value.filter((s) => Math.abs(s.hue - hues[h]) < 12).length;
  return names.sort((a, b) => near(a) - near(b))[0]!;
}

function shelfMenu(at: Element, s: Shelf): void {
  openMenu(at, [
    ...(s.owner === "" ? [{ text: tk("renameCalendar"), icon: "drafts", run: () => (sheet.value = {
      kind: "ask", title: tk("renameCalendar"), text: tk("calendarName"), yes: t("save"), input: s.name,
      done: (name) => { if (typeof name === "string" && name.trim()) void set(s, { name: name.trim() }); },
    }) }, { text: `${tk("colour")} …`, icon: "label", run: () => openMenu(at, (Object.keys(hues) as Hue[]).map((h) => ({ text: ta(h), icon: "calendar", hue: hues[h], run: () => void set(s, { color: colourOf(h) }) }))) }] : []),
    ...(mayWrite(s) ? [{ text: tk("importEvents"), icon: "plus", run: () => void import("./files").then((m) => m.importEvents(s)) }] : []),
    ...(offersFeeds() ? [{ text: `${tk("feedMenu")} …`, icon: "link", run: () => (feedOf.value = s) }] : []),
    { text: tk("exportCalendar"), icon: "download", run: () => void import("./files").then((m) => m.exportCalendar(s)) },
    ...(s.myRights.mayDelete && !s.isDefault ? [{ text: tk("deleteCalendar"), icon: "trash", run: () => (sheet.value = {
      kind: "ask", title: tk("deleteCalendar"), text: tk("deleteCalendarAsk", s.name), yes: t("delete"), danger: true,
      done: () => setCalendar(s.account, { destroy: [s.id], onDestroyRemoveEvents: true }).then((p) => { void refresh(); return p; }),
    }) }] : []),
  ]);
}
