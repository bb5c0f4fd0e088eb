/** Drops misleading length issues of zod: for a list where a string is expected, zod also reports the list's length. */
import type * as z from "./z.ts";

type Issue = Pick<z.core.$ZodIssue | z.core.$ZodRawIssue, "code" | "path">;

/** Removes length issues of values that have the wrong type. */
export function withoutLengths<I extends Issue>(issues: readonly I[]): I[] {
  let last: Issue | undefined;
  return issues.filter((issue) => {
    const isLength = issue.code === "too_small" || issue.code === "too_big";
    // zod reports the issues of a value's checks right after its type issue.
    if (isLength && last?.code === "invalid_type" && areSame(issue.path, last.path)) return false;
    last = issue;
    return true;
  });
}

function areSame(path: readonly PropertyKey[] = [], other: readonly PropertyKey[] = []): boolean {
  return path.length === other.length && path.every((part, i) => part === other[i]);
}
