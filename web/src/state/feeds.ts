// Links by which everyone reads a calendar, and calendars that show the feeds of other servers (CalendarFeed).

import { refusalIn, whyOf } from "../jmap/client";
import type { Id } from "../jmap/types";
import { attempt, client, home, offers } from "./session";

export interface CalendarFeed {
  id: Id;
  /** The links with all public events, and with busy times alone. */
  full: string | null;
  busy: string | null;
  /** The feed of another server that the calendar shows, when it was read, and why it was not. */
  source: string | null;
  fetched: string | null;
  error: string | null;
}

export const offersFeeds = (): boolean => offers("urn:doublet:jmap:feeds");

/** The feeds of a calendar; undefined: the server did not answer. */
export async function readFeed(account: Id, calendar: Id): Promise<CalendarFeed | undefined> {
  const answer = await attempt(() => client.call("CalendarFeed/get", { accountId: account, ids: [calendar] }));
  const feed = (answer?.["list"] as CalendarFeed[] | undefined)?.[0];
  const absolute = (link: string | null) => link && new URL(link, location.origin).href;
  return feed && { ...feed, full: absolute(feed.full), busy: absolute(feed.busy) };
}

type Change = { full?: true | null; busy?: true | null; refresh?: true };

/** Changes feeds. Why that failed, "" if the server did not answer; undefined: it is done. */
async function set(account: Id, args: Record<string, unknown>): Promise<string | undefined> {
  try {
    const answer = await attempt(() => client.call("CalendarFeed/set", { accountId: account, ...args }));
    if (!answer) return "";
    const bad = refusalIn(answer);
    return bad && whyOf(bad);
  } catch (e) {
    return e instanceof Error ? e.message : String(e);
  }
}

export const changeFeed = (account: Id, calendar: Id, change: Change): Promise<string | undefined> => set(account, { update: { [calendar]: change } });

/** Makes a calendar that shows the feed at an address. */
export const subscribeTo = (source: string): Promise<string | undefined> => set(home.peek(), { create: { f: { source } } });
