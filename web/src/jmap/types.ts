// The objects of JMAP Core (RFC 8620) and Mail (RFC 8621) that the client uses.

export type Id = string;

/** The session object (RFC 8620 §2). */
export interface Session {
  username: string;
  apiUrl: string;
  downloadUrl: string;
  uploadUrl: string;
  state: string;
  capabilities: Record<string, unknown>;
  accounts: Record<Id, Account>;
  primaryAccounts: Record<string, Id>;
}

export interface Account {
  name: string;
  isPersonal: boolean;
  isReadOnly: boolean;
  accountCapabilities: Record<string, unknown>;
}

export interface MailboxRights {
  mayReadItems: boolean;
  mayAddItems: boolean;
  mayRemoveItems: boolean;
  maySetSeen: boolean;
  maySetKeywords: boolean;
  mayCreateChild: boolean;
  mayRename: boolean;
  mayDelete: boolean;
  maySubmit: boolean;
}

export interface Mailbox {
  id: Id;
  name: string;
  parentId: Id | null;
  role: string | null;
  sortOrder: number;
  totalEmails: number;
  unreadEmails: number;
  totalThreads: number;
  unreadThreads: number;
  myRights: MailboxRights;
  isSubscribed: boolean;
}

export interface Address {
  name: string | null;
  email: string;
}

/** An e-mail as a list shows it. */
export interface Row {
  id: Id;
  threadId: Id;
  mailboxIds: Record<Id, boolean>;
  keywords: Record<string, boolean>;
  from: Address[] | null;
  to: Address[] | null;
  subject: string | null;
  receivedAt: string;
  size: number;
  preview: string;
  hasAttachment: boolean;
  messageId: string[] | null;
  /** The people who sent it on, the last one first. Rows that an older client has kept lack both. */
  "header:Resent-From:asAddresses:all"?: Address[][] | null;
  "header:Resent-Sender:asAddresses:all"?: Address[][] | null;
}

export interface Part {
  partId: string | null;
  blobId: Id | null;
  size: number;
  name: string | null;
  type: string;
  charset: string | null;
  disposition: string | null;
  cid: string | null;
}

/** An e-mail as the reading pane shows it. */
export interface Message extends Row {
  blobId: Id;
  inReplyTo: string[] | null;
  references: string[] | null;
  cc: Address[] | null;
  bcc: Address[] | null;
  replyTo: Address[] | null;
  sentAt: string | null;
  htmlBody: Part[];
  textBody: Part[];
  attachments: Part[];
  bodyValues: Record<string, { value: string; isTruncated: boolean; isEncodingProblem: boolean }>;
  "header:List-Unsubscribe:asURLs"?: string[] | null;
  "header:List-Unsubscribe-Post:asText"?: string | null;
  "header:Authentication-Results:asRaw:all"?: string[] | null;
  /** The table of a mail merge, in its draft (state/mergetable.ts). */
  "header:Doublet-Merge-Table:asRaw"?: string | null;
}

export interface Identity {
  id: Id;
  name: string;
  email: string;
  replyTo: Address[] | null;
  textSignature: string;
  htmlSignature: string;
  mayDelete: boolean;
}

export interface Snippet {
  emailId: Id;
  subject: string | null;
  preview: string | null;
}

export interface Vacation {
  id: "singleton";
  isEnabled: boolean;
  fromDate: string | null;
  toDate: string | null;
  subject: string | null;
  textBody: string | null;
  htmlBody: string | null;
}

export interface Quota {
  id: Id;
  name: string;
  used: number;
  hardLimit: number;
  warnLimit: number | null;
  resourceType: string;
}

export type Filter =
  | { operator: "AND" | "OR" | "NOT"; conditions: Filter[] }
  | Record<string, string | number | boolean | string[] | Record<string, string> | undefined>;

export interface SetError {
  type: string;
  description?: string;
  properties?: string[];
}

export type Call = [name: string, args: Record<string, unknown>, id: string];

/** The properties of a Row. */
export const rowProperties = [
  "id", "threadId", "mailboxIds", "keywords", "from", "to", "subject", "receivedAt", "size", "preview", "hasAttachment", "messageId",
  "header:Resent-From:asAddresses:all", "header:Resent-Sender:asAddresses:all",
] as const;

/** The further properties of a Message. */
export const messageProperties = [
  ...rowProperties, "blobId", "inReplyTo", "references", "cc", "bcc", "replyTo", "sentAt",
  "htmlBody", "textBody", "attachments", "bodyValues", "header:List-Unsubscribe:asURLs", "header:List-Unsubscribe-Post:asText", "header:Authentication-Results:asRaw:all", "header:Doublet-Merge-Table:asRaw",
] as const;
