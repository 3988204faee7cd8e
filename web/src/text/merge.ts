// The texts of mail merge.

import { texts } from "./catalogue";
import de from "./merge/de.json";
import en from "./merge/en.json";
import zh from "./merge/zh.json";

export const tm = texts<keyof typeof en>({ en, de, zh });
