/** Percentiles of what was measured: values that occurred, by nearest rank. */

/**
 * The least value that at least this share of all values does not exceed; NaN where there are none.
 *
 * @param share above 0, at most 1
 */
export function percentile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
