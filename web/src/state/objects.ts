// Changes of events, tasks and contacts: they are kept in the outbox, shown at once, and shown as waiting until the server has them. A change
// that waited is told only if nobody else changed the same properties meanwhile; else it stays here, with what the person wrote.

import { computed, signal } from "@preact/signals";
import { refusalIn, Refused } from "../jmap/client";
import type { Id, SetError } from "../jmap/types";
import * as db from "./db";
import { beforeMade, busy, forget, intend, onEnd, replace, takeBack, waiting, type Intention, type ObjectChange, type Removal } from "./outbox";
import { client, online, persistent, phase } from "./session";
import { mostTries, type Outcome } from "./tell";

export type Kind = ObjectChange["type"];
type Change = (ObjectChange | Removal) & { key: string };
type Values = Record<string, unknown>;

/** The state of the change of an object: under way in this moment, waiting for the server, or refused. */
export type Standing = "now" | "waits" | "refused";

const isChange = (i: Intention): i is Change => i.kind === "set" || i.kind === "remove";

/** Changes that are done, and were not read back yet. */
const done = signal<Change[]>([]);

/** The changes of objects of a type in their order, those first that are done and not read back. */
const changesOf = (type: Kind): Change[] => [...done.value, ...waiting.value.filter(isChange)].filter((i) => i.type === type);

/** The id of an object that is not at the server yet, by its uid. */
export const newID = (uid: string): Id => `${beforeMade}${uid}`;
const isNewKey = (key: string): boolean => key.includes(`/${beforeMade}`);

/** The changed objects as the views show them, by account/id, in place of those of the server; null hides one. */
export function overlay<T>(type: Kind): { value: Map<string, { object: T | null; standing: Standing }> } {
  return computed(() => {
    const out = new Map<string, { object: T | null; standing: Standing }>();
    for (const i of changesOf(type)) {
      // A refused change is among unsaved, and the server's version is shown. A new object has none: it stays.
      for (const [key, object] of i.shows ?? []) {
        if (i.refused && !isNewKey(key)) continue;
        const as = { object: object as T | null, standing: i.refused ? "refused" : i.waited ? "waits" : "now" } as const;
        const before = first.get(key);
        if (object && before) out.delete(before); // it was made meanwhile, and is changed again
        out.set(key, as);
        // One that was made meanwhile is hidden under the key that it had before, too.
        if (!object) for (const was of out.keys()) if (keyNow(was) === key) out.set(was, as);
      }
    }
    return out;
  });
}

/** The changes of a type that were refused after they had waited. */
export const unsaved = (type: Kind): Change[] => waiting.value.filter((i): i is Change => isChange(i) && i.type === type && i.refused !== undefined);

/** A copy of an object with a patch (RFC 8620 §5.3). */
export function applied<T extends object>(object: T, patch: Values): T {
  const out = structuredClone(object) as Values;
  for (const [path, value] of Object.entries(patch)) {
    const keys = pathOf(path), last = keys.pop()!;
    let at = out;
    for (const k of keys) at = (at[k] ??= {}) as Values;
    if (value === null && keys.length > 0) delete at[last];
    else at[last] = value;
  }
  return out as T;
}

const pathOf = (path: string): string[] => path.split("/").map((k) => k.replaceAll("~1", "/").replaceAll("~0", "~"));
const valueAt = (object: unknown, path: string): unknown => pathOf(path).reduce<unknown>((at, k) => (at as Values | null | undefined)?.[k], object);

/** A value for comparison: what is missing, empty or the default is one; keys have an order, and types are left out. */
function plain(v: unknown): string {
  const tidy = (x: unknown): unknown => {
    if (Array.isArray(x)) return x.map(tidy);
    if (x === null || typeof x !== "object") return x === "needs-action" ? null : x || null; // the default of progress and of answers
    const entries = Object.entries(x).filter(([k]) => k !== "@type").map(([k, y]): [string, unknown] => [k, tidy(y)]).filter(([, y]) => y !== null);
    return entries.length === 0 ? null : Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
  };
  const out = tidy(v);
  return JSON.stringify(Array.isArray(out) && out.length === 0 ? null : out);
}

