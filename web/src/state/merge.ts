// Mail merge: one text, and the messages that it makes for each of several people.

import type { Address } from "../jmap/types";

/** The people, each with an own Message-ID and the values of the columns. */
export interface Merged {
  columns: string[];
  people: Person[];
}

export interface Person {
  to: Address;
  values: string[];
  messageID: string;
}

/** The most people of one merge. */
export const mostPeople = 200;

// Bounded, and without a choice for spaces: what is quoted of a stranger's message is searched too.
const field = /\{\{([^{}\n]{1,80})\}\}/gu;
/** Browsers keep braces in an address as they are, or encode them. */
const fieldInAddress = /(?:\{|%7b){2}((?:(?!%7d)[^{}]){1,180}?)(?:\}|%7d){2}/giu;

/** Names of columns and fields that differ in case and spaces alone are the same. */
export const nameKey = (name: string): string => name.replace(/\s+/gu, " ").trim().toLowerCase();

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " " };
const decoded = (text: string) => text.replace(/&(amp|lt|gt|quot|nbsp);/gu, (_, name: string) => entities[name]!);
const escaped = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

type ValueOf = (name: string) => string;

const fillText = (text: string, value: ValueOf): string => text.replace(field, (_, name: string) => value(name.trim()));

function fillAddress(tag: string, value: ValueOf): string {
  return tag.replace(/\bhref="([^"]*)"/u, (_, href: string) => `href="${href.replace(fieldInAddress, (whole, name: string) => {
    try {
      return encodeURIComponent(value(decoded(decodeURIComponent(name)).trim()));
    } catch {
      return whole; // a "%" that stands for itself
    }
  })}"`);
}

/** Tags and the text between them, as serialized documents have them. */
const tokens = /<(?:[^>"']|"[^"]*"|'[^']*')*>|[^<]+|</gu;
/** Tags that do not end a line: the name of a field may be written over them. */
const inLine = /^<\/?(?:a|b|strong|i|em|u|s|strike|del|font|span|code|small|sub|sup|big)\b/iu;

/** Fills the fields of serialized HTML. A field of which a part has another look than the rest has that of its beginning. */
function fillHTML(html: string, value: ValueOf): string {
  const parts = (html.match(tokens) ?? []).map((text) => ({ text, tag: text.length > 1 && text.startsWith("<") }));
  const text = parts.map((p) => (!p.tag ? p.text : inLine.test(p.text) ? "" : "\n")).join("");
  const found = [...text.matchAll(field)].map((m) => ({ from: m.index, to: m.index + m[0].length, name: decoded(m[1]!).trim() }));
  let out = "", at = 0, next = 0;
  for (const p of parts) {
    if (p.tag) {
      out += fillAddress(p.text, value);
      if (!inLine.test(p.text)) at++;
      continue;
    }
    for (const end = at + p.text.length; at < end;) {
      const f = found[next];
      const stop = Math.min(end, !f ? end : at < f.from ? f.from : f.to);
      if (!f || at < f.from) out += text.slice(at, stop);
      else if (at === f.from) out += escaped(value(f.name)).replaceAll("\n", "<br>");
      if (f && stop === f.to) next++;
      at = stop;
    }
  }
  return out;
}

/** The fields of a message, each once, as they are written first. */
export function fieldsOf(subject: string, html: string): string[] {
  const found = new Map<string, string>();
  const note = (name: string): string => {
    if (name && !found.has(nameKey(name))) found.set(nameKey(name), name);
    return "";
  };
  fillText(subject, note);
  fillHTML(html, note);
  return [...found.values()];
}

type Values = Record<string, { value: string }>;

/** The e-mail for one of the people, as Email/set takes it, of one with fields. A field without a column stays empty. */
export function letterOf(email: Record<string, unknown>, of: Merged, at: number): Record<string, unknown> {
  const { to, values, messageID } = of.people[at]!;
  const columns = new Map(of.columns.map((c, i) => [nameKey(c), values[i] ?? ""]));
  const value: ValueOf = (name) => columns.get(nameKey(name)) ?? "";
  const { text, html } = email["bodyValues"] as Values;
  return {
    ...email, to: [to], messageId: [messageID], subject: fillText(String(email["subject"] ?? ""), value).replace(/\s*\n\s*/gu, " "),
    bodyValues: { text: { value: fillText(text!.value, value) }, html: { value: fillHTML(html!.value, value) } },
  };
}
