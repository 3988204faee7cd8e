// The texts about senders: verified, blocked, and how one leaves their lists.

import { texts } from "./catalogue";
import de from "./senders/de.json";
import en from "./senders/en.json";
import zh from "./senders/zh.json";

export const ts = texts<keyof typeof en>({ en, de, zh });
