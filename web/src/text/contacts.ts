// The texts of contacts.

import { texts } from "./catalogue";
import de from "./contacts/de.json";
import en from "./contacts/en.json";
import zh from "./contacts/zh.json";

export type ContactsText = keyof typeof en;
export const tn = texts<ContactsText>({ en, de, zh });
