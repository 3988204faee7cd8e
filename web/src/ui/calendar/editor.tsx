// The editor of an event.

import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { emailOf } from "../../jmap/calendar";
import { mayWrite, shelves, span, viewZone, type Shown } from "../../state/calendars";
import { addDays, daysBetween } from "../../state/days";
import { change, createEvent, readEvent, type Patch, type Scope } from "../../state/events";
import { identities } from "../../state/outgoing";
import { firstFitting } from "../../state/recur";
import { isRoom, knownRooms, offersRooms } from "../../state/rooms";
import { closeQuery } from "../../state/route";
import { say } from "../../state/screen";
import { person } from "../../state/session";
import { checkForm, difference, momentsOf, owner, readForm, writeForm, type Form } from "../../state/written";
import { instant, localTime } from "../../state/zone";
import { t } from "../../text";
import { tk } from "../../text/calendar";
import type { Id } from "../../jmap/types";
import { Frame } from "../above";
import { attach, AttachmentField, Attached, type Uploading } from "../attached";
import { Recipients } from "../recipients";
import { Icon } from "../icons";
import { AlertSelect } from "./alert";
import { FreeTimes } from "./free";
import { askScope, deleteEvent, tell, type Begun } from "./open";
import { RepeatFields } from "./repeat";
import { Rooms } from "./rooms";

/** The person closed the editor though something was changed: they are asked. */
const asked = signal(false);

export const me = () => ({ name: identities.value[0]?.name || person.value.name, email: identities.value[0]?.email || person.value.address });

/** The names of the time zones that this browser knows. */
const zones: string[] = Intl.supportedValuesOf("timeZone");

