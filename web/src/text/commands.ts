// The names of commands in the language of the client, for buttons, menus, the palette and the list of keys. They are needed with the
// first page: languages other than English come when they are spoken.

import { effect, signal } from "@preact/signals";
import { language, type Language } from ".";
import en from "./commands/en.json";

export type CommandText = keyof typeof en;

const others: Record<Exclude<Language, "en">, () => Promise<Record<CommandText, string>>> = {
  de: () => import("./commands/de.json").then((m) => m.default),
  zh: () => import("./commands/zh.json").then((m) => m.default),
};
const names = signal<Record<CommandText, string>>(en);
effect(() => {
  const l = language.value;
  if (l === "en") names.value = en;
  else void others[l]().then((of) => { if (language.peek() === l) names.value = of; }, () => undefined);
});

/** The text of a key, with values for {0}, {1} …. */
export const tc = (key: CommandText, ...values: (string | number)[]): string => names.value[key].replace(/\{(\d)\}/gu, (_, n: string) => String(values[Number(n)] ?? ""));
