/** Formats tables, JSON and ages for people. */

const quantity = /^[\d.]+( (×|s|ms|B|[KMGT]iB))?$/;

/** Formats rows as a table. Columns of numbers are aligned to the right, except the first column. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const areNumbers = head.map((_, column) => column > 0 && rows.every((row) => quantity.test(row[column] ?? "")));
  return all
    .map((row) =>
      row
        .map((cell, column) => cell[areNumbers[column] ? "padStart" : "padEnd"](widths[column] ?? 0))
        .join("   ")
        .trimEnd(),
    )
    .join("\n");
}

/** Formats an age, for example as `3 minutes ago`. */
export function formatAge(ms: number): string {
  const steps = [
    [86_400_000, "day"],
    [3_600_000, "hour"],
    [60_000, "minute"],
    [1000, "second"],
  ] as const;
  for (const [length, name] of steps) {
    const count = Math.floor(ms / length);
    if (count > 0) return `${count} ${name}${count === 1 ? "" : "s"} ago`;
  }
  return "just now";
}

/** Formats JSON with indentation. Lists of numbers take one line. */
export function formatJson(value: unknown): string {
  return JSON.stringify(value, null, 2).replaceAll(/\[\s+([-+\d.eE,\s]+?)\s+\]/g, (_, numbers: string) => {
    return `[${numbers.replaceAll(/\s+/g, " ")}]`;
  });
}