export function Editor({ of, shown }: { of: Begun; shown: Shown | undefined }) {
  const zone = viewZone.value;
  const first = useRef(readForm(of.with, of.calendar, of.people, zone)).current;
  const form = useSignal<Form>(first);
  const problem = useSignal("");
  const saving = useSignal(false);
  const uploads = useSignal<Uploading[]>([]);
  const dropping = useSignal(false);
  const rooms = useSignal(false);
  // The field of people keeps its own list while one types: a room that is added begins it anew.
  const booked = useSignal(0);
  const title = useRef<HTMLInputElement>(null);
  const f = form.value;
  const set = (change: Partial<Form>) => {
    problem.value = "";
    form.value = { ...form.value, ...change };
  };
  useEffect(() => {
    asked.value = false;
    if (!of.event) title.current!.focus();
    return () => uploads.value.forEach((u) => u.abort.abort());
  }, []);
  const isChanged = () => uploads.value.length > 0 || JSON.stringify(form.value) !== JSON.stringify(first);
  // Attachments are the organizer's (RFC 8607 §3.12.2).
  const attaches = of.event?.isOrigin !== false && !of.partly;
  const links = () => form.value.links ?? {};
  const take = (files: File[]) => void attach(of.account, files, Object.keys(links()).length + uploads.value.length, uploads, (id, l) => set({ links: { ...links(), [id]: l } }));
  const remove = (id: Id) => {
    const { [id]: _, ...rest } = links();
    set({ links: Object.keys(rest).length > 0 ? rest : null });
  };
  const drop = (e: DragEvent) => {
    const files = [...(e.dataTransfer?.files ?? [])];
    dropping.value = false;
    if (!attaches || files.length === 0) return;
    e.preventDefault();
    take(files);
  };
  const over = (e: DragEvent) => {
    if (!attaches || !e.dataTransfer?.types.includes("Files")) return;
    e.preventDefault();
    dropping.value = true;
  };
  const close = () => {
    if (isChanged() && !saving.value) asked.value = true;
    else closeQuery("edit");
  };
  const save = async () => {
    if (uploads.value.length > 0) return void (problem.value = t("uploading", uploads.value[0]!.name));
    const bad = checkForm(f, zone);
    if (bad) return void (problem.value = tk(bad));
    saving.value = true;
    const done = await store(of, first, f, shown);
    saving.value = false;
    if (done) closeQuery("edit");
  };
  return (
    <Frame title={of.event ? tk("edit") : tk("newEvent")} onClose={close}>
      <form class={`event-form ${dropping.value ? "dropping" : ""}`} onDragOver={over} onDragLeave={() => (dropping.value = false)} onDrop={drop} onSubmit={(e) => { e.preventDefault(); void save(); }}>
        <label class="field"><span>{tk("title")}</span><input class="title-input" ref={title} value={f.title} onInput={(e) => set({ title: e.currentTarget.value })} autocomplete="off" /></label>
        <When f={f} set={set} />
        {of.partly ? <p class="quiet">{tk("partly")}</p> : <RepeatFields repeat={f.repeat} first={f.first} set={(repeat) => set({ repeat })} asBefore={first.repeat.kind === "asBefore"} />}
        <div class="two">
          <label class="field"><span>{tk("place")}</span><input value={f.place} onInput={(e) => set({ place: e.currentTarget.value })} autocomplete="off" /></label>
          <label class="field"><span>{tk("link")}</span><input type="url" value={f.link} onInput={(e) => set({ link: e.currentTarget.value })} autocomplete="off" /></label>
        </div>
        <div class="people"><Recipients key={booked.value} id="event-people" label={tk("people")} list={f.people} set={(people) => set({ people })} /></div>
        {offersRooms() && (rooms.value
          ? <Rooms {...(checkForm(f, zone) || f.allDay ? wholeDays(f, zone) : momentsOf(f, zone))} chosen={f.people} own={of.event && span(of.event, zone)} add={(r) => { booked.value++; set({ people: [...f.people, { name: r.name, email: r.email }], ...(f.place.trim() ? {} : { place: r.name }) }); }} />
          : <button type="button" class="button add-room" onClick={() => (rooms.value = true)}><Icon name="place" />{tk("roomAdd")}</button>)}
        {f.people.length > 0 && !f.allDay && !checkForm(f, zone) && <Free of={of} f={f} set={set} />}
        {!of.partly && <label class="field"><span>{tk("description")}</span><textarea value={f.description} onInput={(e) => set({ description: e.currentTarget.value })} /></label>}
        {!of.partly && (attaches ? <AttachmentField account={of.account} links={f.links} uploads={uploads} take={take} remove={remove} /> : <Attached account={of.account} links={f.links} />)}
        <div class="two">
          <label class="field"><span>{tk("calendarOf")}</span>
            <select value={f.calendar} onChange={(e) => set({ calendar: e.currentTarget.value })}>{shelves.value.filter((s) => s.account === of.account && (mayWrite(s) || s.id === f.calendar)).map((s) => <option key={s.id} value={s.id}>{s.name}</option>)}</select></label>
          {!of.partly && <label class="field"><span>{tk("alert")}</span>
            <AlertSelect value={f.alert} before={first.alert} set={(alert) => set({ alert })} /></label>}
          <label class="field"><span>{tk("showAs")}</span>
            <select value={f.free ? "free" : "busy"} onChange={(e) => set({ free: e.currentTarget.value === "free" })}><option value="busy">{tk("busy")}</option><option value="free">{tk("free")}</option></select></label>
          <label class="check"><input type="checkbox" checked={f.private} onChange={(e) => set({ private: e.currentTarget.checked })} />{tk("private")}</label>
        </div>
        {problem.value && <p class="said" role="alert">{problem.value}</p>}
        {asked.value && <p class="said" role="alert">{tk("discardAsk")} <button type="button" class="button danger" onClick={() => closeQuery("edit")}>{tk("discard")}</button></p>}
        <div class="ends">
          {of.event && shown && <button type="button" class="button danger start" onClick={() => void deleteEvent(shown)}>{t("delete")}</button>}
          <button type="button" class="button" onClick={close}>{t("cancel")}</button>
          <button class="button primary" disabled={saving.value}>{tk("save")}</button>
        </div>
      </form>
    </Frame>
  );
}

function Free({ of, f, set }: { of: Begun; f: Form; set: (change: Partial<Form>) => void }) {
  const zone = viewZone.value;
  const { from, to } = momentsOf(f, zone);
  const organizing = owner(of.with);
  const organizer = organizing ? { name: organizing.name ?? null, email: emailOf(organizing) } : me();
  return (
    <FreeTimes people={f.people} me={organizer} from={from} to={to} own={of.event && span(of.event, zone)} move={(at) => {
      const start = localTime(at, f.zone || zone), end = localTime(at + to - from, f.zone || zone);
      set({ first: start.slice(0, 10), from: start.slice(11, 16), last: end.slice(0, 10), to: end.slice(11, 16) });
    }} />
  );
}

