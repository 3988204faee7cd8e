// The texts of tasks.

import { texts } from "./catalogue";
import de from "./tasks/de.json";
import en from "./tasks/en.json";
import zh from "./tasks/zh.json";

export type TaskText = keyof typeof en;
export const tt = texts<TaskText>({ en, de, zh });
