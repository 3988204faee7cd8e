// Events from a line of text: "Lunch with Bob tomorrow 12:30", "Mittagessen mit Bob morgen 12:30", "明天12:30与 Bob 午餐".

import { addDays, weekday, type Day } from "./days";

/** The parts of a line. minutes: from midnight on; without from it is an event over whole days. */
export interface Quick {
  title: string;
  day: Day;
  days: number;
  from?: number;
  minutes: number;
  place: string;
  /** Names of people: "with Bob". */
  people: string[];
}

const usualLength = 60;

const weekdaysOf: Record<string, number> = {};
const name = (n: number, ...words: string[]) => words.forEach((w) => (weekdaysOf[w] = n));
name(0, "sunday", "sun", "sonntag", "so", "周日", "周天", "星期日", "星期天");
name(1, "monday", "mon", "montag", "mo", "周一", "星期一");
name(2, "tuesday", "tue", "dienstag", "di", "周二", "星期二");
name(3, "wednesday", "wed", "mittwoch", "mi", "周三", "星期三");
name(4, "thursday", "thu", "donnerstag", "do", "周四", "星期四");
name(5, "friday", "fri", "freitag", "fr", "周五", "星期五");
name(6, "saturday", "sat", "samstag", "sonnabend", "sa", "周六", "星期六");

const monthsOf = ["jan", "feb", "mar|mär|mrz", "apr", "may|mai", "jun", "jul", "aug", "sep", "oct|okt", "nov", "dec|dez"];
const monthNames = "jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|mrz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?|sep(?:t|tember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?";
const monthOf = (s: string) => 1 + monthsOf.findIndex((m) => new RegExp(`^(?:${m})`, "iu").test(s));

const isoDay = (y: number, m: number, d: number): Day | undefined => {
  const t = new Date(Date.UTC(y, m - 1, d));
  return t.getUTCMonth() === m - 1 && t.getUTCDate() === d ? t.toISOString().slice(0, 10) : undefined;
};

/** A day of this year, or of the next where it is past. */
function comingDay(month: number, day: number, today: Day, year?: number): Day | undefined {
  if (year !== undefined) return isoDay(year < 100 ? 2000 + year : year, month, day);
  const here = isoDay(Number(today.slice(0, 4)), month, day);
  return here && here < today ? isoDay(Number(today.slice(0, 4)) + 1, month, day) : here;
}

// Words of Latin scripts stand alone; Chinese has no blanks.
const alone = (of: string) => `(?<![\\p{L}\\p{N}])(?:${of})(?![\\p{L}\\p{N}])`;
const rule = (of: string) => new RegExp(of, "iu");

type Reader = [RegExp, (m: RegExpExecArray, today: Day) => Day | undefined];

const latinDays = Object.keys(weekdaysOf).filter((w) => /^[a-z]{3,}$/u.test(w)).join("|");
const shortDays = "mo|di|mi|do|fr|sa|so";

const dayReaders: Reader[] = [
  [rule(alone("(\\d{4})-(\\d\\d)-(\\d\\d)")), (m) => isoDay(Number(m[1]), Number(m[2]), Number(m[3]))],
  [rule(`(?:(\\d{4})年)?(\\d{1,2})月(\\d{1,2})[日号]`), (m, today) => comingDay(Number(m[2]), Number(m[3]), today, m[1] ? Number(m[1]) : undefined)],
  [rule(`${alone("(?:am |on )?(\\d{1,2})\\.(\\d{1,2})\\.(\\d{2,4})?")}|(?<![\\p{N}.])(?:am )?(\\d{1,2})\\.(\\d{1,2})\\.(?![\\p{N}])`), (m, today) => comingDay(Number(m[2] ?? m[5]), Number(m[1] ?? m[4]), today, m[3] ? Number(m[3]) : undefined)],
  [rule(alone(`(?:on |am )?(\\d{1,2})(?:st|nd|rd|th|\\.)? (?:of )?(${monthNames})\\.?(?: (\\d{4}))?`)), (m, today) => comingDay(monthOf(m[2]!), Number(m[1]), today, m[3] ? Number(m[3]) : undefined)],
  [rule(alone(`(?:on )?(${monthNames})\\.? (\\d{1,2})(?:st|nd|rd|th)?(?:,? (\\d{4}))?`)), (m, today) => comingDay(monthOf(m[1]!), Number(m[2]), today, m[3] ? Number(m[3]) : undefined)],
  [rule(`${alone("day after tomorrow|übermorgen")}|后天`), (_, today) => addDays(today, 2)],
  [rule(`${alone("tomorrow|morgen")}|明天|明日`), (_, today) => addDays(today, 1)],
  [rule(`${alone("today|tonight|heute")}|今天|今日|今晚`), (_, today) => today],
  [rule(`${alone("in (\\d{1,3}) (?:days?|tagen?)")}|(\\d{1,3})天后`), (m, today) => addDays(today, Number(m[1] ?? m[2]))],
  [rule(`${alone("in (\\d{1,2}) (?:weeks?|wochen?)")}|(\\d{1,2})周后`), (m, today) => addDays(today, 7 * Number(m[1] ?? m[2]))],
  [rule(`${alone(`(next |nächsten |nächste |kommenden )?(?:on |am )?(${latinDays})`)}|(下)?(周[一二三四五六日天]|星期[一二三四五六日天])`), (m, today) => comingWeekday(m[2] ?? m[4]!, today, !!(m[1] ?? m[3]))],
  [rule(`(?<![\\p{L}\\p{N}])(?:am )(${shortDays})(?![\\p{L}\\p{N}])`), (m, today) => comingWeekday(m[1]!, today, false)],
];

