// The language of the client: the person's choice, else the browser's, else English. All text stands in catalogues of the
// same keys, which the server reads too (serve/lite); {0} stands for a value. Only the catalogues that are spoken are loaded.

import { computed, signal } from "@preact/signals";
import { client } from "../state/session";
import type commandsEn from "./commands/en.json";
import type en from "./en.json";

export type Catalogue = typeof en;
export type CommandText = keyof typeof commandsEn;
export type Language = "en" | "de" | "zh";
export const languages: Record<Language, string> = { en: "English", de: "Deutsch", zh: "中文" };

/** The texts of a language that the first page needs. */
interface Spoken {
  texts: Catalogue;
  /** The names of commands, for buttons, menus, the palette and the list of keys. */
  commands: Record<CommandText, string>;
}

const both = ([texts, commands]: [{ default: Catalogue }, { default: Spoken["commands"] }]): Spoken => ({ texts: texts.default, commands: commands.default });
const catalogues: Record<Language, () => Promise<Spoken>> = {
  en: () => Promise.all([import("./en.json"), import("./commands/en.json")]).then(both),
  de: () => Promise.all([import("./de.json"), import("./commands/de.json")]).then(both),
  zh: () => Promise.all([import("./zh.json"), import("./commands/zh.json")]).then(both),
};

export const language = signal<Language>("en");
const spoken = signal<Spoken | null>(null);

/** Reports if texts are there: no page is drawn before. */
export const speaks = computed(() => spoken.value !== null);

export async function speak(l: Language): Promise<void> {
  spoken.value = await catalogues[l]();
  language.value = l;
  document.documentElement.lang = l;
}

export function preferred(): Language {
  for (const l of navigator.languages) {
    const short = l.slice(0, 2).toLowerCase();
    if (short in languages) return short as Language;
  }
  return "en";
}

/** The text of a key, with values for {0}, {1} …. */
export function t(key: keyof Catalogue, ...values: (string | number)[]): string {
  return filled(spoken.value?.texts[key] ?? "", values);
}

/** Says that the server refused something, and why. */
export const refusal = (e: unknown): string => t("refusedByServer", e instanceof Error ? e.message : String(e));

/** The name of a command, with values for {0}, {1} …. */
export const tc = (key: CommandText, ...values: (string | number)[]): string => filled(spoken.value?.commands[key] ?? "", values);

const filled = (text: string, values: (string | number)[]) => text.replace(/\{(\d)\}/gu, (_, n: string) => String(values[Number(n)] ?? ""));

const formats = computed(() => ({
  time: new Intl.DateTimeFormat(language.value, { hour: "numeric", minute: "2-digit" }),
  day: new Intl.DateTimeFormat(language.value, { day: "numeric", month: "short" }),
  weekday: new Intl.DateTimeFormat(language.value, { weekday: "short" }),
  longWeekday: new Intl.DateTimeFormat(language.value, { weekday: "long" }),
  month: new Intl.DateTimeFormat(language.value, { month: "long" }),
  monthOfYear: new Intl.DateTimeFormat(language.value, { month: "long", year: "numeric" }),
  year: new Intl.DateTimeFormat(language.value, { day: "numeric", month: "short", year: "numeric" }),
  full: new Intl.DateTimeFormat(language.value, { dateStyle: "full", timeStyle: "short" }),
  number: new Intl.NumberFormat(language.value),
  size: new Intl.NumberFormat(language.value, { maximumFractionDigits: 1 }),
}));

/** A date as short as it can be: the hour today, the weekday this week, else the day. */
export function shortDate(iso: string, now = client.now()): string {
  const d = new Date(iso);
  const f = formats.value;
  if (d.toDateString() === now.toDateString()) return f.time.format(d);
  const age = now.getTime() - d.getTime();
  if (age >= 0 && age < 6 * 86_400_000) return f.weekday.format(d);
  return d.getFullYear() === now.getFullYear() ? f.day.format(d) : f.year.format(d);
}

/** The day of a list that a time belongs to: today, yesterday, a weekday of the last days, else the month. */
export function dayOf(iso: string, now = client.now()): string {
  const d = new Date(iso);
  const midnight = (x: Date) => new Date(x.getFullYear(), x.getMonth(), x.getDate()).getTime();
  const days = Math.round((midnight(now) - midnight(d)) / 86_400_000);
  if (days === 0) return t("today");
  if (days === 1) return t("yesterday");
  if (days > 0 && days < 6) return formats.value.longWeekday.format(d);
  return d.getFullYear() === now.getFullYear() ? formats.value.month.format(d) : formats.value.monthOfYear.format(d);
}

export const shortTime = (d: Date) => formats.value.time.format(d);
export const fullDate = (iso: string) => formats.value.full.format(new Date(iso));
export const count = (n: number) => formats.value.number.format(n);

export function size(bytes: number): string {
  const f = formats.value.size;
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return `${f.format(bytes / 1e3)} KB`;
  return bytes < 1e9 ? `${f.format(bytes / 1e6)} MB` : `${f.format(bytes / 1e9)} GB`;
}
