/** What to say where a value fits no option of a union: zod itself says no more than "Invalid input". */
import { withoutLengths } from "./length-issues.ts";
import type * as z from "./z.ts";

type Issue = z.core.$ZodIssue;

/** Issues in which each of a union is those of its nearest option, or one that lists what all options take. */
export function withoutUnions(issues: readonly Issue[]): readonly Issue[] {
  return new Unions().without(issues);
}

class Unions {
  /** By issue: zod has one of them in several options, at each level of a value in a recursive union, so that there are as many ways to it as 2 to the power of these. */
  readonly #made = new Map<Issue, readonly Issue[]>();

  without(issues: readonly Issue[]): readonly Issue[] {
    return withoutLengths(issues).flatMap((issue) => {
      const made = this.#made.get(issue) ?? this.#nearest(issue);
      this.#made.set(issue, made);
      return made;
    });
  }

  #nearest(issue: Issue): readonly Issue[] {
    if (issue.code !== "invalid_union" || issue.errors.length === 0) return [issue];
    const options = issue.errors.map((option) => this.without(option));
    // An option of another kind than the value is no near one, however few its issues.
    const near = options.filter((option) => !option.every(isOfKind));
    const best = near.toSorted((a, b) => a.length - b.length)[0];
    if (best === undefined) return [{ ...issue, errors: [], message: alternatives(options.flat()) }];
    return best.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
  }
}

/** Whether an issue says that the value as a whole is of another kind; what options of a union are told as is such an issue too. */
function isOfKind({ code, path }: Issue): boolean {
  return path.length === 0 && (code === "invalid_type" || code === "invalid_value" || code === "invalid_union");
}

/** `Invalid input: expected string or number, received boolean` */
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
