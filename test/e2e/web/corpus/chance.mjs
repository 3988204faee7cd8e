// Seeded choices, texts and pictures for the letters of the corpus: the same seed makes the same letter.

import { PNG } from "pngjs";

/** Choices from a seed (mulberry32). */
export class Chance {
  #state;
  constructor(seed) {
    this.#state = seed;
  }

  /** A number from 0 up to, but not including, n. */
  below(n) {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) / 4294967296) * n | 0;
  }

  from(low, high) {
    return low + this.below(high - low + 1);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  words(n, of = latin) {
    return Array.from({ length: n }, () => this.pick(of)).join(" ");
  }

  title(of = latin) {
    const text = this.words(this.from(2, 5), of);
    return text[0].toUpperCase() + text.slice(1);
  }

  sentence(of = latin, stop = ".") {
    const text = this.words(this.from(6, 18), of);
    return text[0].toUpperCase() + text.slice(1) + stop;
  }

  text(n = 3, of = latin, stop = ".") {
    return Array.from({ length: n }, () => this.sentence(of, stop)).join(" ");
  }

  price() {
    return `${this.from(1, 299)}.${this.pick(["00", "50", "90", "99"])}`;
  }

  list(low, high, make) {
    return Array.from({ length: this.from(low, high) }, (_, i) => make(i)).join("\n");
  }

  brand() {
    return this.pick(["#d62828", "#003049", "#2a6f97", "#1b7a4b", "#6a4c93", "#e85d04", "#0a0908", "#b5179e"]);
  }

  pale() {
    return this.pick(["#f4f4f4", "#eeeeee", "#fdf6e3", "#eaf4f4", "#f6f0fa", "#f2f2f7"]);
  }

  sans() {
    return this.pick(["Arial,Helvetica,sans-serif", "'Helvetica Neue',Helvetica,Arial,sans-serif", "Verdana,Geneva,sans-serif", "'Segoe UI',Tahoma,sans-serif", "Georgia,'Times New Roman',serif", "'Open Sans',Arial,sans-serif"]);
  }
}

export const latin = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore et dolore magna aliqua enim minim veniam quis nostrud exercitation ullamco laboris nisi aliquip ex ea commodo consequat duis aute irure in reprehenderit voluptate velit esse cillum fugiat nulla pariatur".split(" ");
export const hebrew = "שלום לכולם תודה רבה על ההזמנה שלכם המשלוח יצא לדרך ויגיע מחר בבוקר אפשר לעקוב אחריו באתר שלנו עם מספר ההזמנה מבצע סוף עונה חדש בחנות".split(" ");
export const arabic = "مرحبا بكم في نشرتنا الأسبوعية شكرا على طلبكم تم شحن الطلب وسيصل غدا صباحا يمكنكم متابعة الشحنة على موقعنا عرض خاص لنهاية الموسم".split(" ");
export const chinese = "您的订单 已经发货 预计明天 送达 请注意 查收 感谢您的 支持 本周 新品 上架 全场 八折 优惠 活动 截止到 月底".split(" ");
export const japanese = "ご注文 ありがとう ございます 商品は 本日 発送 いたしました お届け 予定日 は 明日 です 新着 情報 を ご覧 ください".split(" ");
export const korean = "주문해 주셔서 감사합니다 상품이 발송되었습니다 내일 도착할 예정입니다 이번 주 신상품을 확인해 보세요".split(" ");

/** A PNG of one colour with a darker border and a diagonal, so that a picture that is stretched, cut or turned is seen. */
export function png(width, height, colour) {
  const rgb = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  const dark = rgb.map((x) => x >> 1);
  const image = new PNG({ width, height });
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at += 4) {
      const edge = x < 2 || y < 2 || x >= width - 2 || y >= height - 2 || Math.abs(x * height - y * width) < height;
      image.data.set([...(edge ? dark : rgb), 255], at);
    }
  }
  return PNG.sync.write(image);
}

/** The server of pictures, which the test answers for: /WIDTHxHEIGHT-RRGGBB.png. */
export const pictures = "https://pictures.example";
export const picture = (width, height, colour) => `${pictures}/${width}x${height}-${colour.slice(1)}.png`;

/** The picture of an address of picture, or nothing. */
export function pictureAt(url) {
  const m = /\/(\d+)x(\d+)-([0-9a-f]{6})\.png$/.exec(url);
  return m ? png(Number(m[1]), Number(m[2]), `#${m[3]}`) : undefined;
}

export const dataPicture = (width, height, colour) => `data:image/png;base64,${png(width, height, colour).toString("base64")}`;