/** The coming day of a name; next: that of the following week, from Monday on. */
function comingWeekday(word: string, today: Day, next: boolean): Day {
  const wanted = weekdaysOf[word.toLowerCase()]!;
  const ahead = (wanted - weekday(today) + 7) % 7;
  if (!next) return addDays(today, ahead);
  const monday = addDays(today, 7 - ((weekday(today) + 6) % 7));
  return addDays(monday, (wanted + 6) % 7);
}

// No digit or letter goes on here; Chinese is written without blanks.
const endsHere = "(?!\\p{N}|(?!\\p{Script=Han})\\p{L})";
const clock = "(\\d{1,2})(?:[:.h](\\d\\d))?\\s*(am|pm|a\\.m\\.|p\\.m\\.|uhr)?";
const beginsHere = "(?<![\\p{N}.])(?<!(?!\\p{Script=Han})\\p{L})";
const rangeForm = rule(`${beginsHere}(?:from |von |at |um |ab )?${clock}\\s*(?:-|–|to|until|bis|到|至)\\s*${clock}${endsHere}`);
const timeForm = rule(`${beginsHere}(?:(at|um|ab|@)\\s*)?${clock}${endsHere}`);
const chineseForm = rule("(上午|早上|下午|晚上|中午)?\\s*(\\d{1,2})(?:[:：](\\d\\d)|[点时](半|(\\d{1,2})分?)?)");
const wordForm = rule(alone("(?:at )?(noon|midday|midnight)|(?:am |um )?(mittags|mitternacht)"));
const lengthForm = rule(`${alone("(?:for|für) (\\d{1,3}(?:[.,]5)?) ?(minutes?|mins?|minuten|hours?|hrs?|h|stunden?|std|days?|tage?)")}|(\\d{1,3}(?:\\.5)?)个?(小时|分钟|天)`);

function minutesOf(h: string, m: string | undefined, half: string | undefined): number | undefined {
  let hour = Number(h);
  const minute = Number(m ?? 0);
  if (/^p/iu.test(half ?? "") && hour < 12) hour += 12;
  if (/^a/iu.test(half ?? "") && hour === 12) hour = 0;
  return hour < 24 && minute < 60 ? hour * 60 + minute : undefined;
}

/** Reads a line; undefined: it has no words. today is the day on which it is typed. */
export function readQuick(line: string, today: Day): Quick | undefined {
  let rest = ` ${line.trim()} `;
  const out: Quick = { title: "", day: today, days: 1, minutes: usualLength, place: "", people: [] };
  const take = (m: RegExpExecArray) => (rest = `${rest.slice(0, m.index)} ${rest.slice(m.index + m[0].length)}`);
  for (const [form, read] of dayReaders) {
    const m = form.exec(rest);
    const day = m ? read(m, today) : undefined;
    if (!m || !day) continue;
    out.day = day;
    take(m);
    break;
  }
  const length = lengthForm.exec(rest);
  if (length) {
    takeLength(out, Number((length[1] ?? length[3]!).replace(",", ".")), (length[2] ?? length[4]!).toLowerCase());
    take(length);
  }
  rest = takeTime(out, rest);
  const place = /(?:^|\s)(?:in|at|@|im|bei)\s+((?:the |der |dem )?[\p{Lu}\p{N}][^,;]*?)\s*$/u.exec(rest) ?? /在\s*(\S+?)(?=\s|与|和|$)/u.exec(rest);
  if (place) {
    out.place = place[1]!.trim();
    take(place);
  }
  for (const m of rest.matchAll(/(?<![\p{L}])(?:with|mit)\s+(\p{Lu}[\p{L}.'-]*(?:\s+(?:and|und|&)\s+\p{Lu}[\p{L}.'-]*)*)|[与和]\s*(\p{Lu}[\p{L}]*)/gu)) {
    out.people.push(...(m[1] ?? m[2]!).split(/\s+(?:and|und|&)\s+/u));
  }
  out.title = rest.replace(/\s+/gu, " ").replace(/^[\s,;:–-]+|[\s,;:–-]+$/gu, "").trim();
  return out.title ? { ...out, title: out.title[0]!.toUpperCase() + out.title.slice(1) } : undefined;
}

