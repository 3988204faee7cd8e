// One set of icons, drawn on a grid of 24 with a line of 1.7, and the domino.

const paths = {
  inbox: "M4 13l2.5-8h11L20 13v5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1zM4 13h5l1.5 2.5h3L15 13h5",
  drafts: "M5 19l1-4L16.5 4.5a1.8 1.8 0 0 1 2.6 0l.4.4a1.8 1.8 0 0 1 0 2.6L9 18zM14.5 6.5l3 3",
  sent: "M4 12l16-8-5 16-3.5-6.5zM11.5 13.5L20 4",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 13h4",
  junk: "M12 3l8 4v5c0 5-3.5 7.7-8 9-4.5-1.3-8-4-8-9V7zM9 10l6 5M15 10l-6 5",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7M10.5 11v5M13.5 11v5",
  folder: "M4 6.5A1.5 1.5 0 0 1 5.5 5H10l2 2.5h6.5A1.5 1.5 0 0 1 20 9v8.5a1.5 1.5 0 0 1-1.5 1.5h-13A1.5 1.5 0 0 1 4 17.5z",
  shared: "M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3.5 19c.4-3.2 2.6-5 5.500-5s5.100 1.800 5.500 5M16 11a2.500 2.500 0 1 0-1-4.800M16.500 14c2.200.3 3.700 2 4 4.500",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16.2 16.2L21 21",
  warning: "M12 4L3 19.500h18zM12 10v4.500M12 17h.01",
  close: "M6 6l12 12M18 6L6 18",
  menu: "M4 7h16M4 12h16M4 17h16",
  back: "M15 5l-7 7 7 7",
  reply: "M10 6L4 12l6 6M4 12h9c4 0 6.500 2 7 6",
  replyAll: "M8 7l-5 5 5 5M13 7l-5 5 5 5M8 12h6c3.500 0 5.700 1.800 6.500 5",
  forward: "M14 6l6 6-6 6M20 12h-9c-4 0-6.500 2-7 6",
  redirect: "M4 8h12l-3.500-3.500M16 8l-3.500 3.500M20 16H8l3.500 3.500M8 16l3.500-3.500",
  flag: "M6 21V4M6 5c4-2.500 7 2.500 12 0v8c-5 2.500-8-2.500-12 0",
  attach: "M19 11.500l-7.500 7.500a4.500 4.500 0 0 1-6.400-6.400L13 4.700a3 3 0 0 1 4.300 4.200l-7.500 7.500a1.500 1.500 0 0 1-2.200-2.100L14.500 7.500",
  unread: "M4 6h16v12H4zM4 7l8 6 8-6",
  read: "M4 10l8-6 8 6v9H4zM4 10l8 6 8-6",
  move: "M4 6.500A1.500 1.500 0 0 1 5.500 5H10l2 2.500h6.500A1.500 1.500 0 0 1 20 9v8.500a1.500 1.500 0 0 1-1.500 1.500h-13A1.500 1.500 0 0 1 4 17.500zM9 13.500h6M12.500 11l2.500 2.500-2.500 2.500",
  block: "M12 20.500a8.500 8.500 0 1 0 0-17 8.500 8.500 0 0 0 0 17zM6 6l12 12",
  rule: "M4 6h16M7 12h10M10 18h4",
  up: "M6 15l6-6 6 6",
  down: "M6 9l6 6 6-6",
  leave: "M4 6h16v7M4 6v12h9M4 7l8 6 8-6M16 16l5 5M21 16l-5 5",
  font: "M4 19l5.500-14 5.500 14M6 14h7M16 19l2.500-7 2.500 7M17 17h3.500",
  colour: "M6 15L11 4h2l5 11M8 11h8M4 19.500h16",
  template: "M5 4h14v16H5zM8.500 8h7M8.500 12h3M14 12h1.500M8.500 16h7",
  table: "M4 5h16v14H4zM4 10h16M4 14.500h16M9.500 5v14M14.500 5v14",
  eye: "M3 12c3-5 6-7 9-7s6 2 9 7c-3 5-6 7-9 7s-6-2-9-7zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6z",
  pin: "M9 4h6l-1 6 3 3H7l3-3zM12 13v7",
  mute: "M6 10v4h3l4 3.500V6.500L9 10zM16 10l4 4M20 10l-4 4",
  sort: "M7 5v14M7 19l-3-3M7 19l3-3M13 7h7M13 12h5M13 17h3",
  star: "M12 4l2.500 5.200 5.500.800-4 4 1 5.600-5-2.700-5 2.700 1-5.600-4-4 5.500-.800z",
  label: "M4 5h8l8 8-7 7-9-9zM8 9h.01",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.500 2",
  print: "M7 9V4h10v5M7 16H4V9h16v7h-3M7 13h10v7H7z",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5",
  more: "M5.3 12a.7.7 0 1 0 1.4 0a.7.7 0 1 0-1.4 0M11.3 12a.7.7 0 1 0 1.4 0a.7.7 0 1 0-1.4 0M17.3 12a.7.7 0 1 0 1.4 0a.7.7 0 1 0-1.4 0",
  settings: "M4 7h9M18 7h2M15.500 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM4 17h2M11 17h9M8.500 19.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z",
  write: "M12 5v14M5 12h14",
  keyboard: "M3 7h18v10H3zM7 10.500h.01M11 10.500h.01M15 10.500h.01M8 14h8",
  out: "M14 4H5v16h9M10 12h11M17.500 8.500L21 12l-3.500 3.500",
  send: "M4 12l16-8-5 16-3.500-6.500zM11.500 13.500L20 4",
  bold: "M7 5h6a3.500 3.500 0 0 1 0 7H7zM7 12h7a3.500 3.500 0 0 1 0 7H7z",
  italic: "M10 5h7M7 19h7M14 5l-4 14",
  underline: "M7 4v7a5 5 0 0 0 10 0V4M6 20h12",
  list: "M9 6h11M9 12h11M9 18h11M4.500 6h.01M4.500 12h.01M4.500 18h.01",
  numbers: "M10 6h10M10 12h10M10 18h10M4 5l1.500-1v4M4 16.500c0-2 3-2 3 0 0 1-3 2-3 3h3",
  quote: "M7 7v6H4c0-4 1-6 3-6zM7 13c0 2-1 3.500-3 4M17 7v6h-3c0-4 1-6 3-6zM17 13c0 2-1 3.500-3 4",
  link: "M10 14a4 4 0 0 0 6 .500l3-3a4 4 0 0 0-6-6l-1.500 1.500M14 10a4 4 0 0 0-6-.500l-3 3a4 4 0 0 0 6 6l1.500-1.500",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 2.500-2.500L20 17M15 9h.01",
  expand: "M14 4h6v6M20 4l-7 7M10 20H4v-6M4 20l7-7",
  shrink: "M20 10h-6V4M14 10l6-6M4 14h6v6M10 14l-6 6",
  offline: "M4 4l16 16M8.500 8A6 6 0 0 0 6 11a4 4 0 0 0 1 7.900h9M18.500 17.700A4 4 0 0 0 18 11a6 6 0 0 0-6-4",
  download: "M12 4v11M7.500 11l4.500 4.500 4.500-4.500M5 20h14",
  plus: "M12 6v12M6 12h12",
  clear: "M6 6h11M11.500 6L9 18M4 20L20 4",
  overview: "M4 4h7v9H4zM13 4h7v5h-7zM13 11h7v9h-7zM4 15h7v5H4z",
  group: "M12 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM6 19c.4-3.500 2.800-5.500 6-5.500s5.600 2 6 5.500M5 11.500a2.200 2.200 0 1 1 1-4.200M2.500 17c.2-2 1-3.300 2.500-4M19 11.500a2.200 2.200 0 1 0-1-4.200M21.500 17c-.2-2-1-3.300-2.500-4",
  database: "M4 6.500C4 5 7.600 4 12 4s8 1 8 2.500S16.400 9 12 9 4 8 4 6.500zM4 6.500v11C4 19 7.600 20 12 20s8-1 8-2.500v-11M4 12c0 1.500 3.600 2.500 8 2.500s8-1 8-2.500",
  queue: "M4 4h16v5H4zM5.500 9v3M18.500 9v3M4 12h16v3H4zM6 18.500h12",
  device: "M4 5h16v10H4zM9 19h6M12 15v4",
  globe: "M12 20.500a8.500 8.500 0 1 0 0-17 8.500 8.500 0 0 0 0 17zM3.500 12h17M12 3.500c5 5 5 12 0 17-5-5-5-12 0-17",
  cluster: "M9.500 3.500h5v5h-5zM3.500 15.500h5v5h-5zM15.500 15.500h5v5h-5zM11 8.500l-4 7M13 8.500l4 7M8.500 18h7",
  chart: "M4 4v16h16M7.500 15l3.500-5 3 3 5-7",
  log: "M5 4h14v16H5zM8.500 8h7M8.500 12h7M8.500 16h4",
  terminal: "M4 5h16v14H4zM7.500 9.500l3 2.500-3 2.500M12.500 15h4",
  key: "M8 16a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM12.500 11.500H21M17.500 11.500V15M20.500 11.500V14",
  lock: "M6 11h12v9H6zM8.500 11V8a3.500 3.500 0 0 1 7 0v3",
  pause: "M8.500 5v14M15.500 5v14",
  play: "M7 4.500l12 7.500-12 7.500z",
  refresh: "M19.500 12a7.500 7.500 0 1 1-2.500-5.600M19.500 3.500v4.500H15",
  calendar: "M4 6h16v14H4zM4 10.500h16M8.500 3.500v4M15.500 3.500v4M8 14h2M14 14h2M8 17h2",
  contacts: "M6 4h13v16H6zM3.500 8H6M3.500 12H6M3.500 16H6M12.500 11.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM9 16.500c.3-2 1.600-3 3.500-3s3.200 1 3.500 3",
  place: "M12 21c4.500-5 6.500-8 6.500-11a6.500 6.500 0 0 0-13 0c0 3 2 6 6.500 11zM12 12.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z",
  repeat: "M5 11a6 6 0 0 1 6-5h7M15 3l3 3-3 3M19 13a6 6 0 0 1-6 5H6M9 21l-3-3 3-3",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l1.500 2h-15zM10 18a2 2 0 0 0 4 0",
  phone: "M6 4h3l1.500 4.500L8.500 10c1 2.500 3 4.500 5.500 5.500l1.500-2 4.500 1.500v3c0 1-1 2-2 2C10.500 20 4 13.500 4 6c0-1 1-2 2-2z",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  next: "M9 5l7 7-7 7",
  check: "M4.500 12.500l5 5 10-11",
  warn: "M12 4l9 16H3zM12 10v4.500M12 17.200h.01",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, class: extra = "" }: { name: IconName; class?: string }) {
  return (
    <svg class={`icon ${extra}`} viewBox="0 0 24 24" aria-hidden="true">
      <path d={paths[name]} />
    </svg>
  );
}

