/** The maximum of recent values. */

/** Of a span of time that values are taken together of. */
const SPAN_MS = 1000;

/** The largest of the values of the last one to two seconds; 0 when there was none above. */
export class RecentMost {
  #endsAtMs = 0;
  #most = 0;
  #before = 0;

  observe(value: number, nowMs: number): void {
    this.#turn(nowMs);
    if (value > this.#most) this.#most = value;
  }

  at(nowMs: number): number {
    this.#turn(nowMs);
    return Math.max(this.#most, this.#before);
  }

  #turn(nowMs: number): void {
    if (nowMs < this.#endsAtMs) return;
    this.#before = nowMs < this.#endsAtMs + SPAN_MS ? this.#most : 0;
    this.#most = 0;
    this.#endsAtMs = nowMs + SPAN_MS;
  }
}
