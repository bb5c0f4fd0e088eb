/** What zod says of a length that a value of another kind happens to have: it measures a list where a text is expected. */
import type * as z from "./z.ts";

type Issue = Pick<z.core.$ZodIssue | z.core.$ZodRawIssue, "code" | "path">;

/** Issues without those of lengths of values that are of a wrong kind. */
export function withoutLengths<I extends Issue>(issues: readonly I[]): I[] {
  let last: Issue | undefined;
  return issues.filter((issue) => {
    const isLength = issue.code === "too_small" || issue.code === "too_big";
    // What is checked of a value comes right behind what is said of its kind.
    if (isLength && last?.code === "invalid_type" && areSame(issue.path, last.path)) return false;
    last = issue;
    return true;
  });
}

function areSame(path: readonly PropertyKey[] = [], other: readonly PropertyKey[] = []): boolean {
  return path.length === other.length && path.every((part, i) => part === other[i]);
}
