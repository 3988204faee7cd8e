// The names of commands in the language of the client, for the palette and the list of keys.

import { texts } from "./catalogue";
import de from "./commands/de.json";
import en from "./commands/en.json";
import zh from "./commands/zh.json";

export type CommandText = keyof typeof en;
export const tc = texts<CommandText>({ en, de, zh });
