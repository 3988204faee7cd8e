// The text of searches in the language of the client; the server's lite mode shows the same.

import { texts } from "./catalogue";
import de from "./search/de.json";
import en from "./search/en.json";
import zh from "./search/zh.json";

export type SearchText = keyof typeof en;
export const ts = texts<SearchText>({ en, de, zh });
