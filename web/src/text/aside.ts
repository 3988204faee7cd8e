// The texts of what is put aside: snoozed, pinned and muted mail.

import { texts } from "./catalogue";
import de from "./aside/de.json";
import en from "./aside/en.json";
import zh from "./aside/zh.json";

export const tz = texts<keyof typeof en>({ en, de, zh });
