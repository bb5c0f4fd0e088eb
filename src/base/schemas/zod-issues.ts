/**
 * Improves zod's messages: for unions, where zod only says "Invalid input", and for lengths of values of a wrong type.
 */
import type * as z from "zod";

type Issue = z.core.$ZodIssue;

/**
 * Replaces each union issue by the issues of the closest option, or by a list of the expected types.
 * @param replaced results by issue. A recursive union repeats issues in its options, so the work would grow
 * exponentially without them.
 */
export function withoutUnions(
  issues: readonly Issue[],
  replaced = new Map<Issue, readonly Issue[]>(),
): readonly Issue[] {
  return withoutLengths(issues).flatMap((issue) => {
    const nearest = replaced.get(issue) ?? nearestOf(issue, replaced);
    replaced.set(issue, nearest);
    return nearest;
  });
}

function nearestOf(issue: Issue, replaced: Map<Issue, readonly Issue[]>): readonly Issue[] {
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return [issue];
  const options = issue.errors.map((option) => withoutUnions(option, replaced));
  // An option that refuses the value's type is never the closest, however few issues it has.
  const near = options.filter((option) => !option.every(isOfKind));
  const best = near.toSorted((a, b) => a.length - b.length)[0];
  if (best === undefined) return [{ ...issue, errors: [], message: alternatives(options.flat()) }];
  return best.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
}

/** Whether the issue rejects the type of the whole value. A wrong literal and a nested union count too. */
function isOfKind({ code, path }: Issue): boolean {
  return path.length === 0 && (code === "invalid_type" || code === "invalid_value" || code === "invalid_union");
}

/** A message such as `Invalid input: expected string or number, received boolean`. */
function alternatives(issues: readonly Issue[]): string {
  const expected = new Set<string>();
  let received = "";
  for (const { message } of issues) {
    const [, what = message, given] = /^(?:Invalid \w+: e|E)xpected (.*?)(?:, received ([^,]*))?$/s.exec(message) ?? [];
    expected.add(what);
    if (given !== undefined) received = `, received ${given}`;
  }
  return `Invalid input: expected ${[...expected].join(" or ")}${received}`;
}

type AnyIssue = Pick<z.core.$ZodIssue | z.core.$ZodRawIssue, "code" | "path">;

/** Removes length issues of values of a wrong type: for a list in place of a string, zod reports both. */
export function withoutLengths<I extends AnyIssue>(issues: readonly I[]): I[] {
  let last: AnyIssue | undefined;
  return issues.filter((issue) => {
    const isLength = issue.code === "too_small" || issue.code === "too_big";
    // zod reports the length issue right after the type issue of a value.
    if (isLength && last?.code === "invalid_type" && areSame(issue.path, last.path)) return false;
    last = issue;
    return true;
  });
}

function areSame(path: readonly PropertyKey[] = [], other: readonly PropertyKey[] = []): boolean {
  return path.length === other.length && path.every((part, i) => part === other[i]);
}
