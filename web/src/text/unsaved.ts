// The texts about changes that wait for the server, or that it refused.

import { texts } from "./catalogue";
import de from "./unsaved/de.json";
import en from "./unsaved/en.json";
import zh from "./unsaved/zh.json";

export type UnsavedText = keyof typeof en;
export const tw = texts<UnsavedText>({ en, de, zh });
