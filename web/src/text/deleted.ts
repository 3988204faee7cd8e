// The texts of deleted messages that can be restored.

import { texts } from "./catalogue";
import de from "./deleted/de.json";
import en from "./deleted/en.json";
import zh from "./deleted/zh.json";

export const td = texts<keyof typeof en>({ en, de, zh });
