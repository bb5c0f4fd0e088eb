/** Formats a duration: `0.12 ms`, `1.5 ms`, `120 ms`. */
export function milliseconds(ms: number): string {
  return `${rounded(ms)} ms`;
}

/** Rounds to two significant digits, or to an integer from 100 on; never uses an exponent. */
export function rounded(value: number): string {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(2)));
}
