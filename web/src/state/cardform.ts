// A contact as the editor has it: what is read of a card, and what of it changes. What the editor does not know stays as it is.

import type { Card, NameComponent, PartialDate, Several } from "../jmap/contacts";
import type { Id } from "../jmap/types";

export type Context = "" | "private" | "work" | "mobile";

/** A value with its id on the card; "" for a new one. */
export interface Value {
  id: Id;
  text: string;
  context: Context;
}

export interface Place extends Omit<Value, "text"> {
  street: string;
  postcode: string;
  locality: string;
  region: string;
  country: string;
}

export interface CardForm {
  title: string;
  given: string;
  given2: string;
  surname: string;
  generation: string;
  nickname: string;
  organization: string;
  unit: string;
  job: string;
  emails: Value[];
  phones: Value[];
  addresses: Place[];
  links: Value[];
  /** Days, "1990-02-28", or "--02-28" without a year. */
  birth: string;
  wedding: string;
  notes: string;
  /** The address of the picture: a data: one for a new picture; "" for none. */
  photo: string;
  book: Id;
}

const first = <T>(map: Several<T> | null | undefined) => Object.entries(map ?? {})[0];

const contextOf = (v: { contexts?: Record<string, boolean>; features?: Record<string, boolean> }): Context =>
  v.features?.["mobile"] || v.features?.["cell"] ? "mobile" : v.contexts?.["work"] ? "work" : v.contexts?.["private"] ? "private" : "";

const several = <T extends object>(map: Several<T> | null | undefined, text: (v: T) => string): Value[] => Object.entries(map ?? {}).map(([id, v]) => ({ id, text: text(v), context: contextOf(v) }));

const parts: (keyof Place & string)[] = ["postcode", "locality", "region", "country"];
// RFC 9553 has a number and a name for a street; the editor has one line for both, and keeps them where they do not change.
const streetKinds = ["number", "name", "block", "direction", "landmark"];

const component = (list: NameComponent[] | undefined, ...kinds: string[]) => (list ?? []).filter((c) => kinds.includes(c.kind)).map((c) => c.value).filter(Boolean).join(" ");

function readPlace([id, a]: [Id, NonNullable<Card["addresses"]>[Id]]): Place {
  const at = (kind: string) => component(a.components, kind);
  const street = component(a.components, ...streetKinds);
  return { id, context: contextOf(a), street: street || (a.components?.length ? "" : (a.full ?? "")), postcode: at("postcode"), locality: at("locality"), region: at("region"), country: at("country") };
}

const two = (n: number) => String(n).padStart(2, "0");

/** A date as the editor has it; "" where it says too little. */
export function dateText(d: PartialDate | undefined): string {
  if (d?.utc) return d.utc.slice(0, 10);
  if (!d?.month || !d.day) return "";
  return `${d.year ? String(d.year).padStart(4, "0") : "-"}-${two(d.month)}-${two(d.day)}`;
}

function readDate(s: string): PartialDate | undefined {
  const m = /^(\d{4}|-)-(\d\d)-(\d\d)$/u.exec(s);
  return m ? { "@type": "PartialDate", ...(m[1] === "-" ? {} : { year: Number(m[1]) }), month: Number(m[2]), day: Number(m[3]) } : undefined;
}

const anniversary = (c: Partial<Card>, kind: string) => Object.entries(c.anniversaries ?? {}).find(([, a]) => a.kind === kind);
const photoOf = (c: Partial<Card>) => Object.entries(c.media ?? {}).find(([, m]) => m.kind === "photo");

/** The address of a contact's picture: a data: one of the card, or of its blob; "" for none that may be shown. */
export function pictureOf(c: Partial<Card>, blob: (id: Id, type: string) => string): string {
  const { uri = "", blobId, mediaType = "" } = photoOf(c)?.[1] ?? {};
  if (blobId) return /^image\/(?:png|jpeg|gif|webp|avif)$/u.test(mediaType) ? blob(blobId, mediaType) : "";
  return /^data:image\/(?:png|jpeg|gif|webp|avif)[;,]/u.test(uri) ? uri : "";
}