/** A line as a task: "pay rent friday", "call Bob tomorrow 15:00 !". Without a day it has none; from is in minutes from midnight on. */
export interface QuickTask {
  title: string;
  day?: Day;
  from?: number;
  /** The line has an exclamation mark by itself: the task is important. */
  important: boolean;
}

/** Reads a line as a task; undefined: it has no words. */
export function readQuickTask(line: string, today: Day): QuickTask | undefined {
  let rest = ` ${line.trim()} `;
  const out: QuickTask = { title: "", important: /\s!+\s/u.test(rest) };
  rest = rest.replace(/\s!+(?=\s)/gu, " ");
  for (const [form, reader] of dayReaders) {
    const m = form.exec(rest);
    const day = m ? reader(m, today) : undefined;
    if (!m || !day) continue;
    out.day = day;
    rest = `${rest.slice(0, m.index)} ${rest.slice(m.index + m[0].length)}`;
    break;
  }
  const time: Quick = { title: "", day: today, days: 1, minutes: usualLength, place: "", people: [] };
  rest = takeTime(time, rest);
  if (time.from !== undefined) Object.assign(out, { from: time.from, day: out.day ?? today });
  const title = rest.replace(/\s+/gu, " ").replace(/^[\s,;:–-]+|[\s,;:–-]+$/gu, "").replace(/\s(?:by|until|bis|due)$/iu, "").trim();
  return title ? { ...out, title: title[0]!.toUpperCase() + title.slice(1) } : undefined;
}

function takeLength(out: Quick, n: number, unit: string): void {
  if (/^(?:d|tag|天)/u.test(unit)) out.days = Math.max(1, Math.min(365, Math.ceil(n)));
  else out.minutes = Math.max(5, Math.round(n * (/^(?:m|分)/u.test(unit) ? 1 : 60)));
}

/** Takes the time of day out of a line, and returns what is left of it. */
function takeTime(out: Quick, rest: string): string {
  const without = (m: RegExpExecArray) => `${rest.slice(0, m.index)} ${rest.slice(m.index + m[0].length)}`;
  const range = rangeForm.exec(rest);
  if (range && (range[2] || range[5] || range[3] || range[6] || /^(?:from|von)/iu.test(range[0].trim()))) {
    const to = minutesOf(range[4]!, range[5], range[6]);
    const from = minutesOf(range[1]!, range[2], range[3] ?? (/^p/iu.test(range[6] ?? "") && Number(range[1]) <= Number(range[4]) ? range[6] : undefined));
    if (from !== undefined && to !== undefined) {
      Object.assign(out, { from, minutes: to > from ? to - from : to + 1440 - from });
      return without(range);
    }
  }
  const chinese = chineseForm.exec(rest);
  if (chinese && (chinese[1] || /[点时：]/u.test(chinese[0]))) {
    const evening = /[下晚]/u.test(chinese[1] ?? "") || (chinese[1] === "中午" && Number(chinese[2]) < 11);
    const from = minutesOf(chinese[2]!, chinese[3] ?? (chinese[4] === "半" ? "30" : chinese[5]), evening ? "pm" : undefined);
    if (from !== undefined) {
      out.from = from;
      return without(chinese);
    }
  }
  const word = wordForm.exec(rest);
  if (word) {
    out.from = /^(?:noon|midday|mittags)$/iu.test(word[1] ?? word[2]!) ? 720 : 0;
    return without(word);
  }
  for (let at = 0; ;) {
    const m = timeForm.exec(rest.slice(at));
    if (!m) return rest;
    const from = m[1] || m[3] || m[4] ? minutesOf(m[2]!, m[3], m[4]) : undefined;
    if (from !== undefined) {
      out.from = from;
      return `${rest.slice(0, at + m.index)} ${rest.slice(at + m.index + m[0].length)}`;
    }
    at += m.index + m[0].length;
  }
}
