/** What is asked of JSON values in many places. */

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A JSON pointer (RFC 6901) to a place. */
export function pointerTo(path: readonly PropertyKey[]): string {
  return path.map((part) => `/${String(part).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** What a reference such as `#/$defs/tree` leads to; undefined where that is nothing. */
export function targetOf(reference: string, root: unknown): unknown {
  const parts = reference.split("/").slice(1);
  return parts
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((value, part) => (isObject(value) ? value[part] : undefined), root);
}