// The places of the pips of 0 to 6 in a half of 10 by 10.
const pips: [number, number][][] = [
  [],
  [[5, 5]],
  [[3, 3], [7, 7]],
  [[2.6, 2.6], [5, 5], [7.4, 7.4]],
  [[3, 3], [7, 3], [3, 7], [7, 7]],
  [[2.6, 2.6], [7.4, 2.6], [5, 5], [2.6, 7.4], [7.4, 7.4]],
  [[3, 2.3], [7, 2.3], [3, 5], [7, 5], [3, 7.7], [7, 7.7]],
];

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  h ^= h >>> 13;
  h = Math.imul(h, 0x5bd1e995);
  return (h ^ (h >>> 15)) >>> 0;
}

/** The initials of a name, one or two; of an address that has none. "": neither has a letter or digit. */
function initials(name: string, address: string): string {
  const first = (word: string) => /[\p{L}\p{N}]/u.exec(word)?.[0].toUpperCase() ?? "";
  const words = (name || address.split("@")[0] || "").split(/[\s.,_-]+/u).filter(first);
  // A name in a script without blanks begins with that of the family.
  if (words.length < 2 || /\p{Script=Han}|\p{Script=Hangul}/u.test(words[0]!)) return first(words[0] ?? "");
  const [a, b] = name.includes(",") ? [words[1]!, words[0]!] : [words[0]!, words[words.length - 1]!];
  return first(a) + first(b);
}

