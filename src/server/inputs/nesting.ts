/** How deeply inputs may be nested: what follows them calls itself for each level, and names each in the place of a fault. */

/** Levels of lists and objects in a body. */
export const MAX_LEVELS = 2000;

/** Whether a JSON value has more levels than are taken. */
export function isTooDeep(value: unknown): boolean {
  return typeof value === "object" && value !== null && isDeeper(value, MAX_LEVELS);
}

function isDeeper(value: object, levels: number): boolean {
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    // Lists of numbers can be long: an element costs one `typeof` and no call.
    for (const element of value)
      if (typeof element === "object" && element && isDeeper(element, levels - 1)) return true;
    return false;
  }
  for (const element of Object.values(value)) {
    if (typeof element === "object" && element && isDeeper(element, levels - 1)) return true;
  }
  return false;
}
