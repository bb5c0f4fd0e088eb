/** Draws a chart of latencies against load with text characters. */

export interface Curve {
  /** The character that draws the curve's points. */
  readonly mark: string;
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface ChartOptions {
  /** Size of the chart without its labels, in characters. */
  readonly width: number;
  readonly height: number;
  readonly xName: string;
  readonly yName: string;
  formatX(value: number): string;
  formatY(value: number): string;
}

/** Draws a chart with a logarithmic y axis. @returns its lines; an empty array without points */
export function chart(
  curves: readonly Curve[],
  { width, height, xName, yName, formatX, formatY }: ChartOptions,
): string[] {
  const points = curves.flatMap((curve) => curve.points).filter(([, y]) => y > 0);
  if (points.length === 0) return [];
  const maxX = Math.max(...points.map(([x]) => x));
  const [low, high] = [Math.min(...points.map(([, y]) => y)), Math.max(...points.map(([, y]) => y))];
  const decades = Math.max(Math.log10(high / low), 1e-9);
  const rows = Array.from({ length: height }, () => Array<string>(width).fill(" "));
  const rowOf = (y: number) => height - 1 - Math.round((Math.log10(y / low) / decades) * (height - 1));
  for (const { mark, points: own } of curves) {
    for (const [x, y] of own) {
      if (!(y > 0)) continue;
      const row = rows[rowOf(y)];
      if (row !== undefined) row[Math.round((x / maxX) * (width - 1))] = mark;
    }
  }
  const labels = rows.map((_, i) => {
    const isLabelled = i === 0 || i === height - 1 || i === Math.floor((height - 1) / 2);
    return isLabelled ? formatY(low * 10 ** ((decades * (height - 1 - i)) / (height - 1))) : "";
  });
  const margin = Math.max(...labels.map((label) => label.length));
  const end = formatX(maxX);
  return [
    `${" ".repeat(margin)} ${yName}: ${curves.map(({ mark, name }) => `${mark} ${name}`).join(", ")}`,
    ...rows.map((row, i) => `${(labels[i] ?? "").padStart(margin)} ┤${row.join("").trimEnd()}`),
    `${" ".repeat(margin)} └${"─".repeat(width)}`,
    `${" ".repeat(margin)}  0${end.padStart(width - 1)}  ${xName}`,
  ];
}
