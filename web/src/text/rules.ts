// The texts about rules for new mail.

import { texts } from "./catalogue";
import de from "./rules/de.json";
import en from "./rules/en.json";
import zh from "./rules/zh.json";

export type RuleText = keyof typeof en;
export const tu = texts<RuleText>({ en, de, zh });
