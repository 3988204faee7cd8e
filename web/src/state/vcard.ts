// Contacts from .vcf files (vCard 2.1, 3 and 4: RFC 2426, RFC 6350): the usual properties, as cards.

import type { Card } from "../jmap/contacts";

interface Line {
  name: string;
  params: Record<string, string[]>;
  value: string;
}

/** The largest file that is read, in bytes, and the most contacts of it. */
export const largestFile = 20_000_000;
const mostCards = 10_000;

function readLine(text: string): Line | undefined {
  const m = /^(?:[\w-]+\.)?([\w-]+)((?:;(?:[^":;]|"[^"]*")*)*):(.*)$/su.exec(text);
  if (!m) return undefined;
  const params: Record<string, string[]> = {};
  for (const part of m[2]!.match(/;((?:[^":;]|"[^"]*")*)/gu) ?? []) {
    const [key = "", value] = part.slice(1).split(/=(.*)/su) as [string, string | undefined];
    // vCard 2.1 has types without their name: TEL;HOME;VOICE.
    const [name, list] = value === undefined ? ["TYPE", key] : [key.toUpperCase(), value];
    (params[name] ??= []).push(...list.split(",").map((v) => v.replace(/^"|"$/gu, "").toLowerCase()));
  }
  return { name: m[1]!.toUpperCase(), params, value: decoded(m[3]!, params) };
}

function decoded(value: string, params: Record<string, string[]>): string {
  const encoding = params["ENCODING"]?.[0] ?? (params["TYPE"]?.includes("quoted-printable") ? "quoted-printable" : "");
  if (encoding !== "quoted-printable") return value;
  const bytes = value.replace(/=\r?\n/gu, "").replace(/=([\da-f]{2})/giu, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  try {
    return new TextDecoder(params["CHARSET"]?.[0] ?? "utf-8").decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));
  } catch {
    return value; // a charset that no browser knows
  }
}

const plain = (s: string) => s.replace(/\\([nN\\;,:])/gu, (_, c: string) => (c === "n" || c === "N" ? "\n" : c)).trim();
const split = (s: string) => s.split(/(?<!\\);/u).map(plain);

/** Unfolds the lines of a file: RFC 6350 §3.2, and soft line breaks of Quoted-Printable. */
const unfold = (text: string) => text.replace(/\r\n?/gu, "\n").replace(/\n[ \t]/gu, "").replace(/(?:^|\n)[^\n:]*quoted-printable[^\n:]*:(?:[^\n]*=\n)*[^\n]*/giu, (all) => all.replace(/=\n/gu, "")).split("\n");

function contexts({ params }: Line): { contexts?: Record<string, boolean> } {
  const types = params["TYPE"] ?? [];
  return types.includes("work") ? { contexts: { work: true } } : types.includes("home") ? { contexts: { private: true } } : {};
}

function features({ params }: Line): { features?: Record<string, boolean> } {
  const types = params["TYPE"] ?? [];
  const out = Object.fromEntries([["cell", "mobile"], ["fax", "fax"], ["pager", "pager"], ["text", "text"], ["video", "video"]].filter(([v]) => types.includes(v!)).map(([, f]) => [f!, true]));
  return Object.keys(out).length > 0 ? { features: out } : {};
}

function date(value: string): Record<string, unknown> | undefined {
  const m = /^(\d{4}|--)-?(\d\d)-?(\d\d)/u.exec(value);
  return m ? { "@type": "PartialDate", ...(m[1] === "--" ? {} : { year: Number(m[1]) }), month: Number(m[2]), day: Number(m[3]) } : undefined;
}

function photo({ params, value }: Line): string {
  if (/^data:image\//iu.test(value)) return value;
  const type = params["MEDIATYPE"]?.[0] ?? params["TYPE"]?.find((t) => /^(?:image\/)?(?:jpeg|jpg|png|gif|webp)$/u.test(t)) ?? "jpeg";
  const isData = params["ENCODING"]?.some((e) => e === "b" || e === "base64") && /^[\w+/=\s]+$/u.test(value);
  return isData ? `data:image/${type.replace("image/", "").replace("jpg", "jpeg")};base64,${value.replace(/\s/gu, "")}` : "";
}

type Draft = Record<string, unknown>;

/** The members that a property adds to a card; n numbers the values. */
const readers: Record<string, (l: Line, n: string) => [field: string, value: object] | undefined> = {
  NICKNAME: (l, n) => ["nicknames", { [n]: { "@type": "Nickname", name: plain(l.value) } }],
  ORG: (l, n) => { const [name = "", ...units] = split(l.value); return ["organizations", { [n]: { "@type": "Organization", name, ...(units.some(Boolean) ? { units: units.filter(Boolean).map((u) => ({ "@type": "OrgUnit", name: u })) } : {}) } }]; },
  TITLE: (l, n) => ["titles", { [n]: { "@type": "Title", name: plain(l.value) } }],
  ROLE: (l, n) => ["titles", { [n]: { "@type": "Title", kind: "role", name: plain(l.value) } }],
  EMAIL: (l, n) => (l.value.includes("@") ? ["emails", { [n]: { "@type": "EmailAddress", address: plain(l.value).replace(/^mailto:/iu, ""), ...contexts(l) } }] : undefined),
  TEL: (l, n) => ["phones", { [n]: { "@type": "Phone", number: plain(l.value).replace(/^tel:/iu, ""), ...contexts(l), ...features(l) } }],
  URL: (l, n) => ["links", { [n]: { "@type": "Link", uri: plain(l.value) } }],
  NOTE: (l, n) => ["notes", { [n]: { "@type": "Note", note: plain(l.value) } }],
  BDAY: (l, n) => { const d = date(l.value); return d && ["anniversaries", { [n]: { "@type": "Anniversary", kind: "birth", date: d } }]; },
  ANNIVERSARY: (l, n) => { const d = date(l.value); return d && ["anniversaries", { [n]: { "@type": "Anniversary", kind: "wedding", date: d } }]; },
  PHOTO: (l, n) => { const uri = photo(l); return uri ? ["media", { [n]: { "@type": "Media", kind: "photo", uri, mediaType: /^data:([^;,]*)/u.exec(uri)![1] } }] : undefined; },
  CATEGORIES: (l) => ["keywords", Object.fromEntries(l.value.split(/(?<!\\),/u).map((k) => [plain(k), true]).filter(([k]) => k))],
  MEMBER: (l) => ["members", { [plain(l.value)]: true }],
  ADR: (l, n) => {
    const [box, more, street, locality, region, postcode, country] = split(l.value);
    const all: [string, string | undefined][] = [["postOfficeBox", box], ["apartment", more], ["name", street], ["locality", locality], ["region", region], ["postcode", postcode], ["country", country]];
    const components = all.filter(([, v]) => v).map(([kind, value]) => ({ kind, value }));
    return components.length > 0 ? ["addresses", { [n]: { "@type": "Address", components, ...contexts(l) } }] : undefined;
  },
};

function readName(l: Line): object {
  const kinds = ["surname", "given", "given2", "title", "generation"];
  const order = ["title", "given", "given2", "surname", "generation"];
  const values = split(l.value);
  const components = order.flatMap((kind) => { const value = values[kinds.indexOf(kind)]; return value ? [{ "@type": "NameComponent", kind, value }] : []; });
  return components.length > 0 ? { components, isOrdered: true } : {};
}

/** Reads the contacts of a file. */
export function readCards(text: string): Partial<Card>[] {
  const out: Partial<Card>[] = [];
  let card: Draft | null = null;
  let n = 0;
  for (const raw of unfold(text)) {
    const l = readLine(raw);
    if (!l) continue;
    if (l.name === "BEGIN" && /^vcard$/iu.test(l.value)) card = { "@type": "Card", version: "1.0", uid: `urn:uuid:${crypto.randomUUID()}` };
    else if (l.name === "END" && card) {
      if (Object.keys(card).length > 3 && out.length < mostCards) out.push(card as Partial<Card>);
      card = null;
    } else if (card) take(card, l, `v${++n}`);
  }
  return out;
}

function take(card: Draft, l: Line, n: string): void {
  if (l.name === "UID" && l.value.trim()) card["uid"] = plain(l.value);
  else if (l.name === "KIND" || l.name === "X-ADDRESSBOOKSERVER-KIND") card["kind"] = l.value.toLowerCase();
  else if (l.name === "FN" && plain(l.value)) card["name"] = { "@type": "Name", ...(card["name"] as object | undefined), full: plain(l.value) };
  else if (l.name === "N") card["name"] = { "@type": "Name", ...(card["name"] as object | undefined), ...readName(l) };
  else {
    const read = readers[l.name === "X-ADDRESSBOOKSERVER-MEMBER" ? "MEMBER" : l.name]?.(l, n);
    if (read) card[read[0]] = { ...(card[read[0]] as object | undefined), ...read[1] };
  }
}
