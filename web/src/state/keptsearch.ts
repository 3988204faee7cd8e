// A search without the server: all words, in the messages that this browser keeps.

import type { Id, Message, Row } from "../jmap/types";
import * as db from "./db";
import { rows } from "./messages";
import type { Understood } from "./search";

const fold = (s: string) => s.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** The text of a message by which it is found. */
function textOf(r: Row, m: Message | undefined): string {
  const people = [...(r.from ?? []), ...(r.to ?? [])].map((a) => `${a.name ?? ""} ${a.email}`);
  const bodies = Object.values(m?.bodyValues ?? {}).map((b) => b.value.replace(/<style[^]*?<\/style>|<[^>]*>/giu, " "));
  return fold([r.subject ?? "", r.preview, ...people, ...bodies].join("\n"));
}

/** Finds the newest first. Only the server knows operators: their words are named as not understood. */
export async function searchKept(text: string): Promise<{ ids: Id[]; understood: Understood }> {
  const said: Understood = { text, terms: [], notUnderstood: [], kept: rows.value.size };
  for (const m of text.matchAll(/-?[a-z_0-9]+:(?:"[^"]*"?|\S*)|-?"[^"]*"?|\S+/giu)) {
    const at = { start: m.index, end: m.index + m[0].length };
    const value = m[0].replace(/["*]/gu, "").trim();
    if (/^-|^[a-z_0-9]+:|^(?:OR|AND|NOT)$|[(){}]/iu.test(m[0])) said.notUnderstood.push({ reason: "offline", text: m[0], ...at });
    else if (value) said.terms.push({ kind: "text", value, not: false, ...at });
  }
  if (said.terms.length === 0) return { ids: [], understood: said };
  const words = said.terms.map((t) => fold(t.value!));
  const bodies = new Map(((await db.all<Message>("messages")) ?? []).map((m) => [m.id, m]));
  const found = [...rows.value.values()].filter((r) => {
    const all = textOf(r, bodies.get(r.id));
    return words.every((w) => all.includes(w));
  });
  return { ids: found.sort((a, b) => (a.receivedAt < b.receivedAt ? 1 : -1)).map((r) => r.id), understood: said };
}
