// The texts about passkeys: signing in with one, and those that a person has.

import { texts } from "./catalogue";
import de from "./passkeys/de.json";
import en from "./passkeys/en.json";
import zh from "./passkeys/zh.json";

export const ty = texts<keyof typeof en>({ en, de, zh });
