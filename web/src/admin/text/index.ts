// The text of administration and set-up in the language of the client.

import { effect, signal } from "@preact/signals";
import { language } from "../../text";
import en from "./en.json";

export type AdminText = typeof en;

const catalogue = signal<AdminText>(en);

effect(() => {
  const l = language.value;
  if (l === "en") catalogue.value = en;
  else void (l === "de" ? import("./de.json").then((m) => m.default) : import("./zh.json").then((m) => m.default)).then((c) => {
    if (language.peek() === l) catalogue.value = c;
  });
});

/** The text of a key, with values for {0}, {1} …. */
export function ta(key: keyof AdminText, ...values: (string | number)[]): string {
  return catalogue.value[key].replace(/\{(\d)\}/gu, (_, n: string) => String(values[Number(n)] ?? ""));
}

/** A span of seconds in words: the two largest units. */
export function span(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return ta("unitSeconds", s);
  if (s < 3600) return ta("unitMinutes", Math.floor(s / 60));
  if (s < 86400) return `${ta("unitHours", Math.floor(s / 3600))} ${ta("unitMinutes", Math.floor((s % 3600) / 60))}`;
  return `${ta("unitDays", Math.floor(s / 86400))} ${ta("unitHours", Math.floor((s % 86400) / 3600))}`;
}