export function readCard(c: Partial<Card>, book: Id, picture = ""): CardForm {
  const n = c.name?.components;
  const whole = n?.length ? "" : (c.name?.full ?? "");
  const org = first(c.organizations)?.[1];
  return {
    title: component(n, "title"), given: component(n, "given") || whole.split(" ").slice(0, -1).join(" ") || whole, given2: component(n, "given2"), surname: component(n, "surname", "surname2") || (whole.includes(" ") ? whole.split(" ").at(-1)! : ""), generation: component(n, "generation", "credential"),
    nickname: first(c.nicknames)?.[1].name ?? "", organization: org?.name ?? "", unit: org?.units?.[0]?.name ?? "", job: first(c.titles)?.[1].name ?? "",
    emails: several(c.emails, (e) => e.address), phones: several(c.phones, (p) => p.number), addresses: Object.entries(c.addresses ?? {}).map(readPlace), links: several(c.links, (l) => l.uri),
    birth: dateText(anniversary(c, "birth")?.[1].date), wedding: dateText(anniversary(c, "wedding")?.[1].date), notes: first(c.notes)?.[1].note ?? "", photo: picture, book,
  };
}

/** A map of values with one id for each: new ones get the first that is free. */
function put<T extends object, V extends { id: Id }>(was: Several<T> | null | undefined, list: V[], prefix: string, make: (v: V, before: T | undefined) => T | undefined): Several<T> | null {
  const out: Record<Id, T> = {};
  let n = 1;
  for (const v of list) {
    const value = make(v, v.id ? was?.[v.id] : undefined);
    if (!value) continue;
    let id = v.id;
    while (!id || (!v.id && (id in out || (was && id in was)))) id = `${prefix}${n++}`;
    out[id] = value;
  }
  return Object.keys(out).length > 0 ? (out as Several<T>) : null;
}

function contexts<T extends object>(v: { context: Context }, before: T | undefined): T {
  const { contexts: was, ...rest } = (before ?? {}) as { contexts?: Record<string, boolean> };
  const others = Object.fromEntries(Object.entries(was ?? {}).filter(([k]) => k !== "work" && k !== "private"));
  const all = { ...others, ...(v.context === "work" || v.context === "private" ? { [v.context]: true } : {}) };
  return { ...rest, ...(Object.keys(all).length > 0 ? { contexts: all } : {}) } as T;
}

/** The first value of a map, changed, or taken away. */
function putFirst<T extends object>(was: Several<T> | null | undefined, id: Id, value: (T & { "@type": string }) | undefined): Several<T> | null {
  const key = first(was)?.[0] ?? id;
  const rest = Object.fromEntries(Object.entries(was ?? {}).filter(([k]) => k !== key));
  const out = { ...(value ? { [key]: { ...was?.[key], ...value } } : {}), ...rest };
  return Object.keys(out).length > 0 ? (out as Several<T>) : null;
}

function nameOfForm(f: CardForm): Card["name"] | null {
  const all: [string, string][] = [["title", f.title], ["given", f.given], ["given2", f.given2], ["surname", f.surname], ["generation", f.generation]];
  const components = all.filter(([, v]) => v.trim()).map(([kind, value]) => ({ "@type": "NameComponent", kind, value: value.trim() }));
  return components.length > 0 ? { "@type": "Name", components, isOrdered: true, full: components.map((c) => c.value).join(" ") } : null;
}

function putAddress(v: Place, before: NonNullable<Card["addresses"]>[Id] | undefined): NonNullable<Card["addresses"]>[Id] | undefined {
  const old = before && readPlace([v.id, before]);
  const whole = [v.street, ...parts.map((p) => v[p])];
  if (whole.every((x) => !x.trim())) return undefined;
  const kept = (before?.components ?? []).filter((c) => ![...streetKinds, ...parts, "separator"].includes(c.kind));
  const street = old && old.street === v.street && before.components?.length ? before.components.filter((c) => streetKinds.includes(c.kind)) : v.street.trim() ? [{ kind: "name", value: v.street.trim() }] : [];
  const components = [...street, ...kept, ...parts.filter((p) => v[p].trim()).map((p) => ({ kind: p, value: v[p].trim() }))];
  const { full: _, ...rest } = contexts(v, before);
  return { "@type": "Address", ...rest, components };
}

