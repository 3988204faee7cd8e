// Names of contacts: how they are shown, and by what they are sorted.

import type { Card } from "../jmap/contacts";

const values = (c: Card, ...kinds: string[]) => (c.name?.components ?? []).filter((x) => kinds.includes(x.kind) && x.value).map((x) => x.value);
const first = <T>(map: Record<string, T> | null | undefined): T | undefined => Object.values(map ?? {})[0];

const isHan = (s: string) => /\p{Script=Han}/u.test(s);

/** The name of a contact; "" where nothing of it has one. */
export function nameOf(c: Card): string {
  const given = values(c, "given", "given2"), surname = values(c, "surname", "surname2");
  const parts = [...values(c, "title"), ...given, ...surname, ...values(c, "generation", "credential")];
  const joined = isHan(surname.join("")) && isHan(given.join("")) ? [...surname, ...given].join("") : parts.join(" ");
  return (c.name?.full || joined || first(c.organizations)?.name || first(c.nicknames)?.name || first(c.emails)?.address || first(c.phones)?.number || "").trim();
}

/** The sort key of a contact: the last name first, else the name. */
export function sortKey(c: Card): string {
  const surname = values(c, "surname", "surname2").join(" "), given = values(c, "given", "given2").join(" ");
  return surname ? `${surname} ${given}` : nameOf(c);
}

const collator = new Intl.Collator("zh-Hans-CN-u-co-pinyin");
// The first character of each letter of Pinyin, in the order of letters; I, U and V begin no syllable.
const pinyin: [string, string][] = [["A", "阿"], ["B", "八"], ["C", "嚓"], ["D", "搭"], ["E", "蛾"], ["F", "发"], ["G", "噶"], ["H", "哈"], ["J", "击"], ["K", "喀"], ["L", "垃"], ["M", "妈"], ["N", "拿"], ["O", "哦"], ["P", "啪"], ["Q", "期"], ["R", "然"], ["S", "撒"], ["T", "塌"], ["W", "挖"], ["X", "昔"], ["Y", "压"], ["Z", "匝"]];

/** The letter below which a contact is listed; "#" for none. */
export function letterOf(sort: string): string {
  const c = sort.normalize("NFD").replace(/\p{M}/gu, "").trim()[0]?.toUpperCase() ?? "";
  if (isHan(c)) return pinyin.findLast(([, from]) => collator.compare(c, from) >= 0)?.[0] ?? "A";
  return /\p{L}/u.test(c) ? c : "#";
}

const fold = (s: string) => s.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** Reports if a contact has all words of a text: in names, companies, addresses, numbers, notes. */
export function fits(c: Card, text: string): boolean {
  const all = fold([
    nameOf(c), ...Object.values(c.nicknames ?? {}).map((x) => x.name), ...Object.values(c.organizations ?? {}).flatMap((o) => [o.name ?? "", ...(o.units ?? []).map((u) => u.name)]),
    ...Object.values(c.titles ?? {}).map((x) => x.name), ...Object.values(c.emails ?? {}).map((x) => x.address), ...Object.values(c.phones ?? {}).flatMap((x) => [x.number, x.number.replace(/\D/gu, "")]),
    ...Object.values(c.addresses ?? {}).flatMap((a) => [a.full ?? "", ...(a.components ?? []).map((x) => x.value)]), ...Object.values(c.notes ?? {}).map((x) => x.note),
  ].join(" "));
  return fold(text).split(/\s+/u).every((w) => all.includes(w));
}

/** Lists of contacts that look the same: one name, or one address. */
export function doublesOf<T extends { card: Card; name: string; account: string }>(list: T[]): T[][] {
  const parent = new Map<T, T>(list.map((c) => [c, c]));
  const root = (c: T): T => { let at = c; while (parent.get(at) !== at) at = parent.get(at)!; return at; };
  const seen = new Map<string, T>();
  for (const c of list) {
    const marks = [...Object.values(c.card.emails ?? {}).map((e) => `@${e.address.toLowerCase()}`), ...(c.name.includes(" ") || isHan(c.name) ? [fold(c.name)] : [])];
    for (const mark of marks.map((m) => `${c.account} ${m}`)) {
      const other = seen.get(mark);
      if (other) parent.set(root(c), root(other));
      else seen.set(mark, c);
    }
  }
  const out = new Map<T, T[]>();
  for (const c of list) out.set(root(c), [...(out.get(root(c)) ?? []), c]);
  return [...out.values()].filter((l) => l.length > 1);
}

type Values = Record<string, object>;

/** One contact of several: the first, with what the others have more. */
export function mergedCard(list: Card[]): Partial<Card> {
  const [one, ...others] = list as [Card, ...Card[]];
  const out: Record<string, unknown> = {};
  const fields = ["nicknames", "organizations", "titles", "emails", "phones", "addresses", "links", "anniversaries", "notes", "media"] as const;
  // A value is the same whatever its id, its kind and its order of preference.
  const mark = (field: string, v: object) => JSON.stringify(field === "emails" ? (v as { address: string }).address.toLowerCase() : field === "phones" ? (v as { number: string }).number.replace(/[^\d+]/gu, "") : { ...v, "@type": 0, contexts: 0, pref: 0 });
  for (const field of fields) {
    const map: Values = { ...(one[field] as Values | null) };
    const seen = new Set(Object.values(map).map((v) => mark(field, v)));
    let n = 0;
    for (const v of others.flatMap((c) => Object.values((c[field] as Values | null) ?? {}))) {
      if (seen.has(mark(field, v)) || ((field === "media" || field === "anniversaries") && Object.values(map).some((x) => (x as { kind: string }).kind === (v as { kind: string }).kind))) continue;
      seen.add(mark(field, v));
      while (`m${n}` in map) n++;
      map[`m${n}`] = v;
    }
    if (Object.keys(map).length > Object.keys(one[field] ?? {}).length) out[field] = map;
  }
  const named = others.find((c) => c.name?.components?.length || c.name?.full);
  if (!one.name?.components?.length && !one.name?.full && named?.name) out["name"] = named.name;
  return out as Partial<Card>;
}