/** When an event is. Its end keeps its distance where the start changes. */
function When({ f, set }: { f: Form; set: (change: Partial<Form>) => void }) {
  const begin = (first: string, from: string) => {
    if (!first || !from) return set({ first, from });
    const shift = instant(`${first}T${from}:00`, "UTC") - instant(`${f.first}T${f.from}:00`, "UTC");
    const end = new Date(instant(`${f.last}T${f.to}:00`, "UTC") + shift);
    if (Number.isNaN(end.getTime())) return set({ first, from });
    return set({ first, from, last: f.allDay ? addDays(first, Math.max(0, daysBetween(f.first, f.last))) : end.toISOString().slice(0, 10), to: end.toISOString().slice(11, 16) });
  };
  return (
    <fieldset class="when">
      <legend class="visually-hidden">{tk("starts")} – {tk("ends")}</legend>
      <label class="field"><span>{tk("starts")}</span><input type="date" required value={f.first} onInput={(e) => begin(e.currentTarget.value, f.from)} /></label>
      {!f.allDay && <label class="field"><span>{tk("startsAt")}</span><input type="time" required value={f.from} onInput={(e) => begin(f.first, e.currentTarget.value)} /></label>}
      <label class="field"><span>{tk("ends")}</span><input type="date" required value={f.last} onInput={(e) => set({ last: e.currentTarget.value })} /></label>
      {!f.allDay && <label class="field"><span>{tk("endsAt")}</span><input type="time" required value={f.to} onInput={(e) => set({ to: e.currentTarget.value })} /></label>}
      <label class="check"><input type="checkbox" checked={f.allDay} onChange={(e) => set({ allDay: e.currentTarget.checked })} />{tk("allDay")}</label>
      {!f.allDay && (
        <label class="field zone"><span>{tk("zone")}</span>
          <select value={f.zone} onChange={(e) => set({ zone: e.currentTarget.value })}>
            <option value="">{tk("floating")}</option>
            {(f.zone && !zones.includes(f.zone) ? [f.zone, ...zones] : zones).map((z) => <option key={z} value={z}>{z.replaceAll("_", " ")}</option>)}
          </select></label>
      )}
    </fieldset>
  );
}

/** Stores what was written; false: it was not, or the person did not want it after all. */
async function store(of: Begun, before: Form, after: Form, shown: Shown | undefined): Promise<boolean> {
  const zone = viewZone.peek();
  if (!of.event || !shown) {
    // A series begins on a day of its rule.
    const first = firstFitting(after.repeat, after.first);
    after = { ...after, first, last: addDays(after.last, daysBetween(after.first, first)) };
    const made = await createEvent(of.account, { ...withoutNull({ ...of.with, ...writeForm(after, of.with, me(), zone) }), "@type": "Event", uid: of.with.uid ?? crypto.randomUUID() } as unknown as Parameters<typeof createEvent>[1]);
    if (typeof made !== "string") return tellOf(made);
    say(tk("created", after.title.trim() || tk("noTitle")));
    void tellOfRooms(of.account, made, after);
    return true;
  }
  const patch: Patch = difference(before, after, of.event, me(), zone);
  if (Object.keys(patch).length === 0) return true;
  const scope: Scope | null = shown.repeats ? await askScope(tk("scopeChange"), "recurrenceRules" in patch || "calendarIds" in patch) : "this";
  if (!scope) return false;
  const done = await change(of.account, of.event, patch, scope);
  if (typeof done !== "function") return tellOf(done);
  // The server has the bytes of what was removed no more.
  const removed = Object.keys(before.links ?? {}).some((id) => !after.links?.[id]);
  say(tk("saved"), removed ? undefined : { text: t("undo"), run: () => void done().then((p) => p && tell(p)) });
  void tellOfRooms(of.account, of.event.id, after);
  return true;
}

/** The days of a form as moments, for one that has no times that can be used. */
function wholeDays(f: Form, zone: string): { from: number; to: number } {
  const first = f.first || localTime(Date.now(), zone).slice(0, 10);
  const last = f.last && f.last >= first ? f.last : first;
  return { from: instant(`${first}T00:00:00`, zone), to: instant(`${addDays(last, 1)}T00:00:00`, zone) };
}

/** Says which of the rooms that were invited declined: they answer at once. */
async function tellOfRooms(account: string, id: string, f: Form): Promise<void> {
  if (!f.people.some((a) => knownRooms.peek().has(a.email.toLowerCase()))) return;
  const e = await readEvent(account, id);
  const no = Object.values(e?.participants ?? {}).filter((p) => isRoom(p) && p.participationStatus === "declined").map((p) => p.name || emailOf(p));
  if (no.length > 0) say(tk("roomDeclined", no.join(", ")), undefined, 12);
}

function tellOf(p: Parameters<typeof tell>[0]): false {
  tell(p);
  return false;
}

const withoutNull = (e: object) => Object.fromEntries(Object.entries(e).filter(([, v]) => v !== null));
