// The texts of labels, colours and saved searches.

import { texts } from "./catalogue";
import de from "./labels/de.json";
import en from "./labels/en.json";
import zh from "./labels/zh.json";

export const ta = texts<keyof typeof en>({ en, de, zh });
