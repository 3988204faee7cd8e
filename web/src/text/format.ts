// The texts of formatting and templates in the writer.

import { texts } from "./catalogue";
import de from "./format/de.json";
import en from "./format/en.json";
import zh from "./format/zh.json";

export const tw = texts<keyof typeof en>({ en, de, zh });
