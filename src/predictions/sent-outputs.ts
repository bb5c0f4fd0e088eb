/** Ranges of the outputs that an event stream has sent. Outputs mostly arrive in order, so few ranges suffice. */

/** Maximum ranges in an event id. After a reconnection, outputs outside these ranges are sent again. */
const MAX_RANGES = 50;

export class SentOutputs {
  /** First and last index of each range, in ascending order. Adjacent ranges are merged. */
  readonly #ranges: [number, number][] = [];

  /** @param text result of `toString`. The constructor ignores the text from the first invalid range on. */
  constructor(text = "") {
    let least = 0;
    for (const part of text.split(",", MAX_RANGES)) {
      const [, first = Number.NaN, last = Number.NaN] = (/^(\d+)-(\d+)$/.exec(part) ?? []).map(Number);
      if (!(first >= least && last >= first)) return;
      this.#ranges.push([first, last]);
      least = last + 2;
    }
  }

  add(index: number): void {
    const next = this.#ranges.findIndex(([first]) => first > index);
    const at = next < 0 ? this.#ranges.length : next;
    const [before, after] = [this.#ranges[at - 1], this.#ranges[at]];
    const [first, from] = before?.[1] === index - 1 ? [before[0], at - 1] : [index, at];
    const [last, to] = after?.[0] === index + 1 ? [after[1], at + 1] : [index, at];
    this.#ranges.splice(from, to - from, [first, last]);
  }

  has(index: number): boolean {
    return this.#ranges.some(([first, last]) => index >= first && index <= last);
  }

  /** The lowest index of an output that exists and was not sent; undefined if there is none. */
  next(outputs: readonly unknown[]): number | undefined {
    let range = 0;
    for (let index = 0; index < outputs.length; index++) {
      const [first = Infinity, last = 0] = this.#ranges[range] ?? [];
      if (index >= first) {
        index = last;
        range += 1;
      } else if (outputs[index] !== undefined) return index;
    }
    return undefined;
  }

  toString(): string {
    return this.#ranges
      .slice(0, MAX_RANGES)
      .map((range) => range.join("-"))
      .join(",");
  }
}
