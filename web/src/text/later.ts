// The texts of messages that are sent later.

import { texts } from "./catalogue";
import de from "./later/de.json";
import en from "./later/en.json";
import zh from "./later/zh.json";

export const tl = texts<keyof typeof en>({ en, de, zh });
