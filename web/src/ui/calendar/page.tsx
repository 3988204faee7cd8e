// The page of the calendar.

import "../../look/calendar.css";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { capability, eventOf, loading, missing, openCalendars, shelves, showDays, viewZone } from "../../state/calendars";
import { closeQuery, route } from "../../state/route";
import { narrow, say, sheet, sideOpen } from "../../state/screen";
import { offers } from "../../state/session";
import { openTasks, showTaskDays } from "../../state/tasks";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import { tt } from "../../text/tasks";
import { Ask, Frame, Menu, Toasts } from "../above";
import { Icon } from "../icons";
import { KeyList, listenToKeys } from "../keys";
import { lazy } from "../lazy";
import { Switch, Top } from "../top";
import { Unsaved } from "../unsaved";
import { Agenda } from "./agenda";
import { EventCard } from "./card";
import { TimeGrid } from "./grid";
import { covered, keys } from "./keys";
import { Month } from "./month";
import { asking, begun, editEvent, feedOf, newEvent, opened } from "./open";
import { QuickEntry } from "./quick";
import { CalendarSide } from "./side";
import { daysTake } from "./taskdrag";
import { newTask } from "./taskopen";
import { QuickTaskEntry, Tasks } from "./tasks";
import { day, days, heading, paged, showView, today, view, viewName, views } from "./view";
import type { Scope } from "../../state/events";

const Editor = lazy(() => import("./editor").then((m) => m.Editor));
const TaskEditor = lazy(() => import("./taskeditor").then((m) => m.TaskEditor));
const FeedSheet = lazy(() => import("./feeds").then((m) => m.FeedSheet));
const Settings = lazy(() => import("../settings").then((m) => m.Settings));

export function CalendarPage() {
  useEffect(() => void openCalendars().then(show), []);
  useLayoutEffect(() => listenToKeys(keys, covered), []); // before it is seen: no key is lost
  useEffect(() => { document.title = `${tk("calendar")} – ${t("appName")}`; }, [view.value]);
  useEffect(() => { if (shelves.value.length > 0) show(); }, [days.value[0], days.value.length, viewZone.value, shelves.value.length === 0]);
  useEffect(reopen, [route.value.query["edit"], shelves.value.length === 0]);
  return (
    <div class="frame calendar">
      <Top page="calendar">{view.value === "tasks" ? <QuickTaskEntry /> : <QuickEntry />}</Top>
      {sideOpen.value && <button class="veil" aria-label={t("close")} onClick={() => (sideOpen.value = false)} />}
      <CalendarSide />
      <main class="pane calendar-view" {...daysTake} aria-busy={loading.value}>
        <Bar />
        {!offers(capability) && <p class="notice">{tk("notOffered")}</p>}
        {days.value.some((d) => missing.value.has(d.slice(0, 7))) && <p class="notice" role="status">{tk("offlineMonth")}</p>}
        <Unsaved types={["CalendarEvent", "Task"]} />
        <Shown />
      </main>
      {narrow.value && (view.value === "tasks"
        ? <button class="button primary float" aria-label={tt("newTask")} onClick={newTask}><Icon name="write" /></button>
        : <button class="button primary float" aria-label={tk("newEvent")} onClick={() => void newEvent(day.value)}><Icon name="write" /></button>)}
      {narrow.value && <Switch page="calendar" />}
      <Layers />
      <Menu />
      <Toasts />
    </div>
  );
}

function show(): void {
  void showDays(days.peek()[0]!, days.peek().at(-1)!);
  void openTasks().then(() => showTaskDays(days.peek()[0]!, days.peek().at(-1)!));
}

/** The editor of an address that was opened anew: it is read again; a new event has nothing to go on with. */
function reopen(): void {
  const key = route.value.query["edit"];
  if (!key || begun.value || shelves.value.length === 0) {
    if (!key) begun.value = null;
    return;
  }
  if (key === "new") return void newEvent(day.value);
  void showDays(days.peek()[0]!, days.peek().at(-1)!).then(() => {
    const s = eventOf(key);
    if (s) return editEvent(s);
    closeQuery("edit");
    return void say(tk("gone"));
  });
}

function Shown() {
  if (view.value === "month") return <Month />;
  if (view.value === "agenda") return <Agenda />;
  if (view.value === "tasks") return <Tasks />;
  return <TimeGrid key={view.value} />;
}

function Bar() {
  return (
    <div class="bar calendar-bar">
      <button class="tool menu-tool" aria-label={t("menu")} onClick={() => (sideOpen.value = true)}><Icon name="menu" /></button>
      {view.value !== "tasks" && <><button class={narrow.value ? "tool" : "button"} aria-label={tk("today")} title={`${tk("today")} (t)`} onClick={() => showView(view.value, today.value)}>{narrow.value ? <Icon name="calendar" /> : tk("today")}</button>
      <button class="tool" aria-label={tk("previous")} title={`${tk("previous")} (k)`} onClick={() => showView(view.value, paged(-1))}><Icon name="back" /></button>
      <button class="tool" aria-label={tk("next")} title={`${tk("next")} (j)`} onClick={() => showView(view.value, paged(1))}><Icon name="next" /></button></>}
      <h1 aria-live="polite">{heading()}</h1>
      {narrow.value ? (
        <select class="view-select" aria-label={tk("views")} value={view.value} onChange={(e) => showView(e.currentTarget.value as typeof view.value, day.value)}>{views.map((v) => <option key={v} value={v}>{viewName(v)}</option>)}</select>
      ) : (
        <div class="segments" role="group" aria-label={tk("views")}>{views.map((v) => <button key={v} aria-pressed={view.value === v} onClick={() => showView(v, day.value)}>{viewName(v)}</button>)}</div>
      )}
      <button class="tool only-wide" aria-label={tk("print")} title={tk("print")} onClick={() => print()}><Icon name="print" /></button>
    </div>
  );
}

/** The layers above the view. */
function Layers() {
  const s = sheet.value;
  const edit = route.value.query["edit"];
  const event = opened();
  return (
    <>
      {event && !edit && <EventCard s={event} />}
      {edit && begun.value && <Editor key={edit} of={begun.value} shown={eventOf(edit)} />}
      {route.value.query["task"] && <TaskEditor of={route.value.query["task"]} />}
      {asking.value && <AskScope />}
      {feedOf.value && <FeedSheet of={feedOf.value} onClose={() => (feedOf.value = null)} />}
      {s?.kind === "settings" && <Frame title={t("settings")}><Settings /></Frame>}
      {s?.kind === "help" && <KeyList groups={keys} />}
      {s?.kind === "ask" && <Ask s={s} />}
    </>
  );
}

function AskScope() {
  const { title, series, done } = asking.value!;
  const scopes: { scope: Scope; text: "scopeThis" | "scopeFollowing" | "scopeAll" }[] = [{ scope: "this", text: "scopeThis" }, { scope: "following", text: "scopeFollowing" }, { scope: "all", text: "scopeAll" }];
  return (
    <Frame title={title} small onClose={() => done(null)}>
      <div class="scopes">{scopes.filter((x) => !series || x.scope !== "this").map((x) => <button key={x.scope} class="button" onClick={() => done(x.scope)}>{tk(x.text)}</button>)}</div>
      <div class="ends"><button class="button" onClick={() => done(null)}>{t("cancel")}</button></div>
    </Frame>
  );
}
