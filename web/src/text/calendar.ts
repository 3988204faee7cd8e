// The texts of the calendar.

import { texts } from "./catalogue";
import de from "./calendar/de.json";
import en from "./calendar/en.json";
import zh from "./calendar/zh.json";

export type CalendarText = keyof typeof en;
export const tk = texts<CalendarText>({ en, de, zh });
