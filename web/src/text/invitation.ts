// The texts of invitations.

import { texts } from "./catalogue";
import de from "./invitation/de.json";
import en from "./invitation/en.json";
import zh from "./invitation/zh.json";

export type InvitationText = keyof typeof en;
export const ti = texts<InvitationText>({ en, de, zh });