function putDates(c: Partial<Card>, f: CardForm): Card["anniversaries"] | null {
  const out: Record<Id, { "@type"?: string; kind: string; date: PartialDate }> = { ...c.anniversaries };
  for (const [kind, text] of [["birth", f.birth], ["wedding", f.wedding]] as const) {
    const [id, was] = anniversary(c, kind) ?? [kind, undefined];
    const date = dateText(was?.date) === text ? was?.date : readDate(text);
    if (date) out[id] = { "@type": "Anniversary", ...was, kind, date };
    else delete out[id];
  }
  return Object.keys(out).length > 0 ? out : null;
}

function putPhoto(c: Partial<Card>, f: CardForm): Card["media"] | null {
  const [id, was] = photoOf(c) ?? ["photo", undefined];
  if (f.photo && !f.photo.startsWith("data:")) return c.media ?? null; // the blob that it has
  const rest = Object.fromEntries(Object.entries(c.media ?? {}).filter(([k]) => k !== id));
  const out = { ...rest, ...(f.photo ? { [id]: { "@type": "Media", kind: "photo", uri: f.photo, mediaType: /^data:([^;,]*)/u.exec(f.photo)?.[1] ?? "image/jpeg", ...(was?.label ? { label: was.label } : {}) } } : {}) };
  return Object.keys(out).length > 0 ? out : null;
}

/** The properties that a form stands for; c is the card that it was read from. */
function writeCard(f: CardForm, c: Partial<Card>): Record<string, unknown> {
  const org = f.organization.trim() || f.unit.trim();
  return {
    addressBookIds: { [f.book]: true }, name: nameOfForm(f),
    nicknames: putFirst(c.nicknames, "n1", f.nickname.trim() ? { "@type": "Nickname", name: f.nickname.trim() } : undefined),
    organizations: putFirst(c.organizations, "o1", org ? { "@type": "Organization", name: f.organization.trim(), ...(f.unit.trim() ? { units: [{ "@type": "OrgUnit", name: f.unit.trim() }] } : {}) } : undefined),
    titles: putFirst(c.titles, "t1", f.job.trim() ? { "@type": "Title", name: f.job.trim() } : undefined),
    emails: put(c.emails, f.emails, "e", (v, was) => (v.text.trim() ? { "@type": "EmailAddress", ...contexts(v, was), address: v.text.trim() } : undefined)),
    phones: put(c.phones, f.phones, "p", (v, was) => (v.text.trim() ? { "@type": "Phone", ...contexts(v, was), number: v.text.trim(), ...(v.context === "mobile" ? { features: { ...was?.features, mobile: true } } : {}) } : undefined)),
    addresses: put(c.addresses, f.addresses, "a", putAddress),
    links: put(c.links, f.links, "l", (v, was) => (v.text.trim() ? { "@type": "Link", ...contexts(v, was), uri: /^[a-z][a-z\d+.-]*:/iu.test(v.text.trim()) ? v.text.trim() : `https://${v.text.trim()}` } : undefined)),
    anniversaries: putDates(c, f), notes: putFirst(c.notes, "n1", f.notes.trim() ? { "@type": "Note", note: f.notes } : undefined), media: putPhoto(c, f),
  };
}

/** The differences of a card between two forms that were read from it: nothing else is sent. */
export function cardDifference(before: CardForm, after: CardForm, c: Partial<Card>): Record<string, unknown> {
  const was = writeCard(before, c), is = writeCard(after, c);
  return Object.fromEntries(Object.entries(is).filter(([k, v]) => JSON.stringify(v) !== JSON.stringify(was[k])));
}

/** A new card of what was written. */
export const newCard = (f: CardForm): Omit<Card, "id"> => ({ "@type": "Card", version: "1.0", uid: `urn:uuid:${crypto.randomUUID()}`, kind: "individual", addressBookIds: { [f.book]: true }, ...Object.fromEntries(Object.entries(writeCard(f, {})).filter(([, v]) => v !== null)) });

/** Makes a picture small enough for a card: at most 320 pixels wide and high. */
export async function smallPicture(file: Blob): Promise<string> {
  const picture = await createImageBitmap(file);
  const scale = Math.min(1, 320 / Math.max(picture.width, picture.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  const paint = canvas.getContext("2d")!;
  paint.fillStyle = "#fff"; // a JPEG has no transparent parts
  paint.fillRect(0, 0, canvas.width, canvas.height);
  paint.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.85);
}