/** The properties by which the deletion of an object notices that it was changed elsewhere. */
const telling: Record<Kind, string[]> = {
  CalendarEvent: ["title", "start", "duration"],
  Task: ["title", "due", "progress"],
  ContactCard: ["name", "emails", "phones"],
};

/** The values that a change of known objects presumes, by id. */
export function presumed(type: Kind, update: Record<Id, Values>, destroy: Id[], known: Map<Id, object>): Record<Id, Values> {
  const out: Record<Id, Values> = {};
  for (const [id, patch] of Object.entries(update)) if (known.has(id)) out[id] = Object.fromEntries(Object.keys(patch).map((path) => [path, valueAt(known.get(id), path) ?? null]));
  for (const id of destroy) if (known.has(id)) out[id] = Object.fromEntries(telling[type].map((path) => [path, valueAt(known.get(id), path) ?? null]));
  return out;
}

/** The ids that objects of this page have got, by account and the id that they had before. */
const made = new Map<string, Id>();
/** The keys (account/id) that they had before, by those that they have now. */
const first = new Map<string, string>();

/** Keeps what the server's id of a new object is. If an earlier request has made it, the server is asked for the id. */
async function learn(i: Change, answer: Values): Promise<void> {
  const created = (answer["created"] ?? {}) as Record<string, { id: Id }>;
  for (const [name, object] of Object.entries(i.kind === "set" ? (i.create ?? {}) : {})) {
    const { uid } = object as { uid: string };
    const refusal = (answer["notCreated"] as Record<string, SetError> | undefined)?.[name];
    const id = created[name]?.id ?? (refusal && isThere(i, refusal) ? ((await client.call(`${i.type}/query`, { accountId: i.account, filter: { uid } }))["ids"] as Id[])[0] : undefined);
    if (!id) continue;
    const before = `${i.account}/${newID(uid)}`;
    made.set(before, id);
    first.set(`${i.account}/${id}`, before);
    // The browser keeps the id too: another page may tell what waits for the object, or this one as it goes.
    for (const w of waiting.value) if (isChange(w) && w.key !== i.key && w.account === i.account && JSON.stringify(named(w)) !== JSON.stringify(w)) void replace(named(w));
  }
}

/** The answer to an earlier request was lost: nobody else makes an object of this uid. */
const isThere = (i: Change, e: SetError): boolean => !!i.waited && e.type === "invalidProperties" && !!e.properties?.includes("uid");

/** A change with the ids that its objects have now. */
export function named<T extends Omit<ObjectChange, "kind"> | Omit<Removal, "kind" | "at">>(i: T): T {
  const keys = <V>(of: Record<Id, V> | undefined) => of && Object.fromEntries(Object.entries(of).map(([id, v]) => [idOf(i.account, id), v]));
  return { ...i, update: keys(i.update), was: keys(i.was), destroy: i.destroy?.map((id) => idOf(i.account, id)), ...("create" in i && i.create ? {} : { shows: i.shows?.map(([key, o]) => [keyNow(key), o]) }) };
}

/** The id of an object at the server, as far as it has one. */
export const idOf = (account: Id, id: Id): Id => made.get(`${account}/${id}`) ?? id;

/** A key (account/id) with the id that the object has now. */
export function keyNow(key: string): string {
  const at = key.indexOf("/");
  return `${key.slice(0, at)}/${idOf(key.slice(0, at), key.slice(at + 1))}`;
}

/** The key that the element of an object keeps: one that gets its id is not drawn anew below the pointer, and keeps the focus. */
export const drawnAs = (key: string): string => first.get(key) ?? key;

/** Refusals that are ours: another changed the same meanwhile, or deleted it. */
export const changedElsewhere = "changedElsewhere";
export const deletedElsewhere = "deletedElsewhere";

/** Tells a change of objects. One that waited is told in the state alone in which its objects are as it presumes. */
export async function tellObjects(i: Change): Promise<Outcome> {
  if (!i.waited) return send(i);
  for (let tries = 0; ; tries++) {
    const found = await look(i);
    if (found.problem) return { problem: found.problem };
    if (found.isDone) return { answers: new Map() };
    try {
      return await send(i, found.state);
    } catch (e) {
      if (!(e instanceof Refused) || e.type !== "stateMismatch") throw e;
      if (tries >= mostTries) throw new Refused(e.type, e.message, 0);
    }
  }
}

