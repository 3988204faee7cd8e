// The texts of attachments that are looked at, and of mail that is imported and exported.

import { texts } from "./catalogue";
import de from "./files/de.json";
import en from "./files/en.json";
import zh from "./files/zh.json";

export const tx = texts<keyof typeof en>({ en, de, zh });