/** A sender's domino: hue and pips are the same for the same address, anywhere; the initials of a name are on it. */
export function Domino({ of, name, size = 38 }: { of: string; name?: string | undefined; size?: number }) {
  const h = hash(of.toLowerCase());
  const hues = [168, 190, 210, 235, 262, 290, 318, 340, 12, 28, 45, 70, 95, 130];
  return <DominoFace a={1 + (h % 6)} b={1 + ((h >>> 8) % 6)} hue={hues[(h >>> 16) % hues.length]!} size={size} letters={name === undefined ? "" : initials(name, of)} />;
}

/** A domino with a and b pips; letters stand in the place of the pips of a half, the first in the upper one. */
export function DominoFace({ a, b, hue, size, x, y, letters = "" }: { a: number; b: number; hue: number; size: number; x?: number; y?: number; letters?: string }) {
  const glyphs = [...letters];
  return (
    <svg class="domino" viewBox="0 0 12 22" width={(size * 12) / 22} height={size} {...(x === undefined ? {} : { x, y })} aria-hidden="true" ref={(e: SVGSVGElement | null) => e?.style.setProperty("--hue", String(hue))}>
      <rect class="face" x="0.5" y="0.500" width="11" height="21" rx="2.200" stroke-width="0.700" />
      <rect class="bar" x="2.500" y="10.750" width="7" height="0.500" />
      {glyphs.map((c, half) => <text class="initial" x="6" y={half === 0 ? 8.5 : 18.8} text-anchor="middle">{c}</text>)}
      {[a, b].map((n, half) => !glyphs[half] && pips[n]!.map(([x, y]) => <circle class="pip" cx={x + 1} cy={y + (half === 0 ? 1 : 11)} r="0.950" />))}
    </svg>
  );
}