/** Compares what the server has with what a change presumes. A change whose answer was lost may be done already. */
async function look(i: Change): Promise<{ problem?: SetError; isDone?: boolean; state?: string }> {
  const was = Object.entries(i.was ?? {});
  if (was.length === 0) return {};
  const properties = [...new Set(["id", ...was.flatMap(([, values]) => Object.keys(values).map((path) => pathOf(path)[0]!))])];
  const ids = was.map(([id]) => idOf(i.account, id));
  const answer = await client.call(`${i.type}/get`, { accountId: i.account, ids, properties });
  const there = new Map((answer["list"] as { id: Id }[]).map((x) => [x.id, x]));
  let open = Object.keys((i.kind === "set" && i.create) || {}).length;
  for (const [id, values] of was) {
    const now = there.get(idOf(i.account, id));
    const patch = i.update?.[id];
    if (!now && patch) return { problem: { type: deletedElsewhere } };
    if (!now) continue;
    const left = Object.entries(values).filter(([path]) => !patch || plain(valueAt(now, path)) !== plain(patch[path]));
    if (left.some(([path, value]) => plain(valueAt(now, path)) !== plain(value))) return { problem: { type: changedElsewhere } };
    open += left.length;
  }
  return { isDone: open === 0, state: answer["state"] as string };
}

async function send(i: Change, ifInState?: string): Promise<Outcome> {
  const update = i.update && Object.fromEntries(Object.entries(i.update).map(([id, patch]) => [idOf(i.account, id), patch]));
  const destroy = i.destroy?.map((id) => idOf(i.account, id));
  const create = i.kind === "set" ? i.create : undefined;
  const answer = await client.call(`${i.type}/set`, { accountId: i.account, ifInState, create, update, destroy, ...(i.type === "CalendarEvent" ? { sendSchedulingMessages: true } : {}) });
  await learn(i, answer);
  const left = (list: string, isFine: (e: SetError) => boolean | undefined) =>
    Object.fromEntries(Object.entries((answer[list] ?? {}) as Record<string, SetError>).filter(([, e]) => !isFine(e)));
  const isGone = (e: SetError) => e.type === "notFound";
  const refused = { notCreated: left("notCreated", (e) => isThere(i, e)), notUpdated: left("notUpdated", (e) => i.kind === "remove" && isGone(e)), notDestroyed: left("notDestroyed", isGone) };
  return { problem: refusalIn(refused), answers: new Map([["set", answer]]) };
}

const readers = new Map<Kind, () => Promise<boolean>>();
const reading = new Map<Kind, Promise<boolean>>();

/** read is called when changes of a type are done, to read them back, until the server has answered: false says that it has not. */
export function onRead(type: Kind, read: () => Promise<boolean>): void {
  if (!readers.has(type)) readers.set(type, persistent(() => readBack(type, read)));
}

/** Reads back what is done: once for all that end at a time. What was shown of it meanwhile is given up then. */
async function readBack(type: Kind, read: () => Promise<boolean>): Promise<boolean> {
  const those = done.value.filter((i) => i.type === type);
  const told = await read();
  if (told) done.value = done.value.filter((i) => !those.includes(i));
  return told;
}

onEnd((i) => {
  if (!isChange(i)) return;
  if (!i.refused) done.value = [...done.value, i];
  const more = waiting.value.some((w) => w.key !== i.key && isChange(w) && w.type === i.type && !w.refused && w.kind === "set");
  const read = readers.get(i.type);
  if (!read) done.value = done.value.filter((d) => d.type !== i.type); // nothing shows them
  else if (!more) reading.set(i.type, read());
});

/** Resolves when what is done of a type was read back. */
export const isRead = async (type: Kind): Promise<void> => void (await reading.get(type));

/** The end of a change: waits, if the server did not answer. created holds new ids by the names of the request. */
export interface Performed {
  key: string;
  waits: boolean;
  created: Record<string, { id: Id }>;
}

