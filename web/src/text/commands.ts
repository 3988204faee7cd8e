// The names of commands in the language of the client, for the palette and the list of keys.

import { computed } from "@preact/signals";
import { language } from ".";
import de from "./commands/de.json";
import en from "./commands/en.json";
import zh from "./commands/zh.json";

export type CommandText = keyof typeof en;

const catalogue = computed(() => ({ en, de, zh })[language.value]);

/** The text of a key, with a value for {0}. */
export const tc = (key: CommandText, value: string | number = "") => catalogue.value[key].replace("{0}", () => String(value));
