// Contacts as a .vcf file (vCard 4, RFC 6350): the properties that the editor knows.

import type { Card, PartialDate } from "../jmap/contacts";
import { nameOf } from "./cardname";
import { fold, text } from "./invitation";

const types = (v: { contexts?: Record<string, boolean>; features?: Record<string, boolean> }): string => {
  const list = [v.contexts?.["work"] ? "work" : "", v.contexts?.["private"] ? "home" : "", v.features?.["mobile"] ? "cell" : "", v.features?.["fax"] ? "fax" : ""].filter(Boolean);
  return list.length > 0 ? `;TYPE=${list.length > 1 ? `"${list.join(",")}"` : list[0]}` : "";
};

const each = <T>(map: Record<string, T> | null | undefined, line: (v: T) => string | undefined): string[] => Object.values(map ?? {}).flatMap((v) => line(v) ?? []);

function date(d: PartialDate): string | undefined {
  const two = (n: number) => String(n).padStart(2, "0");
  if (d.utc) return d.utc.slice(0, 10).replaceAll("-", "");
  return d.month && d.day ? `${d.year ? String(d.year).padStart(4, "0") : "--"}${two(d.month)}${two(d.day)}` : undefined;
}

function names(c: Card): string {
  const of = (...kinds: string[]) => (c.name?.components ?? []).filter((x) => kinds.includes(x.kind)).map((x) => text(x.value)).join(",");
  return `N:${[of("surname", "surname2"), of("given"), of("given2"), of("title"), of("generation", "credential")].join(";")}`;
}

function address(a: NonNullable<Card["addresses"]>[string]): string {
  const of = (...kinds: string[]) => text((a.components ?? []).filter((x) => kinds.includes(x.kind)).map((x) => x.value).join(" "));
  const street = of("name", "number", "block", "direction", "landmark") || (a.components?.length ? "" : text(a.full ?? ""));
  return `ADR${types(a)}:${[of("postOfficeBox"), of("apartment", "floor", "room", "building"), street, of("locality"), of("region"), of("postcode"), of("country")].join(";")}`;
}

/** The lines of a contact; picture gives the data: address of its picture. */
function lines(c: Card, picture: string): string[] {
  return [
    "BEGIN:VCARD", "VERSION:4.0", `UID:${c.uid}`, ...(c.kind && c.kind !== "individual" ? [`KIND:${c.kind}`] : []), `FN:${text(nameOf(c))}`, ...(c.name?.components?.length ? [names(c)] : []),
    ...each(c.nicknames, (n) => `NICKNAME:${text(n.name)}`), ...each(c.organizations, (o) => `ORG:${[o.name ?? "", ...(o.units ?? []).map((u) => u.name)].map(text).join(";")}`),
    ...each(c.titles, (x) => `${x.kind === "role" ? "ROLE" : "TITLE"}:${text(x.name)}`), ...each(c.emails, (e) => `EMAIL${types(e)}:${text(e.address)}`), ...each(c.phones, (p) => `TEL${types(p)}:${text(p.number)}`),
    ...each(c.addresses, address), ...each(c.links, (l) => `URL${types(l)}:${l.uri}`), ...each(c.notes, (n) => `NOTE:${text(n.note)}`),
    ...each(c.anniversaries, (a) => { const d = date(a.date); return d && (a.kind === "birth" ? `BDAY:${d}` : a.kind === "wedding" ? `ANNIVERSARY:${d}` : undefined); }),
    ...Object.keys(c.members ?? {}).map((uid) => `MEMBER:${uid}`), ...(picture ? [`PHOTO:${picture}`] : []), "END:VCARD",
  ];
}

/** Writes contacts, each with the data: address of its picture, "" for none. */
export const writeCards = (list: { card: Card; picture: string }[]): string => fold(list.flatMap(({ card, picture }) => lines(card, picture)));