/**
 * Carries a change out: it is shown at once, and kept until the server has it. Returns the server's reason if it was refused. Without an
 * answer of the server the change waits; if it is refused later, it is among unsaved.
 */
export function perform(change: Omit<ObjectChange, "kind">): Promise<Performed | { why: string }> {
  return new Promise((resolve) => {
    let key = "";
    let stop = () => undefined as void;
    const end = (x: Performed | { why: string }) => {
      stop();
      resolve(x);
    };
    const ended = (problem?: string, answers?: Map<string, Values>) => {
      const created = (answers?.get("set")?.["created"] ?? {}) as Performed["created"];
      void isRead(change.type).then(() => end(problem ? { why: problem } : { key, waits: false, created }));
    };
    void intend({ kind: "set", ...named(change) }, ended).then((i) => {
      key = i.key;
      const reached = computed(() => online.value && !busy.value && phase.value === "in");
      stop = reached.subscribe((is) => { if (!is && forget(key)) setTimeout(end, 0, { key, waits: true, created: {} }); });
    });
  });
}

/** The waiting creation of an object that is not at the server yet. */
const creationOf = (account: Id, id: Id) => waiting.value.find((i): i is ObjectChange & { key: string } => i.kind === "set" && !!i.shows?.some(([key]) => isNewKey(key) && key === `${account}/${id}`));

/** Takes the creation of a new object back; undefined: the server has the object, or is making it. */
export async function takeCreation(account: Id, id: Id): Promise<ObjectChange | undefined> {
  const found = creationOf(account, id);
  return found && ((await takeBack(found.key)) as ObjectChange | undefined);
}

/** Changes a new object that the server does not have yet; undefined: it has it, or is making it. */
export async function amend(account: Id, id: Id, patch: Values): Promise<Performed | undefined> {
  const i = creationOf(account, id);
  if (!i) return undefined;
  const { refused: _, ...open } = i;
  const create = Object.fromEntries(Object.entries(i.create!).map(([name, object]) => [name, withoutNull(applied(object, patch))]));
  const title = typeof patch["title"] === "string" ? patch["title"] : i.title;
  const shows = i.shows!.map(([key, object]): [string, object | null] => [key, object && applied(object, patch)]);
  return (await replace({ ...open, title, create, shows })) ? { key: i.key, waits: true, created: {} } : undefined;
}

const withoutNull = (o: object) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== null));

/** Patches that wait for an object, applied to it as the server had it. */
export const asChanged = <T extends { id: Id }>(type: Kind, account: Id, object: T): T =>
  changesOf(type).filter((i) => i.account === account && !i.refused && i.update?.[object.id]).reduce((o, i) => applied(o, i.update![object.id]!), object);

/** Gives a refused change up. */
export async function giveUp(i: Change): Promise<void> {
  waiting.value = waiting.value.filter((w) => w.key !== i.key);
  await db.remove("outbox", i.key);
}

/** Properties that an object made anew does not take from the one that was deleted. */
const fixed = ["id", "baseEventId", "baseTaskId", "recurrenceId", "recurrenceIdTimeZone", "utcStart", "utcEnd"];

/** An object that was deleted elsewhere, made anew as the person changed it. */
function anew({ account, type, title, shows, key }: Change, changed: object): Change {
  const uid = `${type === "ContactCard" ? "urn:uuid:" : ""}${crypto.randomUUID()}`;
  const object = { ...Object.fromEntries(Object.entries(changed).filter(([k, v]) => !fixed.includes(k) && v !== null)), uid };
  const at = shows![0]![0].slice(0, account.length + 1);
  return { kind: "set", key, account, type, title, waited: true, create: { x: object }, shows: [[`${at}${newID(uid)}`, { ...object, id: newID(uid) }]] };
}

/** Tells a refused change again, whatever the server has: an object that was deleted elsewhere is made anew. */
export async function insist(i: Change): Promise<void> {
  const { refused, was: _, ...open } = i;
  const changed = i.shows?.[0]?.[1];
  await replace(refused === deletedElsewhere && changed ? anew(i, changed) : open);
}
