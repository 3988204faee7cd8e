// The texts of the filters above a list and of its order.

import { texts } from "./catalogue";
import de from "./sorting/de.json";
import en from "./sorting/en.json";
import zh from "./sorting/zh.json";

export const tf = texts<keyof typeof en>({ en, de, zh });
