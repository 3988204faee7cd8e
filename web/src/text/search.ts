// The text of searches in the language of the client; the server's lite mode shows the same.

import { computed } from "@preact/signals";
import { language } from ".";
import de from "./search/de.json";
import en from "./search/en.json";
import zh from "./search/zh.json";

export type SearchText = keyof typeof en;

const catalogue = computed(() => ({ en, de, zh })[language.value]);

/** The text of a key, with values for {0} and {1}. */
export const ts = (key: SearchText, ...values: (string | number)[]) => catalogue.value[key].replace(/\{(\d)\}/gu, (_, n: string) => String(values[Number(n)] ?? ""));
