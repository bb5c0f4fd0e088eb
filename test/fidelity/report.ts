/** The report of a suite as text: counts, refusals by reason and group, and wrong results with their programs. */
import type { Counted } from "./suite.ts";
import { type Outcome, outcomes, type Verdict } from "./verdict.ts";

const SHOWN = 40;

export function report(name: string, { programs, counts, skipped, refused, beyond, wrong }: Counted): string {
  const runs = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const lines = [
    `${name}: ${programs} programs, ${runs} runs, ${new Set(wrong.map((each) => each.case)).size} programs wrong`,
  ];
  for (const [outcome, title] of Object.entries(outcomes)) {
    const count = counts.get(outcome as Outcome) ?? 0;
    if (count > 0) lines.push(`  ${String(count).padStart(7)}  ${title}`);
  }
  lines.push(`  ${String(skipped.length).padStart(7)}  not made: PyTorch does not export or save them`);
  if (refused.length > 0) lines.push("refused, by reason:", ...tally(refused));
  for (const { case: program, run, detail, source } of beyond) {
    lines.push(`≈ ${program} (${run}): ${outcomes.beyond}: ${detail}`, `    ${source}`);
  }
  const faulty = new Map(wrong.map((each) => [each.case, each]));
  for (const { case: program, source } of [...faulty.values()].slice(0, SHOWN)) {
    for (const { run, outcome, detail } of wrong.filter((each) => each.case === program)) {
      lines.push(`✗ ${program} (${run}): ${outcomes[outcome]}: ${detail}`);
    }
    lines.push(...source.split("\n").map((line) => `    ${line}`));
  }
  if (faulty.size > SHOWN) lines.push(`… and ${faulty.size - SHOWN} more programs`);
  return lines.join("\n");
}

/** Lines with the reasons of refusals and their groups, most frequent first. */
function tally(verdicts: readonly Verdict[]): string[] {
  const groups = new Map<string, { count: number; names: Set<string> }>();
  for (const { detail, group } of verdicts) {
    const reason = reasonOf(detail);
    const entry = groups.get(reason) ?? { count: 0, names: new Set() };
    entry.count++;
    entry.names.add(group);
    groups.set(reason, entry);
  }
  const sorted = [...groups].sort(([, a], [, b]) => b.count - a.count);
  return sorted.map(
    ([reason, { count, names }]) => `  ${String(count).padStart(7)}  ${reason} (${[...names].join(", ")})`,
  );
}

/** The reason of a refusal, without sizes and names, which differ between programs. */
export function reasonOf(detail: string): string {
  const [first = ""] = detail.replace(/^.*?\.weights can't be run uncompiled: /s, "").split("\n");
  return first
    .replace(/weights "?\d+\.weights"?:?/, "")
    .replace(/\b\d+(\.\d+)?\b/g, "N")
    .slice(0, 140)
    .trim();
}
